"""`kfm gc`: what nothing names goes in two steps, and what something names stays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm.clock import parse_instant
from kfm.model import refs
from kfm.model.keys import digest
from kfm.model.records import Run, Trigger
from kfm.store.stored_objects import StoredObjects
from tests.app.gc.house import (
    DAY,
    GRACE,
    HOUR,
    LARGE,
    SMALL,
    Years,
    everywhere,
    gc,
    is_well,
    name_in_state,
    opened,
    orphans,
    readable,
    set_aside,
)
from tests.app.move.carried import kfm
from tests.app.move.test_places import edited


@pytest.fixture
def years(monkeypatch: pytest.MonkeyPatch) -> Iterator[Years]:
    monkeypatch.setenv("KFM_NOW", "2026-01-01T00:00:00Z")
    yield Years()


def test_what_nothing_names_is_set_aside_and_later_removed(years: Years, site: str) -> None:
    before = everywhere(site)
    lost = orphans(site)
    assert everywhere(site) == before | set(lost)
    answer = gc(site, "--json", "--reason", "every night")
    assert answer.code == 0, answer.err
    kinds = {each["kind"]: each for each in json.loads(answer.out)["kinds"]}
    assert kinds["aside"]["count"] == 2 and kinds["aside"]["bytes"] == len(SMALL) + len(LARGE)
    assert kinds["objects"]["count"] == 0 and set_aside(site) == set(lost)
    with opened(site) as session:
        assert [session.objects.read(name) for name in lost] == [SMALL, LARGE]
        assert [session.objects.size(name) for name in lost] == [len(SMALL), len(LARGE)]
        assert not any(session.objects.is_damaged(name, 0) for name in lost)
    years.advance(GRACE - HOUR)
    assert gc(site, "--json").code == 0 and set_aside(site) == set(lost)
    years.advance(2 * HOUR)
    kinds = {each["kind"]: each for each in json.loads(gc(site, "--json").out)["kinds"]}
    assert kinds["objects"]["count"] == 2 and kinds["objects"]["bytes"] == len(SMALL) + len(LARGE)
    assert set_aside(site) == set() and not everywhere(site) & set(lost) and before <= everywhere(site)
    assert not [path for path in Path(site, ".kfm/objects").rglob("*") if path.is_file() and lost[1][9:] in path.name]
    is_well(site)


def test_gc_is_an_operation_with_a_report_of_what_went(years: Years, site: str) -> None:
    lost = orphans(site)
    assert gc(site, "--reason", "every night").code == 0
    receipts = kfm(site, "runs", "receipts", "--json").out
    assert '"operation.gc"' in receipts and "every night" in receipts
    with opened(site) as session:
        at = session.state.refs.at(refs.maintenance("gc"))
        report = json.loads(session.objects.read(at))
        [piece] = report["set_aside"]
        named = json.loads(session.objects.read(piece))
    assert sorted(named) == sorted(f"sha256/{name[7:9]}/{name[9:]}" for name in lost)
    assert report["kinds"]["aside"]["count"] == 2 and report["operation"] == "gc"
    years.advance(GRACE + HOUR)
    assert gc(site).code == 0 and not everywhere(site) & set(lost), "a report keeps nothing that it names"
    assert orphans(site) == lost and gc(site).code == 0 and set_aside(site) == set(lost)


def test_nothing_to_remove_leaves_no_record(years: Years, site: str) -> None:
    before = kfm(site, "runs", "receipts", "--json").out
    answer = gc(site)
    assert answer.code == 0 and "nothing to remove" in answer.err
    assert kfm(site, "runs", "receipts", "--json").out == before


def test_a_dry_run_writes_nothing(years: Years, site: str) -> None:
    orphans(site)
    before = {path: path.read_bytes() for path in Path(site).rglob("*") if path.is_file()}
    answer = gc(site, "--dry-run", "--json")
    assert answer.code == 0
    kinds = {each["kind"]: each["count"] for each in json.loads(answer.out)["kinds"]}
    assert kinds["aside"] == 2
    assert {path: path.read_bytes() for path in Path(site).rglob("*") if path.is_file()} == before


def test_a_frozen_installation_keeps_everything(years: Years, site: str) -> None:
    lost = orphans(site)
    assert kfm(site, "freeze", "--reason", "a question").code == 0
    answer = gc(site)
    assert answer.code == 5 and "frozen" in answer.err and set(lost) <= everywhere(site), answer
    assert gc(site, "--dry-run").code == 0


def test_gc_stops_when_everything_is_frozen_meanwhile(years: Years, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = orphans(site)
    aside, turns = StoredObjects.set_aside, []

    def then_frozen(objects: StoredObjects, names: list[str]) -> int:
        turns.append(names)
        many = aside(objects, names)
        assert kfm(site, "freeze", "--reason", "a question").code == 0
        return many

    monkeypatch.setattr("kfm.app.gc.collection.BATCH", 1)
    monkeypatch.setattr(StoredObjects, "set_aside", then_frozen)
    answer = gc(site)
    assert answer.code == 5 and len(turns) == 1 and len(set_aside(site)) == 1, answer
    monkeypatch.setattr(StoredObjects, "set_aside", aside)
    assert kfm(site, "thaw", "--reason", "a test").code == 0
    assert gc(site).code == 0 and set_aside(site) == set(lost)


def test_what_is_written_again_meanwhile_stays(years: Years, site: str) -> None:
    """The run skips no write of an object that was set aside, so what it names is there after the removal."""
    lost = orphans(site)
    assert gc(site).code == 0
    assert orphans(site) == lost and set(lost) <= everywhere(site)
    years.advance(GRACE + HOUR)
    name_in_state(site, lost)
    assert gc(site).code == 0
    with opened(site) as session:
        assert [session.objects.read(name) for name in lost] == [SMALL, LARGE]
    assert set(lost) <= everywhere(site)


def test_what_is_looked_for_comes_back(years: Years, site: str) -> None:
    lost = orphans(site)
    assert gc(site).code == 0 and set_aside(site) == set(lost)
    with opened(site) as session:
        assert all(session.objects.has(name) for name in lost)
    assert set_aside(site) == set() and set(lost) <= everywhere(site)


def test_what_is_named_after_it_was_set_aside_is_taken_back(years: Years, site: str) -> None:
    lost = orphans(site)
    assert gc(site).code == 0
    name_in_state(site, lost)
    years.advance(GRACE + HOUR)
    kinds = {each["kind"]: each["count"] for each in json.loads(gc(site, "--json").out)["kinds"]}
    assert kinds["back"] == 2 and kinds["objects"] == 0
    assert set(lost) <= everywhere(site) and set_aside(site) == set()
    is_well(site)


def test_an_unfinished_run_keeps_what_was_set_aside_since_it_began(years: Years, large: str) -> None:
    from tests.app.move.carried import killed_at

    lost = orphans(large)
    years.advance(HOUR)
    assert any(
        killed_at(large, at, "run", "fan", "--force", "--reason", "a test") and unfinished(large)
        for at in range(20, 90, 5)
    )
    [run] = unfinished(large)
    years.clock.advance(parse_instant(run.started_at, "a test") - years.clock.now_ms())
    years.advance(HOUR)
    assert gc(large).code == 0 and set(lost) <= set_aside(large)
    years.advance(2 * GRACE)
    answer = gc(large)
    assert answer.code == 0 and f"run {run.run_id} is unfinished" in answer.err
    assert set(lost) <= set_aside(large), "that run may have relied on them"
    assert kfm(large, "resume").code == 0
    assert gc(large).code == 0 and not set(lost) & (set_aside(large) | everywhere(large))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("grace: 0d", "is no length of time"),
        ("grace: -3d", "is no length of time"),
        ("grace: 7 days", "is no length of time"),
        ("grace: 7w", "is no length of time"),
        ("grace: ''", "is no length of time"),
        ("grace: 59m", "is shorter than 1h"),
        ("unchanged_runs: 23h", "is shorter than 1d"),
        ("previews: 1h", "is shorter than 1d"),
        ("ledger: 90d", "ledger"),
        ("grcae: 7d", "grace"),
        ("held: 90d", "held"),
    ],
)
def test_a_retention_that_cannot_be_meant_is_refused(years: Years, site: str, line: str, said: str) -> None:
    lost = orphans(site)
    edited(site, "publish: file:public\n", f"publish: file:public\nretention:\n  {line}\n")
    for words in ([], ["--dry-run"]):
        answer = gc(site, *words)
        assert answer.code == 3 and said in answer.err and "kfm.yml:" in answer.err, answer
        assert answer.err.count("\n") == 1
    os.environ.pop("KFM_NOW")
    edited(site, f"retention:\n  {line}\n", "")
    assert set(lost) <= everywhere(site)


def test_another_state_next_to_these_objects_removes_nothing(years: Years, site: str) -> None:
    lost = orphans(site)
    edited(site, "publish: file:public\n", "publish: file:public\nstate: sqlite:.kfm/mistyped.db\n")
    answer = gc(site)
    assert answer.code == 3 and "state" in answer.err, answer
    edited(site, "state: sqlite:.kfm/mistyped.db\n", "")
    assert set(lost) <= everywhere(site) and set_aside(site) == set()


def test_a_damaged_object_that_is_needed_stops_gc(years: Years, large: str) -> None:
    lost = orphans(large)
    with opened(large) as session:
        version = session.state.refs.at(refs.processed("fan"))
        kept = [name for name, _ in session.objects.in_folders() if name not in lost]
        body = json.dumps({"made": digest(b"x"), "pad": "x" * 70_000}).encode()
        json_object = session.objects.put(body)
    name_in_state(large, [json_object])
    assert version and kept
    path = Path(large, ".kfm/objects/sha256", json_object[7:9], json_object[9:])
    os.chmod(path, 0o600)
    path.write_bytes(body[:-9] + b"y" * 9)
    answer = gc(large)
    assert answer.code == 65 and "damaged" in answer.err
    assert set(lost) <= everywhere(large) and set_aside(large) == set()


def unfinished(folder: str) -> list[Run]:
    with opened(folder) as session:
        return list(session.state.runs.unfinished())


def test_two_at_once_do_not_meet(years: Years, site: str) -> None:
    from kfm.app.session.backends import lock_of

    orphans(site)
    with opened(site) as session:
        lock = lock_of(session.resolved, session.state, "gc")()
        assert lock.take()
        answer = gc(site)
        lock.close()
    assert answer.code == 6 and "another process" in answer.err
    assert gc(site).code == 0 and len(set_aside(site)) == 2


def test_the_receipts_of_unchanged_runs_become_short_and_stay_the_same(years: Years, site: str) -> None:
    edited(site, "publish: file:public\n", "publish: file:public\nretention: {unchanged_runs: 30d}\n")
    for _ in range(12):
        years.advance(DAY)
        assert kfm(site, "run", "rain").code == 0
    with opened(site) as session:
        bodies = dict(session.state.ledger.receipt_bodies())
        told = {run: session.state.ledger.telemetry(run) for run in bodies}
        noop = [entry.run_id for entry in session.state.ledger.entries() if entry.outcome == "noop"]
        exported = {path.stem for path in Path(site, ".kfm/receipts").rglob("*.json")}
        wide = sum(len(session.tables.get(table, run) or b"") for table in ("receipts", "telemetry") for run in noop)
    assert len(noop) == 12 and set(bodies) <= exported
    years.advance(31 * DAY)
    kinds = {each["kind"]: each["count"] for each in json.loads(gc(site, "--json").out)["kinds"]}
    assert kinds["receipts"] == 12
    with opened(site) as session:
        after = dict(session.state.ledger.receipt_bodies())
        assert all(after[run] == body for run, body in bodies.items())
        assert {run: session.state.ledger.telemetry(run) for run in bodies} == told
        assert all(session.state.ledger.is_short(run) for run in noop)
        narrow = sum(len(session.tables.get(table, run) or b"") for table in ("receipts", "telemetry") for run in noop)
        wal = [len(body) for _, body in session.tables.scan("ledger")]
        proved = {entry.receipt_digest for entry in session.state.ledger.entries()}
    assert narrow < wide / 3 and narrow / len(noop) + max(wal) < 1_500, (wide / 12, narrow / 12, max(wal))
    assert not {path.stem for path in Path(site, ".kfm/receipts").rglob("*.json")} & set(noop)
    for run in noop[:3]:
        assert kfm(site, "runs", "receipt", run, "--exact").out.encode() == bodies[run]
        assert digest(bodies[run]) in proved
    is_well(site)
    kinds = {each["kind"]: each["count"] for each in json.loads(gc(site, "--json").out)["kinds"]}
    assert kinds["receipts"] == 0


def test_a_backup_during_gc_is_taken_again_and_whole(
    years: Years, large: str, scratch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kfm.app.backup import backup as of_backup
    from tests.app.backup.test_backup import new_machine

    lost = orphans(large)
    assert gc(large).code == 0
    years.advance(GRACE + HOUR)
    orphans(large, b"another")
    turns: list[int] = []
    objects = of_backup._Copy.objects

    def during(*arguments: Any) -> Any:
        turns.append(1)
        if len(turns) == 1:
            assert gc(large).code == 0 and not set(lost[1:]) & set_aside(large) - everywhere(large)
        return objects(*arguments)

    monkeypatch.setattr(of_backup._Copy, "objects", during)
    to = os.path.join(scratch, "backup")
    answer = kfm(large, "backup", to)
    assert answer.code == 0 and len(turns) == 2, answer
    other = new_machine(large)
    assert kfm(other, "restore", to).code == 0 and kfm(other, "doctor", "--deep").code == 0


def test_what_is_set_aside_is_in_a_backup_and_moves_with_the_rest(years: Years, large: str, scratch: str) -> None:
    from tests.app.backup.test_backup import new_machine

    lost = orphans(large)
    assert gc(large).code == 0 and set_aside(large) == set(lost)
    to = os.path.join(scratch, "backup")
    assert kfm(large, "backup", to).code == 0
    other = new_machine(large)
    assert kfm(other, "restore", to).code == 0
    assert kfm(large, "move", "--to", "file:store", "--edit").code == 0
    for folder in (large, other):
        readable(folder, dict(zip(lost, (SMALL, LARGE), strict=True)))
        kfm(folder, "thaw", "--reason", "a test")
        for _ in range(3):
            years.advance(GRACE + HOUR)
            assert gc(folder).code == 0
        assert not set(lost) & (everywhere(folder) | set_aside(folder))
        assert kfm(folder, "doctor", "--deep").code == 0


def test_ended_triggers_go_after_their_time(years: Years, site: str) -> None:
    trigger = Trigger(kind="manual", updater_id="rain", dataset="rain", received_at="2026-01-01T00:00:00.000Z")
    with opened(site) as session, session.state.transaction() as tx:
        tx.inbox.finish(tx.inbox.keep(trigger), "a run")
        tx.inbox.note_pruned(session.clock.now_ms())
    kinds = {each["kind"]: each["count"] for each in json.loads(gc(site, "--dry-run", "--json").out)["kinds"]}
    assert kinds["rows"] == 0
    years.advance(91 * DAY)
    kinds = {each["kind"]: each["count"] for each in json.loads(gc(site, "--json").out)["kinds"]}
    assert kinds["rows"] == 1
    with opened(site) as session:
        assert not list(session.state.inbox.all_ended())
