"""Counts are folded from the ledger once. After any history they are those of the whole ledger."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kfm import config
from kfm.app.backup.backup import back_up
from kfm.app.backup.backup_place import open_place
from kfm.app.backup.backup_record import read_record
from kfm.app.backup.restore import restore
from kfm.app.maintenance.maintenance_records import compact
from kfm.app.objectives import ledger_counts
from kfm.app.objectives.kept_counts import keep_counts
from kfm.app.objectives.ledger_counts import COUNTS, OPERATIONS, LedgerFold
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.errors import KfmError
from kfm.model.records import LedgerEntry
from kfm.projections.operation_counts import FORM, LedgerCounts
from tests.app.objectives.site import SAID

START = 1_780_000_000_000


def empty(_session: Session) -> LedgerCounts:
    return LedgerCounts(form=FORM)


@contextmanager
def opened(folder: Path, clock: FixedClock, **how: str) -> Iterator[Session]:
    with open_session(config.load(str(folder / "kfm.yml"), {}), clock=clock, **how) as session:  # type: ignore[arg-type]
        yield session


def laid_out(folder: Path) -> FixedClock:
    folder.mkdir()
    (folder / "kfm.yml").write_text(SAID)
    (folder / "rain.csv").write_text("n\n1\n")
    return FixedClock(START)


def model(session: Session) -> dict[str, dict[str, int]]:
    """How many operations ended how, counted from the whole ledger in the plainest way."""
    found: dict[str, Counter[str]] = {}
    for entry in session.state.ledger.entries():
        each = found.setdefault(entry.op_type, Counter())
        each[entry.outcome] += 1
        each["moves"] += len(entry.moves)
        each["wal"] += len(entry.wal_ids)
        measured = session.state.ledger.telemetry(entry.run_id)
        each["latency_ms"] += measured.latency_ms if measured is not None else 0
        each["measured"] += measured is not None
    return {op: {k: v for k, v in each.items() if v} for op, each in found.items()}


def counted(counts: LedgerCounts) -> dict[str, dict[str, int]]:
    found = {}
    for op, each in counts.ops.items():
        plain = {"moves": each.moves, "wal": each.wal_entries, "latency_ms": each.latency_sum_ms}
        found[op] = {**each.outcomes, **{k: v for k, v in plain.items() if v}, "measured": sum(each.buckets)}
    return found


def act(session: Session, clock: FixedClock, folder: Path, what: str, turn: int) -> None:
    clock.advance(60_000)
    try:
        if what in ("run", "bad"):
            (folder / "rain.csv").write_text(f"n\n{turn if what == 'run' else 'x'}\n")
            run_trigger(session, new_trigger(session, "rain", actor="tester"))
        elif what == "publish":
            made = session.state.refs.at("processed/rain")
            run_operation(session, "promote", "rain", {"to": made}, reason="a test")
        elif what == "rollback":
            run_operation(session, "rollback", "rain", {"to": "nothing"}, reason="a test")
        elif what in ("freeze", "thaw"):
            run_operation(session, what, "rain", reason="a test")
        elif what == "compact":
            compact(session, reason="a test")
        elif what == "keep":
            keep_counts(session)
    except KfmError:
        """It was refused: what the ledger says of it is counted like all else."""


ACTS = st.lists(
    st.sampled_from(
        ["run", "run", "bad", "publish", "rollback", "freeze", "thaw", "compact", "keep", "look", "reopen"]
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=ACTS)
def test_after_any_history_the_counts_are_those_of_the_whole_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: list[str]
) -> None:
    monkeypatch.setattr(ledger_counts, "BEHIND", 2)
    monkeypatch.setattr(ledger_counts, "AT_ONCE", 3)
    monkeypatch.setattr(ledger_counts, "BATCH", 2)
    folder = tmp_path / "site"
    shutil.rmtree(folder, ignore_errors=True)
    clock = laid_out(folder)
    at = 0
    while at < len(acts):
        with opened(folder, clock) as session:
            for what in acts[at:]:
                at += 1
                if what == "reopen":
                    break
                if what == "look":
                    assert counted(OPERATIONS.now(session)) == model(session)
                else:
                    act(session, clock, folder, what, at)
            assert counted(OPERATIONS.now(session)) == model(session)
            fresh = LedgerFold("nothing kept", LedgerCounts, empty).now(session)
            assert msgspec.structs.asdict(fresh) == msgspec.structs.asdict(OPERATIONS.now(session))


def test_a_kept_note_saves_reading_the_ledger_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_counts, "BEHIND", 2)
    clock = laid_out(tmp_path / "site")
    with opened(tmp_path / "site", clock) as session:
        for turn in range(5):
            act(session, clock, tmp_path / "site", "run", turn)
        assert OPERATIONS.keep(session) and not OPERATIONS.keep(session)
        expected = counted(OPERATIONS.now(session))
    with opened(tmp_path / "site", clock) as session:
        read = []
        entries = session.state.ledger.links
        monkeypatch.setattr(session.state.ledger, "links", lambda **how: read.append(how) or entries(**how))
        assert counted(OPERATIONS.now(session)) == expected
        assert [how["after"] for how in read] == [4, 5], "the last entry is compared, and nothing before it is read"


def test_a_reader_and_a_dry_run_write_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_counts, "BEHIND", 1)
    clock = laid_out(tmp_path / "site")
    with opened(tmp_path / "site", clock) as session:
        act(session, clock, tmp_path / "site", "run", 1)
    for mode in ("read", "dry"):
        with opened(tmp_path / "site", clock, mode=mode) as session:
            assert counted(OPERATIONS.now(session)) == model(session) != {}
            assert not OPERATIONS.keep(session) and session.state.outbox.note(COUNTS, "operations") is None


def test_a_note_of_another_ledger_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_counts, "BEHIND", 1)
    clock = laid_out(tmp_path / "site")
    with opened(tmp_path / "site", clock) as session:
        act(session, clock, tmp_path / "site", "run", 1)
        for body in (
            b"nonsense",
            msgspec.json.encode(LedgerCounts(index=1, link="sha256:other", form=FORM)),
            b'{"index": 99}',
        ):
            with session.state.transaction(durable=False) as tx:
                tx.outbox.keep_note(COUNTS, "operations", body)
            assert counted(LedgerFold("operations", LedgerCounts, empty).now(session)) == model(session) != {}


def test_a_note_of_an_older_form_is_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older version kept no energy by method."""
    monkeypatch.setattr(ledger_counts, "BEHIND", 1)
    clock = laid_out(tmp_path / "site")
    with opened(tmp_path / "site", clock) as session:
        act(session, clock, tmp_path / "site", "run", 1)
        counts = OPERATIONS.now(session)
        older = {name: each for name, each in msgspec.to_builtins(counts).items() if name not in NEW_IN_FORM_2}
        with session.state.transaction(durable=False) as tx:
            tx.outbox.keep_note(COUNTS, "operations", msgspec.json.encode(older))
    with opened(tmp_path / "site", clock) as session:
        assert msgspec.json.decode(session.state.outbox.note(COUNTS, "operations") or b"") == older
        assert OPERATIONS.now(session).joules == counts.joules and counts.joules["estimated"] > 0


