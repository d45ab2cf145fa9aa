"""The tables of one store as files of another: what is gone from a table is gone from its file."""

import sqlite3

from kfm import Output, Plan, Step, Updater


class Sync(Updater):
    id = "sync"
    version = "1.0.0"
    tables = ("customers", "orders")

    def inputs(self, trigger, sources):
        return [sources.pin("shop")]

    def plan(self, inputs):
        steps = [Step(id=table, key=(table,), params={"table": table}) for table in self.tables]
        return Plan(steps, complete=True)

    def perform(self, step, read):
        store = sqlite3.connect(":memory:")
        store.row_factory = sqlite3.Row
        store.executescript(read.text(0))  # a dump, as `sqlite3 shop.db .dump` writes it
        rows = store.execute(f"SELECT * FROM {step.params['table']} ORDER BY id")
        return Output.ndjson(dict(row) for row in rows)
