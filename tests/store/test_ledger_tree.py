"""The tree over the ledger grows with it, in the same transaction, over every backend."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm.crypto.merkle import Frontier, leaf_hash, root_of
from kfm.errors import Corrupt
from kfm.model.ports import Tables
from kfm.store.state import StoredState
from tests.store.backends import ALL, Backend
from tests.store.records import receipt


@pytest.fixture(params=ALL)
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoredState]:
    opened = StoredState(Backend(request.param, tmp_path).open(), lambda: 0)
    yield opened
    opened.close()


def leaves(tables: Tables) -> list[bytes]:
    return [body for _, body in tables.scan("ledger")]


def append(state: StoredState, *names: str) -> None:
    with state.transaction(durable=False) as tx:
        for name in names:
            tx.ledger.append(receipt(run_id=name), op="ingest")


def tree_of(state: StoredState) -> Frontier:
    body = state.tables.get("ledger_tree", "frontier")
    assert body is not None, "there is no tree"
    return Frontier.unpacked(body)


def check(state: StoredState) -> None:
    rows = leaves(state.tables)
    assert tree_of(state).size == len(rows)
    assert tree_of(state).root() == root_of([hashlib.sha256(b"\0" + row).digest() for row in rows])
    assert state.ledger.tree().packed() == tree_of(state).packed()


def test_the_tree_is_that_of_the_rows_whatever_was_undone(state: StoredState) -> None:
    for n in range(20):
        append(state, f"run-{n}", f"skip-{n}")
        with pytest.raises(ZeroDivisionError), state.transaction() as tx:
            tx.ledger.append(receipt(run_id=f"never-{n}"), op="ingest")
            raise ZeroDivisionError
        with state.transaction() as tx:
            tx.ledger.append(receipt(run_id=f"run-{n}"), op="ingest")  # told again: it is no other
        check(state)
    assert len(leaves(state.tables)) == 40


def test_rows_that_others_appended_are_caught_up_with(state: StoredState) -> None:
    append(state, *(f"run-{n}" for n in range(5)))
    known = tree_of(state).packed()
    append(state, *(f"more-{n}" for n in range(6)))
    for behind in (known, None):  # what Node leaves, and what an older program left
        state.tables.begin()
        if behind is None:
            state.tables.delete("ledger_tree", "frontier")
        else:
            state.tables.put("ledger_tree", "frontier", behind)
        state.tables.commit()
        assert state.ledger.tree().size == len(leaves(state.tables)), "who only reads sees the whole tree too"
        append(state, f"then-{behind is None}")
        check(state)


def test_a_tree_with_more_leaves_than_there_are_entries_stops_the_append(state: StoredState) -> None:
    append(state, "run-0")
    ahead = Frontier()
    for n in range(3):
        ahead.append(leaf_hash(b"%d" % n))
    for body in (ahead.packed(), b"", b"\0" * 9):
        state.tables.begin()
        state.tables.put("ledger_tree", "frontier", body)
        state.tables.commit()
        with pytest.raises(Corrupt):
            append(state, "run-1")
    assert len(leaves(state.tables)) == 1
