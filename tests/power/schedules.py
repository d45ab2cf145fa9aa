"""Small programs over the real journal and the real object store, cut anywhere and taken up again.

One seed is one schedule: what is written, where the power fails or the process is killed (also while it
recovers), what the disk kept. An observer outside the store notes what was acknowledged, and after
every restart everything that is read is held against its notes.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from random import Random

import kfm.store.stored_objects as objects_module
from kfm.clock import FixedClock
from kfm.errors import Corrupt, KfmError
from kfm.model.ports import Tables
from kfm.store.jsonl import JsonlTables
from kfm.store.objects import FileObjects
from kfm.store.state import StoredState
from tests.power.simfs import PowerCut, SimFs, SimObjects

JOURNAL, OBJECTS = "/kfm/state", "/kfm/objects"
INLINE = 64  # larger objects are files, so that small programs have some
NAMES = ("runs", "refs")
Rows = dict[tuple[str, str], bytes]


class Broken(AssertionError):
    """A promise was not kept."""


class Observer:
    """Stands outside: knows what was committed, and what of it was acknowledged."""

    def __init__(self) -> None:
        self.states: list[Rows] = [{}]  # after each commit that changed something
        self.acked = 0
        self.objects: dict[str, bytes] = {}  # acknowledged, each under its digest

    def committed(self, rows: Rows, *, durable: bool) -> None:
        if rows is not self.states[-1]:
            self.states.append(rows)
        if durable:
            self.acked = len(self.states) - 1

    def check(self, tables: Tables, objects: FileObjects) -> None:
        """What is there is one of the states there were, and none before the last acknowledged one."""
        found = {(name, key): value for name in NAMES for key, value in tables.scan(name)}
        for n in range(len(self.states) - 1, self.acked - 1, -1):
            if self.states[n] == found:
                del self.states[n + 1 :]
                break
        else:
            lost = any(found == state for state in self.states[: self.acked])
            raise Broken(
                f"acknowledged commits are gone: {self.acked} were acknowledged"
                if lost
                else "the tables are in a state they never were in"
            )
        for digest, body in self.objects.items():
            if not objects.has(digest):
                raise Broken("an acknowledged object is gone")
            if objects.read(digest) != body:
                raise Broken("an acknowledged object has other bytes")


class Program:
    """One process after another, all doing small transactions and storing objects."""

    def __init__(self, random: Random, fs: SimFs) -> None:
        self.random = random
        self.fs = fs
        self.observer = Observer()
        self.started = 0
        self.tables: JsonlTables
        self.objects: SimObjects

    def start(self) -> None:
        self.tables = self.open()
        state = StoredState(self.tables, FixedClock().now_ms)
        self.objects = SimObjects(OBJECTS, state, self.fs)
        self.observer.check(self.tables, self.objects)
        self.observer.acked = len(self.observer.states) - 1  # opening makes durable what it has read
        self.started += 1

    def open(self) -> JsonlTables:
        return JsonlTables(JOURNAL, self.fs, lock=self.fs.lock)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            choice = self.random.random()
            if choice < 0.40:
                self.write(durable=True)
            elif choice < 0.70:
                self.write(durable=False)
            elif choice < 0.85:
                self.store()
            elif choice < 0.90:
                self.write_elsewhere()
            elif choice < 0.95:
                self.tables.begin()
                self.tables.commit()
                self.observer.committed(self.observer.states[-1], durable=True)
            else:
                self.tables.close()
                self.start()

    def write(self, *, durable: bool, tables: JsonlTables | None = None) -> None:
        tables = tables or self.tables
        random = self.random
        rows = dict(self.observer.states[-1])
        tables.begin(durable)
        for _ in range(random.randint(1, 3)):
            table, key = random.choice(NAMES), random.choice("abcdef")
            if random.random() < 0.15:
                tables.delete(table, key)
                rows.pop((table, key), None)
            else:
                value = b"%d:" % random.getrandbits(30) + random.choice((b"", b"x" * random.randrange(600), b"\xff\0"))
                tables.put(table, key, value)
                rows[table, key] = value
        if random.random() < 0.1:
            tables.rollback()
            return
        # From here the commit may have happened or not; that it did is not acknowledged before it returns.
        self.observer.states.append(rows)
        tables.commit()
        if durable:
            self.observer.acked = len(self.observer.states) - 1

    def write_elsewhere(self) -> None:
        """Another process has the same journal open."""
        other = self.open()
        self.observer.acked = len(self.observer.states) - 1
        self.write(durable=self.random.random() < 0.5, tables=other)
        other.close()
        self.tables.begin()
        self.tables.rollback()

    def store(self) -> None:
        body = b"%d" % self.random.getrandbits(40) + b"y" * self.random.randrange(INLINE + 1, 1500)
        middle = self.random.randrange(len(body))
        digest, size = self.objects.put_stream([body[:middle], body[middle:]])
        if digest != "sha256:" + hashlib.sha256(body).hexdigest() or size != len(body):
            raise Broken("an object was stored under a wrong name")
        self.observer.objects[digest] = body


def play(seed: int, kind: type[SimFs] = SimFs, program: type[Program] = Program, *, traced: bool = False) -> SimFs:
    """One schedule; raises Broken if a promise is. Up to three restarts, some of them inside recovery."""
    random = Random(seed)
    fs = kind(random, traced=traced)
    before, objects_module.INLINE_MAX = objects_module.INLINE_MAX, INLINE
    try:
        it = program(random, fs)
        for _ in range(random.choice((1, 1, 2, 3))):
            fs.fuel = int(random.random() ** 2 * 90) + 1
            with suppress(PowerCut):
                it.start()
                it.run(random.randint(1, 8))
            fs.restart(power=random.random() < 0.75)
        it.start()
        it.write(durable=True)
    except Corrupt as problem:
        raise Broken(f"refused after a power cut: {problem}") from problem
    except KfmError as problem:
        raise Broken(f"failed after a power cut: {problem}") from problem
    finally:
        objects_module.INLINE_MAX = before
    return fs
