"""Any sequence of operations, on every backend, compared with a plain dictionary."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kfm.model.ports import Tables
from tests.store.backends import ALL, STORED, TABLES, Backend

KEYS = st.one_of(
    st.sampled_from(["", "a", "a/", "a/1", "a/2", "a0", "b", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
VALUES = st.one_of(st.binary(max_size=12), st.sampled_from([b"\xff", b"", b"null", b"{}", b"\n", b"\r\n", b"\\"]))
TABLE = st.sampled_from(TABLES)


class Machine(RuleBasedStateMachine):
    kind: ClassVar[str] = "memory"

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.backend = Backend(self.kind, Path(self.folder.name))
        self.tables: Tables = self.backend.open()
        self.rows: dict[str, dict[str, bytes]] = {name: {} for name in TABLES}
        self.before: dict[str, dict[str, bytes]] | None = None

    @precondition(lambda self: self.before is None)
    @rule(durable=st.booleans())
    def begin(self, durable: bool) -> None:
        self.tables.begin(durable)
        self.before = {name: dict(rows) for name, rows in self.rows.items()}

    @precondition(lambda self: self.before is not None)
    @rule(table=TABLE, key=KEYS, value=VALUES)
    def put(self, table: str, key: str, value: bytes) -> None:
        self.tables.put(table, key, value)
        self.rows[table][key] = value

    @precondition(lambda self: self.before is not None)
    @rule(table=TABLE, key=KEYS, value=VALUES)
    def add(self, table: str, key: str, value: bytes) -> None:
        assert self.tables.add(table, key, value) == (key not in self.rows[table])
        self.rows[table].setdefault(key, value)

    @precondition(lambda self: self.before is not None)
    @rule(table=TABLE, rows=st.lists(st.tuples(KEYS, VALUES), max_size=6))
    def put_many(self, table: str, rows: list[tuple[str, bytes]]) -> None:
        self.tables.put_many(table, iter(rows))
        self.rows[table].update(rows)

    @precondition(lambda self: self.before is not None)
    @rule(table=TABLE, key=KEYS)
    def delete(self, table: str, key: str) -> None:
        self.tables.delete(table, key)
        self.rows[table].pop(key, None)

    @precondition(lambda self: self.before is not None)
    @rule()
    def commit(self) -> None:
        self.tables.commit()
        self.before = None

    @precondition(lambda self: self.before is not None)
    @rule()
    def rollback(self) -> None:
        assert self.before is not None
        self.tables.rollback()
        self.rows, self.before = self.before, None

    @precondition(lambda self: self.before is None)
    @rule()
    def reopen(self) -> None:
        self.tables = self.backend.reopen(self.tables)

    @precondition(lambda self: self.before is None and self.kind in STORED)
    @rule(table=TABLE, key=KEYS, value=VALUES, looks=st.booleans())
    def write_through_another_connection(self, table: str, key: str, value: bytes, looks: bool) -> None:
        other = self.backend.open()
        other.begin(durable=False)
        other.put(table, key, value)
        other.commit()
        other.close()
        self.rows[table][key] = value
        if looks:
            self.tables.begin()
            self.tables.rollback()

    @rule()
    def read_what_belongs_together(self) -> None:
        with self.tables.reading():
            for table in TABLES:
                for key in ("a", "b", *self.rows[table]):
                    assert self.tables.get(table, key) == self.rows[table].get(key)

    @rule(table=TABLE, key=KEYS)
    def get(self, table: str, key: str) -> None:
        assert self.tables.get(table, key) == self.rows[table].get(key)

    @rule(table=TABLE, prefix=KEYS, after=KEYS, reverse=st.booleans(), limit=st.integers(-1, 4))
    def scan(self, table: str, prefix: str, after: str, reverse: bool, limit: int) -> None:
        expected = sorted(
            (
                (key, value)
                for key, value in self.rows[table].items()
                if key.startswith(prefix) and (not after or (key < after if reverse else key > after))
            ),
            reverse=reverse,
        )
        found = list(self.tables.scan(table, prefix, after=after, reverse=reverse, limit=limit))
        assert found == (expected if limit < 0 else expected[:limit])

    @invariant()
    def nothing_differs(self) -> None:
        for table in TABLES:
            assert list(self.tables.scan(table)) == sorted(self.rows[table].items())

    def teardown(self) -> None:
        if hasattr(self, "tables"):
            if self.before is not None:
                self.tables.rollback()
            self.tables.close()
            self.folder.cleanup()


def check(kind: str, examples: int) -> None:
    machine: Any = type("Machine", (Machine,), {"kind": kind})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("kind", ALL)
def test_any_sequence_of_operations_leaves_what_it_should(kind: str) -> None:
    check(kind, 25)


@pytest.mark.long
@pytest.mark.parametrize("kind", ALL)
def test_a_great_many_sequences_of_operations_leave_what_they_should(kind: str) -> None:
    check(kind, 1500)
