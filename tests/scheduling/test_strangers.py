"""What is wrong with one stops no other; and what a branch does is no news of the installation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from kfm import config
from kfm.app.daemon.daemon_loop import Daemon
from kfm.app.previews.branch_previews import sweep
from kfm.app.runs.freshness import freshness
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.engine.execute import Crew
from kfm.errors import KfmError
from kfm.model.records import Receipt
from kfm.model.schedules import Schedule
from kfm.scheduling.schedule_ticks import acted_on, due

HOUR = 3_600_000
SAID = """\
publish: noop
watch: {poll_s: 0, debounce_s: 0}
datasets:
  broken:
    updater: broken.py:Broken
    sensitivity: public
    schedule: BROKEN
    sources: {rain: {uri: rain.csv, format: csv}}
  rain:
    version: "1.0.0"
    sensitivity: public
    freshness: {max_age: 1h}
    schedule: {cron: "0 * * * *"}
    sources:
      rain: {uri: rain.csv, format: csv, contract: {columns: [{name: n, type: integer}]}}
    outputs: {rain: {from: rain}}
"""
MENDED = """\
from kfm import Output, Plan, Step, Updater

class Broken(Updater):
    id = "broken"
    version = "1.0.0"
    def inputs(self, trigger, sources):
        return [sources.pin("rain")]
    def plan(self, inputs):
        return Plan([Step(id="a", key=("a",))])
    def perform(self, step, read):
        return Output(read.bytes(0), "text/csv")
