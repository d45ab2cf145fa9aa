"""A dependent dataset is built once for each set of upstream versions, whatever the graph, the pace and the kills."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.model.records import Trigger
from kfm.scheduling.triggers import keep
from tests.app.backfills.sites import Site as Partitioned
from tests.app.dependencies.web import Site, laid_out, opened

DIAMOND = {"top": [], "left": ["top"], "right": ["top"], "foot": ["left", "right"]}


def test_a_diamond_is_made_once_for_each_version_of_its_top(tmp_path: Path) -> None:
    site = opened(laid_out(tmp_path, DIAMOND))
    for n in range(1, 4):
        site.changed(str(n))
        site.settled()
        assert site.versions() == dict.fromkeys(DIAMOND, n)
        assert site.text("foot") == str(n), "both sides are of the same top"
    site.session.close()


def test_the_first_version_is_asked_for_without_waiting_for_a_second(tmp_path: Path) -> None:
    path = laid_out(tmp_path, {"top": [], "below": ["top"]})
    site = opened(path)
    site.changed("1")
    site.session.close()
    later = opened(path)  # nobody was up when it came
    later.settled()
    assert later.versions() == {"top": 1, "below": 1}
    later.session.close()


def test_what_was_made_by_hand_is_not_asked_for_again(tmp_path: Path) -> None:
    site = opened(laid_out(tmp_path, {"top": [], "below": ["top"]}))
    site.changed("1")
    run_trigger(site.session, new_trigger(site.session, "below", actor="tester"))
    assert site.settled() == 0
    assert site.versions() == {"top": 1, "below": 1}
    site.session.close()


def test_a_chain_of_ten_is_followed_to_its_end(tmp_path: Path) -> None:
    chain = ["top", *(f"d{n}" for n in range(1, 10))]
    site = opened(laid_out(tmp_path, {name: chain[n - 1 : n] for n, name in enumerate(chain)}))
    for n in (1, 2):
        site.changed(str(n))
        site.settled()
        assert site.versions() == dict.fromkeys(chain, n)
    site.session.close()


def test_a_hundred_that_read_one_are_made_once_each(tmp_path: Path) -> None:
    names = [f"d{n}" for n in range(100)]
    site = opened(laid_out(tmp_path, {"top": [], **{name: ["top"] for name in names}, "all": names}))
    site.changed("1")
    site.settled()
    assert site.versions() == {"top": 1, "all": 1, **dict.fromkeys(names, 1)}
    site.session.close()


def test_a_storm_of_fifty_versions_asks_for_one_run(tmp_path: Path) -> None:
    site = opened(laid_out(tmp_path, {"top": [], "below": ["top"]}))
    for n in range(50):
        site.changed(str(n + 1))
    site.settled()
    assert site.versions() == {"top": 50, "below": 1}
    assert site.text("below") == "50"
    asked = [each for each in site.session.state.inbox.all_ended() if each.trigger.kind == "event"]
    assert len(asked) == 1
    site.session.close()


def test_a_long_side_and_a_short_one_come_together(tmp_path: Path) -> None:
    """The short side is done first; what reads both waits for the long one, though nobody has asked for all of it."""
    edges = {"top": [], "short": ["top"], "l1": ["top"], "l2": ["l1"], "l3": ["l2"], "foot": ["short", "l3"]}
    site = opened(laid_out(tmp_path, edges))
    for n in (1, 2):
        site.changed(str(n))
        site.settled()
        assert site.versions() == dict.fromkeys(edges, n)
    site.session.close()


def waiting(site: Site, dataset: str) -> Trigger:
    return keep(site.session.state, new_trigger(site.session, dataset, actor="tester", kind="schedule"))


def test_what_is_frozen_above_is_not_waited_for(tmp_path: Path) -> None:
    site = opened(laid_out(tmp_path, {"one": [], "two": [], "foot": ["one", "two"]}))
    site.changed("1", "one")
    site.changed("1", "two")
    site.settled()
    waiting(site, "two")
    site.changed("2", "one")
    site.upkeep._ticker.claim()
    assert not list(site.session.state.inbox.waiting("foot")), "two is still to come"
    run_operation(site.session, "freeze", "two", reason="stop")
    site.upkeep._ticker.claim()
    assert list(site.session.state.inbox.waiting("foot")), "two may be frozen for weeks"
    site.session.close()


def test_what_waits_for_an_hour_above_is_not_waited_for_any_more(tmp_path: Path) -> None:
    site = opened(laid_out(tmp_path, {"one": [], "two": [], "foot": ["one", "two"]}))
    site.changed("1", "one")
    site.changed("1", "two")
    site.settled()
    waiting(site, "two")
    site.changed("2", "one")
    site.upkeep._ticker.claim()
    assert not list(site.session.state.inbox.waiting("foot"))
    site.session.clock.advance(3_600_001)  # type: ignore[attr-defined]
    site.upkeep._ticker.claim()
    assert list(site.session.state.inbox.waiting("foot"))
    site.session.close()


def test_one_side_that_fails_does_not_keep_the_other_back(tmp_path: Path) -> None:
    site = opened(laid_out(tmp_path, {"top": [], "left": ["top"], "right": ["top"], "foot": ["left", "right"]}))
    site.changed("1")
    site.settled()
    site.changed("fail-right")
    failed = [one for _ in range(3) for one in site.upkeep.turn(patient=False) if one.status == "FAILED"]
    assert [one.dataset for one in failed] == ["right"]
    assert site.versions() == {"top": 2, "left": 2, "right": 1, "foot": 2}
    assert site.text("foot") == "1 fail-right", "of the last version that right has"
    site.session.close()


def test_a_paused_one_is_brought_up_to_date_when_it_goes_on(tmp_path: Path) -> None:
    site = opened(laid_out(tmp_path, {"top": [], "below": ["top"]}))
    run_operation(site.session, "freeze", "below", {"scope": "schedule/below"}, reason="not now")
    site.changed("1")
    site.settled()
    assert site.versions() == {"top": 1}
    run_operation(site.session, "thaw", "below", {"scope": "schedule/below"}, reason="go on")
    site.settled()
    assert site.versions() == {"top": 1, "below": 1}
    site.session.close()


def test_a_version_that_is_rolled_back_is_followed_back(tmp_path: Path) -> None:
    site = opened(laid_out(tmp_path, {"top": [], "below": ["top"]}))
    for n in (1, 2):
        site.changed(str(n))
        site.settled()
    run_operation(site.session, "rollback", "top", {"ref": "processed/top"}, reason="wrong")
    site.settled()
    assert site.text("below") == "1"
    site.session.close()


def test_what_is_rolled_back_below_stays_so_until_something_new_comes(tmp_path: Path) -> None:
    site = opened(laid_out(tmp_path, {"top": [], "below": ["top"]}))
    for n in (1, 2):
        site.changed(str(n))
        site.settled()
    run_operation(site.session, "rollback", "below", {"ref": "processed/below"}, reason="wrong")
    site.settled()
    site.session.close()
    site = opened(tmp_path / "kfm.yml")  # one that is started again looks at everything
    site.settled()
    assert site.text("below") == "1"
    site.changed("3")
    site.settled()
    assert site.text("below") == "3"
    site.session.close()


def test_a_schedule_of_its_own_says_when_instead(tmp_path: Path) -> None:
    more = {"below": "schedule: {cadence: daily}", "partly": "schedule: {after: [top]}"}
    edges = {"top": [], "other": ["top"], "below": ["top"], "partly": ["top", "other"]}
    site = opened(laid_out(tmp_path, edges, more=more))
    site.changed("1")
    site.settled()
    assert site.versions()["below"] == 0, "its time has not come"
    assert site.versions()["partly"] == 1
    site.session.close()


def test_versions_are_pinned_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process moves both while they are being looked up: what is read is a set that there was."""
    site = opened(laid_out(tmp_path, {"one": [], "two": [], "foot": ["one", "two"]}))
    site.changed("1", "one")
    site.changed("1", "two")
    from kfm.engine.dataset_inputs import Versions

    fired = []
    real = Versions._entry

    def between(self: Versions, name: str, *rest: object) -> object:
        found = real(self, name, *rest)  # type: ignore[arg-type]
        if not fired:
            fired.append(name)
            site.changed("2", "one")
            site.changed("2", "two")
        return found

    before = tuple(site.session.state.refs.at(f"processed/{name}") for name in ("one", "two"))
    monkeypatch.setattr(Versions, "_entry", between)
    run_trigger(site.session, new_trigger(site.session, "foot", actor="tester"))
    assert fired == ["one"]
    assert site.sets("foot") == [before]
    site.session.close()


