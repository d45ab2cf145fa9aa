"""`kfm backfill` executes the plan that it showed, one run for each partition: quarantined, resumed, cancelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.scheduling.pool_slots import SlotRequest, take
from kfm.store.process_identity import is_held
from tests.app.backfills.sites import Site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def test_what_was_shown_is_what_is_executed(site: Site) -> None:
    shown = site.backfill("plan")
    assert [each["state"] for each in shown["partitions"]] == ["missing"] * 5 and shown["expected_ms"] is None
    started = site.backfill("start", "--plan", shown["plan"][:19])
    assert started["plan"] == shown["plan"] and started["state"] == "finished"
    assert started["counts"] == {"made": 5}
    assert site.runs() == [(day, "done") for day in site.days]
    assert sorted(site.content()) == site.days
    after = site.backfill("plan")
    assert [each["state"] for each in after["partitions"]] == ["done"] * 5
    assert after["expected_ms"] is not None and after["runs"] == 0


def test_a_plan_that_is_no_longer_so_is_not_started(site: Site) -> None:
    shown = site.backfill("plan")
    site.kfm("run", "rain", "--partition", site.days[2])
    refused = site.kfm("backfill", "start", "january", "--plan", shown["plan"], code=6)
    assert "not the one that was shown" in refused.words
    assert [part for part, _ in site.runs()] == [site.days[2]]
    now = site.backfill("plan")
    assert now["counts"] == {"missing": 4, "stale": 0, "done": 1}
    site.backfill("start", "--plan", now["plan"])
    assert len(site.runs()) == 5, "the one that was done was not run again"


def test_planning_writes_nothing(site: Site) -> None:
    site.backfill("plan")
    assert not (site.folder / ".kfm").exists()


def test_what_other_code_made_is_stale(site: Site) -> None:
    site.backfill("start")
    site.released("1.1.0")
    shown = site.backfill("plan")
    assert shown["counts"] == {"missing": 0, "stale": 5, "done": 0}
    assert site.backfill("start")["counts"] == {"unchanged": 5}
    assert site.backfill("plan")["counts"] == {"missing": 0, "stale": 0, "done": 5}


def test_a_bad_partition_is_held_while_the_others_are_published(site: Site) -> None:
    site.rows(site.days[1], "not a number")
    said = site.kfm("backfill", "start", "january", code=3).data
    assert said["counts"] == {"made": 4, "held": 1}
    (bad,) = said["failing"]
    assert bad["partition"] == site.days[1] and bad["result"] == "held" and bad["run_id"]
    assert sorted(site.content()) == [day for day in site.days if day != site.days[1]]
    site.kfm("promote", "rain", "--reason", "the others")
    with site.open() as session:
        assert session.state.refs.at("published/rain") == session.state.refs.at("processed/rain")
    site.rows(site.days[1], 7)
    mended = site.backfill("resume", "--only-failed")
    assert mended["counts"] == {"made": 5} and mended["state"] == "finished" and not mended["failing"]
    assert [part for part, _ in site.runs()].count(site.days[1]) == 2 and len(site.runs()) == 6


def test_paused_nothing_begins_and_resumed_it_goes_on(site: Site) -> None:
    site.backfill("start", "--later")
    site.backfill("pause", "--reason", "not now")
    assert site.backfill("status")[0]["state"] == "paused"
    site.kfm("up", "--once", code=None)
    assert not site.runs()
    said = site.backfill("resume", "--reason", "now")
    assert said["state"] == "finished" and len(site.runs()) == 5


def test_what_is_started_for_later_is_worked_off_by_kfm_up(site: Site) -> None:
    assert site.backfill("start", "--later")["state"] == "waiting"
    assert not site.runs()
    site.kfm_up()
    assert len(site.runs()) == 5 and site.backfill("status")[0]["state"] == "finished"


def test_a_cancelled_backfill_keeps_what_it_made_and_can_start_again(site: Site) -> None:
    site.rows(site.days[1], "not a number")
    site.backfill("start", "--later")
    assert site.backfill("cancel", "--reason", "no")["state"] == "cancelled"
    assert site.kfm("backfill", "resume", "january", code=3).words.count("not under way") == 1
    site.kfm_up()
    assert not site.runs()
    site.rows(site.days[1], 1)
    assert site.backfill("start")["counts"] == {"made": 5}


def test_one_that_is_under_way_is_not_started_twice(site: Site) -> None:
    site.backfill("start", "--later")
    assert "under way" in site.kfm("backfill", "start", "january", code=6).words


def test_other_code_than_planned_goes_on_with_nothing(site: Site) -> None:
    site.backfill("start", "--later")
    site.released("2.0.0")
    assert "planned with other code" in site.kfm("backfill", "resume", "january", code=3).words
    assert not site.runs()


def test_a_backfill_goes_on_with_the_settings_it_was_planned_with_and_says_so(site: Site) -> None:
    site.backfill("start", "--later")
    with site.open() as session:
        planned = session.config.datasets["rain"].digest()
    config = site.folder / "kfm.yml"
    config.write_text(config.read_text().replace("title: T", "title: Rain", 1))
    said = site.kfm("backfill", "resume", "january")
    assert "the settings it was planned with, not those of kfm.yml" in said.words
    with site.open() as session:
        receipts = [session.state.ledger.receipt(entry.run_id) for entry in session.state.ledger.entries()]
        runs = [each for each in receipts if each is not None and each.partition]
        assert {(each.config_hash, each.outcome) for each in runs} == {(planned, "done")} and len(runs) == 5
    assert site.backfill("status")[0]["state"] == "finished"


def test_a_backfill_whose_settings_are_lost_goes_on_with_no_others(site: Site) -> None:
    site.backfill("start", "--later")
    with site.open() as session:
        planned = session.config.datasets["rain"].digest()
    with site.open("write") as session:
        session.tables.begin()
        session.tables.delete("objects", planned)
        session.tables.commit()
    config = site.folder / "kfm.yml"
    config.write_text(config.read_text().replace("title: T", "title: Rain", 1))
    said = site.kfm("backfill", "resume", "january", code=3).words
    assert f"{planned} is missing" in said and "kfm backfill cancel january" in said
    assert not site.runs()


@pytest.mark.parametrize(("policy", "count"), [("emit", 5), ("coalesce", 1), ("suppress", 0)])
def test_downstream_is_asked_for_as_declared(
    policy: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, monkeypatch, downstream=policy)
    site.kfm_up()  # from here on others come after it
    assert site.backfill("plan")["asks_for"] == 2 * count
    said = site.backfill("start")
    assert said["asked"] == 2 * count
    assert [name for name, _ in site.asked()] == ["first", "second"] * count
    site.kfm_up()
    assert site.made("first") == site.made("second") == min(count, 1), "those that wait together make one run"
    assert site.backfill("resume")["asked"] == 2 * count, "nothing new was made"
    site.rows(site.days[0], 99, 100)
    site.kfm("run", "rain", "--partition", site.days[0])
    site.kfm_up()
    assert site.made("first") == min(count, 1) + 1, "what is no part of a backfill is told as ever"


def test_a_backfill_that_emits_reports_each_partition_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, monkeypatch, days=2, downstream="emit")
    site.kfm_up()
    site.backfill("start")
    assert [reason for name, reason in site.asked() if name == "first"] == [
        f"after partition {day} of backfill january" for day in site.days
    ]


def test_its_runs_take_slots_of_its_pool_after_all_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, monkeypatch, days=2, pool="disk")
    with (site.folder / "kfm.yml").open("a") as file:
        file.write("pools: {disk: 1}\n")
    assert site.backfill("plan")["pool"] == "disk"
    site.backfill("start")
    with site.open() as session:
        asked = [each.trigger for each in session.state.inbox.all_ended()]
        held = [key for key, _ in session.tables.scan("leases", "pool/disk/")]
    assert [(each.pool, each.low) for each in asked] == [("disk", True)] * 2
    assert held, "no slot was ever taken"


def test_who_finds_every_slot_taken_takes_no_further_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kfm up` does not wait in it: whatever else is due goes on."""
    site = Site(tmp_path, monkeypatch, pool="disk")
    with (site.folder / "kfm.yml").open("a") as file:
        file.write("pools: {disk: 1}\n")
    site.backfill("start", "--later")
    with site.open("write") as session:
        other = SlotRequest(pool="disk", slots=1, key="other", about="other", received_ms=0, low=False)
        lease = take(session.state, other, "elsewhere:1:1:1:1", 60_000, session.clock.now_ms(), is_held)
        assert lease is not None
    site.kfm_up()
    with site.open("write") as session:
        waiting = [each.trigger_id for each in session.state.inbox.waiting("rain")]
        session.state.leases.release(lease)
    assert len(waiting) == 1 and not site.runs()
    assert site.backfill("resume")["counts"] == {"made": 5} and len(site.runs()) == 5


def test_a_dataset_that_takes_one_run_at_a_time_is_left_to_the_run_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, monkeypatch, days=3)
    code = (site.folder / "rain.py").read_text()
    (site.folder / "rain.py").write_text(code.replace('lease_by = "partition"', 'lease_by = "dataset"'))
    site.backfill("start", "--later")
    with site.open("write") as session:
        lease = session.state.leases.acquire("rain/rain", "elsewhere:1:1:1:1", 60_000)
    said = site.kfm("backfill", "resume", "january", code=6)
    assert "another worker is at work on rain" in said.words and said.data["left"] == 2
    with site.open("write") as session:
        session.state.leases.release(lease)
    assert site.backfill("resume")["counts"] == {"made": 3} and len(site.runs()) == 3