NEW_IN_FORM_2 = ("form", "joules", "grams")


def test_a_restored_installation_counts_its_own_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_counts, "BEHIND", 2)
    clock = laid_out(tmp_path / "site")
    resolved = config.load(str(tmp_path / "site" / "kfm.yml"), {})
    place = open_place(resolved, str(tmp_path / "backups"))

    def silent(_what: str, _done: int, _of: int) -> None: ...

    with opened(tmp_path / "site", clock) as session:
        for turn in range(4):
            act(session, clock, tmp_path / "site", "run", turn)
        assert OPERATIONS.keep(session)
    made = back_up(resolved, place, clock, silent)
    with opened(tmp_path / "site", clock) as session:  # what comes after is not in the backup
        act(session, clock, tmp_path / "site", "publish", 9)
    laid_out(tmp_path / "other")
    other = config.load(str(tmp_path / "other" / "kfm.yml"), {})
    restore(other, place, made.name, read_record(place, made.name), clock, silent, reason="a test", actor="tester")
    with opened(tmp_path / "other", clock) as session:
        assert session.state.outbox.note(COUNTS, "operations") is not None
        assert counted(OPERATIONS.now(session)) == model(session)
        assert "promote" not in OPERATIONS.now(session).ops and "restore" in OPERATIONS.now(session).ops


def test_a_count_that_fails_in_the_middle_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = laid_out(tmp_path / "site")
    with opened(tmp_path / "site", clock) as session:
        for turn in range(3):
            act(session, clock, tmp_path / "site", "run", turn)
        failed = []
        add = LedgerCounts.add

        def failing(self: LedgerCounts, entry: LedgerEntry, *rest: Any) -> None:
            add(self, entry, *rest)
            if entry.index == 2 and not failed:
                failed.append(entry)
                raise KfmError("the state is gone")

        monkeypatch.setattr(LedgerCounts, "add", failing)
        with pytest.raises(KfmError):
            OPERATIONS.now(session)
        assert failed and counted(OPERATIONS.now(session)) == model(session)
