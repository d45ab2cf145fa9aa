"""`kfm upgrade`: a backup of the older state first, and after a kill the state is old or new, never between."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from kfm.app.backup.backup_place import open_place
from kfm.app.backup.backup_record import read_record
from kfm.app.backup.restore import verify
from kfm.app.move.table_copy import sums_of
from kfm.app.session.backends import open_stored, open_tables
from kfm.clock import FixedClock
from kfm.model.records import Lease
from kfm.store.codec import encode
from kfm.store.index_check import differences
from kfm.store.process_identity import this_process
from kfm.store.state import StoredState
from kfm.store.state_formats import FORMAT
from tests.app.move.carried import kfm, killed_at, places_of, resolved_in, saved
from tests.crash.points import boundary
from tests.golden.make import opened
from tests.golden.test_golden import STATES, facts
from tests.sampling import everything, sampled

OLDER = [path for path in STATES if path.parent.name != f"format-{FORMAT}"]
each_older = pytest.mark.parametrize("kept", sampled(OLDER, every=5), ids=lambda path: "/".join(path.parts[-2:]))


@pytest.fixture
def golden(kept: Path, scratch: str) -> str:
    return shutil.copytree(kept, os.path.join(scratch, "golden"))


@pytest.fixture
def place(scratch: str) -> str:
    return os.path.join(scratch, "backup")


def format_of(folder: str) -> int:
    tables, found = open_stored(resolved_in(folder))
    tables.close()
    return found


def upgrades(folder: str) -> list[str]:
    """The operations in the ledger that say an upgrade was done."""
    entries = json.loads(kfm(folder, "runs", "receipts", "--limit", "0", "--json").out)
    return [
        entry["job_type"].removeprefix("operation.") for entry in entries if entry["job_type"] == "operation.upgrade"
    ]


@each_older
def test_the_backup_has_the_older_rows_and_the_ledger_names_it(golden: str, place: str) -> None:
    tables, have = open_stored(resolved_in(golden))
    older = [each for each in sums_of(tables) if each.rows]
    answer = kfm(golden, "upgrade", place, "--dry-run", "--json")
    assert json.loads(answer.out)["from"] == have < FORMAT and not os.path.exists(place) and format_of(golden) == have
    answer = kfm(golden, "upgrade", place, "--json", "--reason", "a release")
    told = json.loads(answer.out)
    assert answer.code == 0 and (told["from"], told["to"]) == (have, FORMAT) == (have, format_of(golden)), answer.err
    record = read_record(open_place(resolved_in(golden), place), told["backup"])
    assert record.state_format == have and [each for each in record.sums() if each.rows] == older
    assert upgrades(golden) == ["upgrade"]
    with opened(Path(golden, "kfm.yml"), "read") as session:
        then = json.loads(Path(golden, "facts.json").read_text())
        assert facts(session)["open_runs"] == then["open_runs"] and differences(session.state) == []
        report = json.loads(session.objects.read(session.state.refs.at("maintenance/upgrade")))
    assert (report["from"], report["to"], report["backup"]) == (have, FORMAT, told["backup"])
    again = kfm(golden, "upgrade", place)
    assert again.code == 0 and "nothing to upgrade" in again.err and upgrades(golden) == ["upgrade"]


@each_older
def test_a_backup_of_an_older_format_is_restored_and_upgraded(golden: str, place: str) -> None:
    assert kfm(golden, "upgrade", place).code == 0
    other = os.path.join(os.path.dirname(golden), "other")
    shutil.copytree(golden, other, ignore=shutil.ignore_patterns("state", ".kfm", "objects"))
    answer = kfm(other, "restore", place)
    assert answer.code == 0 and format_of(other) == FORMAT, answer.err
    with opened(Path(other, "kfm.yml"), "read") as session:
        then, now = json.loads(Path(golden, "facts.json").read_text()), json.loads(json.dumps(facts(session)))
        assert now["ledger"][: len(then["ledger"])] == then["ledger"] and now["open_runs"] == then["open_runs"]
        assert differences(session.state) == []


@pytest.mark.parametrize("kept", sampled(OLDER, every=9), ids=lambda path: "/".join(path.parts[-2:]))
def test_a_kill_leaves_the_old_state_or_the_new_one_and_the_same_command_goes_on(golden: str, place: str) -> None:
    have = format_of(golden)
    words, only = ("upgrade", "file:../backup"), None if everything else boundary
    places = places_of(golden, *words, only=only)
    seen, step = set(), max(1, len(places) // 8)
    for at in range(1, len(places) + 1, 9 if everything else step):
        shutil.rmtree(place, ignore_errors=True)
        with saved(golden) as copy:
            killed_at(copy, at, *words, only=only)
            found = format_of(copy)
            assert found in (have, FORMAT), places[at - 1]
            seen.add(found)
            backups = open_place(resolved_in(copy), place)
            if found == FORMAT:
                (name,) = backups.records.names()
                verify(backups, read_record(backups, name), lambda *_: None)
            assert kfm(copy, *words).code == 0 and format_of(copy) == FORMAT
            assert upgrades(copy) == ["upgrade"], places[at - 1]
            tables = open_tables(resolved_in(copy), "read")
            assert differences(StoredState(tables, FixedClock().now_ms)) == []
            tables.close()
    assert seen == {have, FORMAT}, "the sweep saw only one of the two"


@pytest.mark.parametrize("kept", OLDER[-1:], ids=["newest"])
def test_where_no_backup_can_be_taken_nothing_changes(golden: str, scratch: str) -> None:
    have = format_of(golden)
    Path(scratch, "file").write_text("in the way")
    for wrong, code in ((os.path.join(scratch, "file"), 74), ("postgresql://x@y/z", 3), (f"{golden}/objects/b", 3)):
        answer = kfm(golden, "upgrade", wrong)
        assert answer.code == code and answer.err.count("\n") == 1 and format_of(golden) == have, (wrong, answer)


@pytest.mark.parametrize("kept", OLDER[-1:], ids=["newest"])
def test_a_worker_at_work_is_waited_for(golden: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfm.app.backup import upgrade

    lease = Lease(scope="u/golden", token=1, holder=this_process(), expires_ms=2**52, ttl_ms=2**52)
    whole = upgrade.upgraded

    def with_lease(tables, have):  # type: ignore[no-untyped-def]
        newer = whole(tables, have)
        newer.put("leases", "u/golden", encode(lease))
        return newer

    monkeypatch.setattr(upgrade, "upgraded", with_lease)
    answer = kfm(golden, "upgrade", place)
    assert answer.code == 6 and "worker is at work: u/golden" in answer.err and format_of(golden) < FORMAT


def test_nothing_to_upgrade_is_said(site: str, place: str, scratch: str) -> None:
    answer = kfm(site, "upgrade", place)
    assert answer.code == 0 and "nothing to upgrade" in answer.err and not os.path.exists(place)
    Path(site, "kfm.yml").write_text("state: sqlite:none.db\n" + Path(site, "kfm.yml").read_text())
    assert kfm(site, "upgrade", place).code == 3
