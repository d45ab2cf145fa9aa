"""Partitions of one dataset have their own keys, run at once where the updater allows it, and lose nothing of each
other.
"""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs.run_control import run_operation
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.cli.main import main
from kfm.errors import BadInput, Busy, Conflict, Fenced, Moved, PlanDrift
from kfm.model.manifests import entries_of
from tests.engine.crowds import Told
from tests.engine.tiles import PARTS, Site, Stumbling, Tiles, between, left_unfinished

# -- what a partition is


def test_a_partition_has_keys_and_receipts_of_its_own_and_is_typed(tmp_path: Path, capsys: Any) -> None:
    site = Site(tmp_path)
    config = ["--config", str(tmp_path / "kfm.yml")]
    assert main(["run", "tiles", "--partition", "East", *config]) == 0
    assert "tiles/East" in capsys.readouterr().out
    assert main(["run", "tiles", "--partition", "East", "--exit-code", *config]) == 10
    assert sorted(site.content()) == ["East/0000", "East/0001", "East/0002"]
    east, west, whole = site.run("East"), site.run("West"), site.run("")
    assert [each.partition for each in (east, west, whole)] == ["East", "West", ""]
    assert len({each.run_key for each in (east, west, whole)} | {each.job_id for each in (east, west, whole)}) == 6
    with site.open("read") as session:
        assert sorted(name for name, _ in session.state.refs.all("raw/")) == [
            "raw/tiles/0", "raw/tiles/1", "raw/tiles/East/0", "raw/tiles/West/0",
        ]  # fmt: skip


@pytest.mark.parametrize("name", ["../x", "a/b", "a b", ".hidden", "nul", "ä", "x" * 200, "a\nb"])
def test_a_partition_is_a_name(name: str, tmp_path: Path, capsys: Any) -> None:
    Site(tmp_path)
    assert main(["run", "tiles", "--partition", name, "--config", str(tmp_path / "kfm.yml")]) == 3
    assert "partition" in capsys.readouterr().err


def test_a_partition_is_of_one_dataset_and_not_of_a_declared_one(tmp_path: Path, capsys: Any) -> None:
    site = Site(tmp_path)
    assert main(["run", "--partition", "East", "--config", str(tmp_path / "kfm.yml")]) == 3
    assert "one dataset" in capsys.readouterr().err
    text = (tmp_path / "kfm.yml").read_text()
    made = "  plain:\n    title: T\n    license: CC0-1.0\n    sensitivity: public\n    version: 1.0.0\n"
    made += "    sources:\n      rows: {uri: East.csv, format: csv}\n    outputs:\n      all: {from: rows}\n"
    (tmp_path / "kfm.yml").write_text(text.replace("datasets:\n", "datasets:\n" + made))
    with site.open() as session, pytest.raises(BadInput, match="no meaning for plain"):
        new_trigger(session, "plain", partition="East")


def test_a_key_that_is_not_of_the_partition_is_refused(tmp_path: Path) -> None:
    receipt = Site(tmp_path, updater="Astray").run("East")
    assert receipt.status == "FAILED" and "does not begin with the partition East" in receipt.errors[0].message


def test_a_plan_of_a_partition_can_be_looked_at_and_checked_elsewhere(tmp_path: Path, capsys: Any) -> None:
    Site(tmp_path)
    assert main(["plan", "tiles", "--partition", "West", "--check", "--config", str(tmp_path / "kfm.yml")]) == 0
    assert "steps     3" in capsys.readouterr().out.replace("\t", " ")


# -- its deletions