@pytest.mark.parametrize(("rounds", "seed"), [(8, 1), pytest.param(60, 2, marks=pytest.mark.long)])
def test_each_set_is_made_once_though_two_keep_it_up_and_are_killed(tmp_path: Path, rounds: int, seed: int) -> None:
    path = laid_out(tmp_path, DIAMOND, slow=0.03)
    site = opened(path)
    site.changed("0")
    pick, kills = random.Random(seed), 0
    up = [started(path) for _ in range(2)]
    try:
        for n in range(1, rounds + 1):
            (tmp_path / "body.txt").write_text(str(n))
            for _ in range(200):  # whoever is killed left it for us
                receipt = run_trigger(site.session, new_trigger(site.session, "top", actor="tester"))
                if receipt.status == "SUCCESS":
                    break
            time.sleep(pick.random() * 0.25)
            at = pick.randrange(len(up))
            up[at].kill()
            up[at].wait()
            kills += 1
            up[at] = started(path)
    finally:
        for each in up:
            each.kill()
            each.wait()
    list(site.upkeep.begin())
    site.settled()
    assert kills == rounds
    for name in ("left", "right", "foot"):
        sets = site.sets(name)
        assert len(sets) == len(set(sets)), f"{name} was made twice of the same"
    assert site.text("foot") == str(rounds)
    tops = {top for (top,) in site.sets("left")} & {top for (top,) in site.sets("right")}
    assert len(site.sets("foot")) <= len(site.sets("left")) + len(site.sets("right"))
    assert tops, "both sides followed"
    site.session.close()


