"""A query about one dataset reads nothing of the others, and the indexes agree with the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm.clock import FixedClock
from kfm.model.ports import Tables
from kfm.store.index_check import differences
from kfm.store.sqlite import SqliteTables
from kfm.store.state import StoredState
from tests.golden.make import make, opened
from tests.store.backends import ALL, Backend
from tests.store.records import receipt, run, trigger

OTHERS = 1000


class Counting:
    """Tables that count the rows that were read through them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def get(self, table: str, key: str) -> bytes | None:
        self.read += 1
        return self._tables.get(table, key)

    def scan(self, *given: Any, **how: Any) -> Iterator[tuple[str, bytes]]:
        for row in self._tables.scan(*given, **how):
            self.read += 1
            yield row


@pytest.fixture(params=ALL)
def crowded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoredState]:
    """A thousand datasets, each with a run that is unfinished, one that ended and a trigger that waits."""
    state = StoredState(Counting(Backend(request.param, tmp_path).open()), FixedClock().now_ms)
    with state.transaction(durable=False) as tx:
        for n in range(OTHERS):
            name = f"d{n}"
            tx.runs.claim(run(run_id=f"open-{n}", claim_key=f"claim-{n}", dataset=name))
            tx.ledger.append(receipt(run_id=f"ended-{n}", dataset=name), op="ingest")
            tx.inbox.keep(trigger(dataset=name))
    yield state
    state.close()


QUESTIONS: dict[str, Callable[[StoredState, str], list[str]]] = {
    "unfinished": lambda state, name: [run.dataset for run in state.runs.unfinished(name)],
    "ended": lambda state, name: [entry.dataset for entry in state.ledger.entries_of(name)],
    "waiting": lambda state, name: [trigger.dataset for trigger in state.inbox.waiting(name)],
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_who_asks_about_one_dataset_reads_nothing_of_a_thousand_others(crowded: StoredState, question: str) -> None:
    counting: Any = crowded.tables
    for name in ("d7", "d999"):
        counting.read = 0
        assert QUESTIONS[question](crowded, name) == [name]  # not those of d70 either, whose name begins the same
        assert 0 < counting.read <= 2
    counting.read = 0
    assert QUESTIONS[question](crowded, "nobody") == []
    assert counting.read == 0
    everyone = {
        "unfinished": crowded.runs.unfinished,
        "ended": crowded.ledger.entries,
        "waiting": crowded.inbox.waiting,
    }
    assert len(list(everyone[question]())) == OTHERS
    assert counting.read >= OTHERS, "nothing is counted"


def test_all_that_wait_are_in_the_order_in_which_they_came(crowded: StoredState) -> None:
    with crowded.transaction(durable=False) as tx:
        late = tx.inbox.keep(trigger(dataset="a-first-by-name"))
    waiting = list(crowded.inbox.waiting())
    assert [each.trigger_id for each in waiting] == sorted(each.trigger_id for each in waiting)
    assert waiting[-1] == late


# ------------------------------------------------------------------------------------- held against the records


BROKEN: dict[str, tuple[str, Callable[[Tables], None]]] = {
    "an unfinished run is not in its map": (
        "open_runs/golden/", lambda tables: tables.delete("open_runs", next(tables.scan("open_runs", "golden/"))[0])
    ),
    "the map names a run that has ended": (
        "open_runs/golden/", lambda tables: tables.put("open_runs", f"golden/{ended(tables)}", b"{}")
    ),
    "an unfinished run lies under another dataset": (
        "open_runs/kept/", lambda tables: moved(tables, "open_runs", "golden/", "kept/")
    ),
    "a run that ended is not in its map": (
        "ended_runs/golden/000000000001 is missing", lambda tables: tables.delete("ended_runs", "golden/000000000001")
    ),
    "the map names an entry that is not there": (
        "ended_runs/golden/000000009999", lambda tables: tables.put("ended_runs", "golden/000000009999", b"{}")
    ),
    "an ended run lies under another dataset": (
        "ended_runs/kept/000000000001", lambda tables: moved(tables, "ended_runs", "golden/000000000001", "kept/")
    ),
    "a trigger lies under another dataset": (
        "inbox/golden/", lambda tables: moved(tables, "inbox", "kept/", "golden/")
    ),
    "a claim leads nowhere": ("claims/", lambda tables: tables.put("claims", "0" * 64, b"no-run")),
    "the last run of a claim is not known": (
        "claims/", lambda tables: tables.delete("claims", next(tables.scan("claims"))[0])
    ),
    "a ref is not where it was moved": (
        "refs/processed/golden", lambda tables: tables.put("refs", "processed/golden", b"sha256:" + b"0" * 64)
    ),
    "a ref is gone that was moved": ("refs/processed/golden", lambda tables: tables.delete("refs", "processed/golden")),
}  # fmt: skip


def ended(tables: Tables) -> str:
    return next(tables.scan("receipts"))[0]


def moved(tables: Tables, table: str, prefix: str, into: str) -> None:
    key, body = next(tables.scan(table, prefix))
    tables.delete(table, key)
    tables.put(table, into + key.rpartition("/")[2], body)


@pytest.mark.parametrize("case", BROKEN)
def test_a_map_that_says_something_else_than_the_records_is_named(tmp_path: Path, case: str) -> None:
    make(tmp_path, "sqlite")
    with opened(tmp_path / "kfm.yml") as session:
        assert differences(session.state) == []
        named, wrong = BROKEN[case]
        session.tables.begin()
        wrong(session.tables)
        session.tables.commit()
        assert any(named in each for each in differences(session.state)), differences(session.state)


def test_a_run_that_ends_while_the_maps_are_read_is_no_difference(tmp_path: Path) -> None:
    """Between the reading of a map and of the records, somebody ends the run."""

    class Meanwhile(SqliteTables):
        done = False

        def scan(self, table: str, *given: Any, **how: Any) -> Iterator[tuple[str, bytes]]:
            yield from super().scan(table, *given, **how)
            if table == "open_runs" and not self.done:
                self.done = True
                with state.transaction(durable=False) as tx:
                    tx.runs.claim(run(run_id="new", claim_key="new"))
                    tx.ledger.append(receipt(run_id="skipped"), op="ingest")

    state = StoredState(Meanwhile(str(tmp_path / "state")), FixedClock().now_ms)
    with state.transaction() as tx:
        tx.runs.claim(run())
    assert differences(state) == []
    assert state.tables.done, "nobody came between"  # type: ignore[attr-defined]
    state.close()