def test_a_complete_plan_of_a_partition_deletes_only_among_its_own_keys(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.run("East")
    site.run("West")
    site.lines("East", 2, "second")
    receipt = site.run("East")
    assert receipt.changes == {"added": 0, "changed": 2, "removed": 1, "keys": 5}
    assert sorted(site.content()) == ["East/0000", "East/0001", "West/0000", "West/0001", "West/0002"]


def test_the_budget_is_of_the_keys_of_the_partition(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.lines("West", 100, "many")
    site.run("East")
    site.run("West")
    site.lines("East", 1, "first")
    denied = site.run("East")
    assert denied.outcome == "denied" and "would delete 2 of 3 keys of tiles/East" in denied.errors[0].message
    assert "kfm run tiles --partition East --allow-deletions 2" in denied.errors[0].message
    assert site.run("East", allow_deletions=2, reason="it is right").changes["removed"] == 2


def test_a_tree_reached_by_partitions_is_the_tree_made_at_once(place: Path) -> None:
    """Deep enough for parts of parts, with deletions that empty whole parts."""
    rng = random.Random(7)
    site, other = Site(place / "parts"), Site(place / "whole")
    for folder in (site, other):
        (folder.folder / "kfm.yml").write_text(
            (folder.folder / "kfm.yml").read_text().replace("deletion_budget: 0.5", "deletion_budget: 1.0")
        )
    for n in range(6):
        counts = {part: rng.choice([1, 40, 200, 500]) for part in PARTS}
        for part, count in counts.items():
            site.lines(part, count, f"round {n}")
            other.lines(part, count, f"round {n}")
            site.run(part)
        other.run("")
        assert site.version() == other.version(), n
        with site.open("read") as session:
            version = session.state.refs.at("processed/tiles")
            for part, count in counts.items():
                found = list(entries_of(session.objects, version, part))
                assert [each.key for each in found] == [(part, f"{k:04d}") for k in range(count)]


# -- at once


def test_a_commit_that_came_in_between_is_kept_and_the_second_is_assembled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    site.run("")
    site.lines("East", 4, "second")
    site.lines("West", 2, "second")
    turns = between(monkeypatch, partial(site.run, "West"))
    receipt = site.run("East")
    assert receipt.outcome == "done" and len(turns) == 3, "it did not come between"
    assert receipt.changes == {"added": 1, "changed": 3, "removed": 0, "keys": 6}
    found = site.content()
    assert sorted(found) == ["East/0000", "East/0001", "East/0002", "East/0003", "West/0000", "West/0001"]
    assert all("second" in text for text in found.values())
    site.sound()


def test_turns_come_to_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    site.run("")
    site.lines("East", 4, "second")
    monkeypatch.setattr("kfm.engine.upsert.ATTEMPTS", 1)
    site.lines("West", 2, "second")
    between(monkeypatch, partial(site.run, "West"))
    with pytest.raises(Moved):
        site.run("East")
    (done,) = site.finish()
    assert done.outcome == "done" and len(site.content()) == 6


def test_of_the_same_partition_twice_at_once_one_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    told: list[Told] = []
    between(monkeypatch, lambda: told.extend(map(site.typed, ("East", ""))))
    assert site.run("East").outcome == "done"
    assert [each.outcome for each in told] == ["lease.busy", "lease.busy"]
    assert all("at work on tiles/East" in each.message for each in told)


def test_while_the_whole_is_at_work_its_partitions_are_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    told: list[Told] = []
    between(monkeypatch, lambda: told.append(site.typed("East")))
    assert site.run("").outcome == "done"
    assert [each.outcome for each in told] == ["lease.busy"]


def test_unless_it_asks_partitions_of_an_updater_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, updater="OneAtATime")
    told: list[Told] = []
    between(monkeypatch, lambda: told.append(site.typed("West")))
    assert site.run("East").outcome == "done"
    assert [each.outcome for each in told] == ["lease.busy"]


def test_a_lease_on_the_whole_fences_off_those_on_its_parts_and_the_other_way_round(tmp_path: Path) -> None:
    with Site(tmp_path).open() as session:
        leases = session.state.leases
        stale = leases.acquire("tiles/tiles/East", "nobody", 0)
        whole = leases.acquire("tiles/tiles", "nobody", 0)
        with pytest.raises(Fenced), session.state.transaction(stale):
            pass
        part = leases.acquire("tiles/tiles/West", "somebody", 60_000)
        assert stale.token < whole.token < part.token
        with pytest.raises(Fenced), session.state.transaction(whole):
            pass
        leases.acquire("tiles/tiles/East", "somebody", 60_000)
        leases.acquire("tiles/tiles2", "somebody", 60_000)
        with pytest.raises(Busy):
            leases.acquire("tiles/tiles", "somebody", 60_000)


# -- what is left of them


def test_an_unfinished_run_of_a_partition_is_taken_up_by_that_partition_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    left_unfinished(site, "East", monkeypatch)
    assert site.run("West").outcome == "done"
    with site.open("read") as session:
        assert [run.trigger.partition for run in session.state.runs.unfinished()] == ["East"]
    site.lines("East", 4, "second")  # other inputs: the unfinished one must not come back later
    assert site.run("East").outcome == "done"
    assert site.finish() == []
    with site.open("read") as session:
        told = [session.state.ledger.receipt(each.run_id) for each in session.state.ledger.entries()]
        assert [(r.partition, r.outcome) for r in told if r] == [
            ("West", "done"), ("East", "superseded"), ("East", "done"),
        ]  # fmt: skip


def test_resume_finishes_every_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    for part in PARTS:
        left_unfinished(site, part, monkeypatch)
    assert sorted(each.partition for each in site.finish()) == ["East", "West"]
    assert len(site.content()) == 6


def test_a_run_of_the_whole_stands_for_its_partitions_and_they_not_for_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    left_unfinished(site, "East", monkeypatch)
    left_unfinished(site, "", monkeypatch)
    with pytest.raises(Conflict, match="of the whole of tiles is unfinished"):
        site.run("East")
    assert [(each.partition, each.outcome) for each in site.finish()] == [("", "done")]
    assert site.run("East").outcome == "unchanged"


def test_abandon_ends_the_run_of_its_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    left_unfinished(site, "East", monkeypatch)
    left_unfinished(site, "West", monkeypatch)
    monkeypatch.setattr(Tiles, "version", "2.0.0")
    with pytest.raises(PlanDrift, match="kfm run tiles --partition East --abandon"):
        site.run("East")
    site.run("East", abandon=True, reason="other code")
    with site.open("read") as session:
        assert [run.trigger.partition for run in session.state.runs.unfinished()] == ["West"]


def test_a_freeze_keeps_a_trigger_for_each_partition(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.open() as session:
        run_operation(session, "freeze", "tiles", reason="wait")
        settle_session(session)
    for part in ("East", "West", "East"):
        assert site.run(part).outcome == "frozen"
    with site.open() as session:
        assert [each.partition for each in session.state.inbox.waiting()] == ["East", "West"]
        run_operation(session, "thaw", "tiles", reason="go on")
        settle_session(session)
    assert [(each.partition, each.outcome) for each in site.finish()] == [("East", "done"), ("West", "done")]


def test_what_one_partition_made_is_a_noop_although_another_moved_the_ref_and_not_once_it_is_rolled_back(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path)
    site.run("West")
    site.run("East")
    assert site.run("West").outcome == "noop"
    with site.open() as session:
        west_only = next(iter(session.state.refs.history("processed/tiles"))).after
        run_operation(session, "rollback", "tiles", {"ref": "processed/tiles", "to": west_only}, reason="x")
        settle_session(session)
    assert site.run("West").outcome == "noop"
    assert site.run("East").outcome == "done"


def test_a_run_of_the_whole_that_has_nothing_to_do_ends_the_unfinished_ones_of_its_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    site.run("")
    site.lines("East", 4, "second")
    left_unfinished(site, "East", monkeypatch)
    site.lines("East", 3, "first")
    assert site.run("").outcome == "noop"
    assert site.finish() == [] and len(site.content()) == 6


def test_a_failed_run_of_a_partition_is_continued_by_that_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, updater="Stumbling")
    monkeypatch.setattr(Stumbling, "stumbles", True)
    assert site.run("East").outcome == "failed"
    monkeypatch.setattr(Stumbling, "stumbles", False)
    Stumbling.performed.clear()
    assert site.run("West").outcome == "done"
    assert site.run("East").outcome == "done"
    assert Stumbling.performed == ["West-0", "West-1", "West-2", "East-2"]


def test_a_dry_run_of_a_partition_predicts_what_it_makes(tmp_path: Path, capsys: Any) -> None:
    site = Site(tmp_path)
    site.run("West")
    before = site.version()
    config = ["--json", "--config", str(tmp_path / "kfm.yml")]
    told = []
    for more in (["--dry-run"], []):
        assert site.version() == before
        assert main(["run", "tiles", "--partition", "East", *more, *config]) == 0
        (receipt,) = json.loads(capsys.readouterr().out)["receipts"]
        told.append((receipt["moves"], receipt["changes"], receipt["outputs"], receipt["run_key"]))
    assert told[0] == told[1] and site.version() != before