"""


class Site:
    def __init__(self, folder: Path, session: Session, clock: FixedClock) -> None:
        self.folder, self.session, self.clock = folder, session, clock
        self.told: list[tuple[str, KfmError]] = []
        self.upkeep = Daemon(session, sorted(session.config.datasets), lambda *said: self.told.append(said))

    def round(self, ms: int = 0) -> list[Receipt]:
        self.clock.advance(ms)
        return list(self.upkeep.turn(patient=False))


@contextmanager
def opened(folder: Path, text: str = SAID, **said: str) -> Iterator[Site]:
    for name, value in said.items():
        text = text.replace(name, value)
    (folder / "broken.py").write_text("import nothing_of_this_name\n")
    (folder / "rain.csv").write_text("n\n1\n2\n3\n4\n")
    (folder / "kfm.yml").write_text(text)
    clock = FixedClock(1_800_000_000_000)
    resolved = config.load(str(folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"})
    with open_session(resolved, clock=clock) as session:
        yield Site(folder, session, clock)


@pytest.mark.parametrize("when", ['{cron: "0 * * * *"}', "{cadence: static}"])
def test_an_updater_that_cannot_be_loaded_stops_no_other_schedule(tmp_path: Path, when: str) -> None:
    with opened(tmp_path, BROKEN=when) as site:
        site.round()
        assert [(each.dataset, each.outcome) for each in site.round(HOUR)] == [("rain", "done")]
        assert site.told and {about for about, _ in site.told} == {"schedule broken"}
        (tmp_path / "broken.py").write_text(MENDED)
        made = [each.dataset for each in Site(tmp_path, site.session, site.clock).round(HOUR)]
        assert made == ["broken", "rain"], "what it missed is still due"


def test_an_updater_that_cannot_be_loaded_stops_no_other_that_is_polled(tmp_path: Path) -> None:
    text = SAID.replace("poll_s: 0", "poll_s: 60").replace("    schedule: BROKEN\n", "")
    with opened(tmp_path, text.replace('    schedule: {cron: "0 * * * *"}\n', "")) as site:
        assert [each.dataset for each in site.round()] == ["rain"]
        assert [about for about, _ in site.told] == ["broken"]
        (tmp_path / "broken.py").write_text(MENDED)
        again = Site(tmp_path, site.session, site.clock)
        assert [each.dataset for each in again.round(200_000)] == ["broken"]


def test_an_instant_to_be_acted_on_later_is_not_forgotten_by_one_that_begins_in_between(tmp_path: Path) -> None:
    said = '{cron: "0 0 * * *", jitter_s: 36000}'
    with opened(tmp_path, SAID.replace('{cron: "0 * * * *"}', said), BROKEN="{cadence: annual}") as site:
        site.round()
        day = 86_400_000
        midnight = (site.clock.now_ms() // day + 1) * day
        schedule = Schedule(id="rain", dataset="rain", cron="0 0 * * *", jitter_s=36000)
        then = acted_on(schedule, midnight)
        assert then - midnight > 60_000, "there is something in between"
        site.clock.advance(midnight + 30_000 - site.clock.now_ms())
        begun = Site(tmp_path, site.session, site.clock)  # as one that was restarted
        assert begun.round() == []
        while begun.clock.now_ms() < then:
            assert begun.round(min(50_000, then - begun.clock.now_ms())) == [] or begun.clock.now_ms() == then
        assert begun.session.state.refs.at("processed/rain"), "at its time, and not a day later"


@pytest.mark.parametrize("catch_up", ["last", "none"])
def test_the_last_of_very_many_is_the_last(catch_up: str) -> None:
    schedule = Schedule(id="s", dataset="d", cron="* * * * *", catch_up=catch_up)  # type: ignore[arg-type]
    begin = 1_800_000_000_000
    now = begin + 120 * 86_400_000
    found = due(schedule, begin, now, 90_000)
    assert (found.at_ms, found.upto_ms) == ([now], now)
    assert found.missed >= 100_000


CHECKED = SAID.replace("broken.py:Broken", "mended.py:Broken").replace("broken:", "checks:")
WATCHING = "{on: anomaly, of: [rain], when: {held_share: 0.25, rows_drop: 0.5}}"


def previewed(site: Site, text: str) -> Receipt:
    """A run as `kfm preview build` makes it, of what a branch has as the source."""
    ours = (site.folder / "rain.csv").read_text()
    (site.folder / "rain.csv").write_text(text)
    try:
        return run_trigger(
            site.session,
            replace(new_trigger(site.session, "rain", actor="ann"), params={"preview": "fewer", "build": "1"}),
        )
    finally:
        (site.folder / "rain.csv").write_text(ours)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "mended.py").write_text(MENDED.replace("broken", "checks"))
    with opened(tmp_path, CHECKED, BROKEN=WATCHING) as site:
        site.round()
        assert [each.dataset for each in site.round(HOUR)] == ["rain"]
        yield site


def test_a_preview_is_no_anomaly(site: Site) -> None:
    assert previewed(site, "n\n1\nx\ny\n4\n").held_rows == 2
    assert site.round() == [], "rows of a branch were held, none of ours"
    assert previewed(site, "n\n1\n" + "2\n" * 20).status == "SUCCESS"
    (site.folder / "rain.csv").write_text("n\n1\n2\n3\n5\n")
    assert [each.dataset for each in site.round(HOUR)] == ["rain"]
    assert site.round() == [], "as many rows as the last of ours"


def test_nobody_is_late_because_of_a_preview(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert previewed(site, "n\nx\ny\n").outcome == "held"
    site.clock.advance(2 * HOUR)
    assert freshness(site.session, ["rain"])[0].blame == {"not yet noticed": 120}
    refs = [ref.removeprefix("preview/fewer/") for ref, _ in list(site.session.state.refs.all("preview/"))]
    assert refs and sweep(site.session, "fewer", refs, reason="", actor="ann").status == "SUCCESS"
    assert freshness(site.session, ["rain"])[0].blame == {"not yet noticed": 120}, "it went, and says nothing still"
    _left(site, monkeypatch)
    site.clock.advance(HOUR)
    assert freshness(site.session, ["rain"])[0].blame == {"not yet noticed": 180}


def test_what_is_left_of_a_preview_is_not_for_up_to_finish(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    left = _left(site, monkeypatch)
    again = Site(site.folder, site.session, site.clock)
    assert list(again.upkeep.begin()) == []
    assert again.told == [], "it is `kfm preview build` that goes on with it"
    assert [run.run_id for run in site.session.state.runs.unfinished()] == [left]


def _left(site: Site, monkeypatch: pytest.MonkeyPatch) -> str:
    """The run of a preview that was stopped at its first step."""

    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Crew, "_one", interrupted)
        with pytest.raises(KeyboardInterrupt):
            previewed(site, "n\n1\n2\n3\n7\n")
    (run,) = site.session.state.runs.unfinished()
    return run.run_id