def started(path: Path) -> subprocess.Popen[bytes]:
    found = subprocess.Popen([sys.executable, "-m", "tests.app.dependencies.web", str(path)], stdout=subprocess.PIPE)
    assert found.stdout is not None and found.stdout.readline() == b"up\n"
    return found


def test_a_freeze_of_everything_keeps_what_was_asked_for(tmp_path: Path) -> None:
    site = opened(laid_out(tmp_path, {"top": [], "below": ["top"]}))
    site.changed("1")
    run_operation(site.session, "freeze", "global", reason="stop")
    list(site.upkeep.turn(patient=False))
    assert site.versions() == {"top": 1}
    run_operation(site.session, "thaw", "global", reason="go on")
    site.session.clock.advance(600_000)  # type: ignore[attr-defined]
    site.settled()
    assert site.versions() == {"top": 1, "below": 1}
    site.session.close()


@pytest.mark.parametrize(("policy", "count"), [("emit", 1), ("coalesce", 1), ("suppress", 0)])
def test_a_backfill_says_itself_what_comes_after_it(
    policy: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Partitioned(tmp_path, monkeypatch, downstream=policy)
    for name, old, new in (
        ("kfm.yml", "schedule: {after: [rain]}", "sources: {rain: {dataset: rain}}"),
        ("rain.py", 'sources.ref("processed/rain")', 'sources.pin("rain")'),
    ):
        text = (tmp_path / name).read_text()
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new))
    site.kfm_up()
    site.backfill("start")
    site.kfm_up()
    assert site.made("first") == site.made("second") == count
    site.rows(site.days[0], 99, 100)
    site.kfm("run", "rain", "--partition", site.days[0])
    site.kfm_up()
    assert site.made("first") == count + 1, "what is no part of a backfill is told as ever"
