"""How old a dataset is, and whose minutes those are: they add up, whatever happened."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm import config
from kfm.app.runs.freshness import freshness
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.engine.execute import Crew
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.reports.freshness_record import Freshness
from kfm.scheduling.freshness_rules import RANKS, Spell, blame, deadline_ms, length_ms
from kfm.scheduling.triggers import keep
from tests.sampling import tries

HOUR = 3_600_000
INSTALLATION = """\
publish: noop
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    freshness: {TARGET}
    sources:
      rain: {uri: rain.csv, format: csv, contract: {columns: [{name: n, type: integer}]}}
    outputs:
      rain: {from: rain}
  below:
    version: "1.0.0"
    freshness: {max_age: 1h}
    schedule: {after: [rain]}
    sources:
      rain: {uri: rain.csv, format: csv}
    outputs:
      rain: {from: rain}
"""


class Site:
    def __init__(self, folder: Path, session: Session, clock: FixedClock) -> None:
        self.folder = folder
        self.session = session
        self.clock = clock

    def wrote(self, text: str) -> None:
        (self.folder / "rain.csv").write_text(text)

    def run(self, dataset: str = "rain") -> str:
        return run_trigger(self.session, new_trigger(self.session, dataset, actor="tester")).outcome

    def passes(self, hours: float) -> None:
        self.clock.advance(round(hours * HOUR))

    def told(self, dataset: str = "rain") -> Freshness:
        (found,) = freshness(self.session, [dataset])
        assert sum(found.blame.values()) == (found.age_min or 0)
        return found

    def owed(self, dataset: str = "rain") -> dict[str, float]:
        """Hours by cause."""
        return {cause: minutes / 60 for cause, minutes in self.told(dataset).blame.items()}


class MovingClock(FixedClock):
    """A clock that moves on by a millisecond whenever a caller reads it."""

    def now_ms(self) -> int:
        self.advance(1)
        return super().now_ms()


@contextlib.contextmanager
def opened(folder: Path, target: str = "max_age: 2h", clock: FixedClock | None = None) -> Iterator[Site]:
    (folder / "kfm.yml").write_text(INSTALLATION.replace("TARGET", target))
    clock = clock or FixedClock(1_780_000_000_000)
    with open_session(
        config.load(str(folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"}), clock=clock
    ) as session:
        site = Site(folder, session, clock)
        site.wrote("n\n1\n")
        yield site


def test_nothing_was_made_yet(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        assert site.told().verdict == "never"


def test_it_is_fresh_and_then_it_is_late(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        site.run()
        site.passes(2)
        assert (site.told().verdict, site.told().late_min) == ("fresh", 0)
        site.passes(0.5)
        told = site.told()
        assert (told.verdict, told.late_min, told.age_min) == ("late", 30, 150)
        assert site.owed() == {"not yet noticed": 2.5}


def test_the_source_is_late(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        site.run()
        site.passes(3)
        assert site.run() == "noop"
        site.passes(1)
        assert site.owed() == {"source late": 3, "not yet noticed": 1}


def test_it_is_held(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        site.run()
        site.passes(1)
        site.wrote("n\nx\n")
        assert site.run() == "held"
        site.passes(4)
        assert site.owed() == {"held": 4, "not yet noticed": 1}


def test_it_is_frozen_and_thawed(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        site.run()
        site.passes(1)
        run_operation(site.session, "freeze", "rain", reason="a look", actor="tester")
        site.passes(5)
        run_operation(site.session, "thaw", "rain", reason="done", actor="tester")
        site.passes(2)
        assert site.owed() == {"frozen": 5, "not yet noticed": 3}


def test_a_newer_version_waits_for_review(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        site.run()
        run_operation(site.session, "promote", "rain", reason="first", actor="tester")
        site.passes(1)
        site.wrote("n\n2\n")
        assert site.run() == "done"
        site.passes(6)
        assert site.owed() == {"waiting for review": 6, "not yet noticed": 1}
        run_operation(site.session, "promote", "rain", reason="second", actor="tester")
        assert site.told().age_min == 360  # since it was made, not since it was let out


def test_a_version_waits_for_review_until_it_is_published_and_no_longer(tmp_path: Path) -> None:
    """The clock moves on while a run works, so the run that made a version ends after it was made."""
    with opened(tmp_path, clock=MovingClock(1_780_000_000_000)) as site:
        site.run()
        site.passes(1)
        run_operation(site.session, "promote", "rain", reason="first", actor="tester")
        site.passes(3)
        assert {cause: round(hours) for cause, hours in site.owed().items()} == {
            "not yet noticed": 3,
            "waiting for review": 1,
        }
        site.wrote("n\n2\n")
        assert site.run() == "done"
        site.passes(2)
        run_operation(site.session, "promote", "rain", reason="second", actor="tester")
        site.passes(4)
        first = next(iter(site.session.state.refs.history(refs.published("rain")))).after
        run_operation(site.session, "rollback", "rain", {"to": first}, reason="wrong", actor="tester")
        site.passes(5)
        assert round(site.owed()["waiting for review"]) == 1 + 2, "not the time after the publication"


def test_a_trigger_waits(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        site.run()
        site.passes(1)
        keep(site.session.state, new_trigger(site.session, "rain", actor="tester"))
        site.passes(2)
        assert site.owed() == {"waiting": 2, "not yet noticed": 1}


def test_a_run_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as site:
        site.run()
        site.passes(1)
        site.wrote("n\n2\n")

        def interrupted(*_arguments: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Crew, "_one", interrupted)
            with pytest.raises(KeyboardInterrupt):
                site.run()
        site.passes(3)
        assert site.owed() == {"running": 3, "not yet noticed": 1}


def test_what_it_comes_after_is_late(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        site.run()
        site.run("below")
        site.passes(4)
        assert site.owed("below") == {"upstream late": 4}


@pytest.mark.parametrize(
    "now, as_of, late",
    [
        ("2026-06-02T11:59:00Z", "2026-06-01T12:00:00Z", False),  # 06:59 in Chicago: there is time
        ("2026-06-02T12:30:00Z", "2026-06-01T12:00:00Z", True),  # 07:30: nothing of this day
        ("2026-06-02T12:30:00Z", "2026-06-02T06:00:00Z", False),  # it was made at one
        ("2026-06-03T11:00:00Z", "2026-06-01T12:00:00Z", True),  # before seven of the next day, and still nothing
    ],
)
def test_by_a_time_of_the_day(tmp_path: Path, now: str, as_of: str, late: bool) -> None:
    from kfm.clock import parse_instant

    with opened(tmp_path, "by: 07:00 America/Chicago") as site:
        site.clock.advance(parse_instant(as_of, "") - site.clock.now_ms())
        site.run()
        site.clock.advance(parse_instant(now, "") - site.clock.now_ms())
        assert (site.told().verdict == "late") is late


@pytest.mark.parametrize(
    "target", ["max_age: soon", "max_age: 0h", "by: 25:00 UTC", "by: '07:00'", "max_age: 1h, by: 07:00 UTC"]
)
def test_a_target_that_means_nothing_is_refused_with_its_place(tmp_path: Path, target: str) -> None:
    with opened(tmp_path, target) as site, pytest.raises(BadInput, match=r"kfm.yml:\d+:\d+: "):
        freshness(site.session, ["rain"])


def test_one_cause_after_another_and_all_of_them_add_up(tmp_path: Path) -> None:
    with opened(tmp_path) as site:
        site.run()
        run_operation(site.session, "promote", "rain", actor="tester")
        site.passes(1)
        assert site.run() == "noop"  # until now the source was late
        site.passes(2)  # nobody looks
        run_operation(site.session, "freeze", "rain", actor="tester")
        site.passes(3)
        run_operation(site.session, "thaw", "rain", actor="tester")
        site.wrote("n\nx\n")
        assert site.run() == "held"
        site.passes(4)
        site.wrote("n\n2\n")
        keep(site.session.state, new_trigger(site.session, "rain", actor="tester"))
        site.passes(5)
        (asked,) = site.session.state.inbox.waiting("rain")
        assert run_trigger(site.session, asked).outcome == "done"
        site.passes(6)
        told = site.told()
        assert told.age_min == 21 * 60 and told.late_min == 19 * 60
        assert site.owed() == {
            "waiting for review": 6,
            "held": 9,  # that something waited meanwhile is past, and was not written down
            "frozen": 3,
            "not yet noticed": 2,
            "source late": 1,
        }


moments = st.integers(0, 10_000_000)


@settings(max_examples=tries(200), deadline=None)
@given(st.lists(st.tuples(moments, moments, st.sampled_from(RANKS)), max_size=12), moments)
def test_minutes_always_add_up_and_the_main_cause_has_them(told: list[tuple[int, int, str]], length: int) -> None:
    spells = [Spell(min(a, b), max(a, b), cause) for a, b, cause in told]  # type: ignore[arg-type]
    owed = blame(0, length, spells)
    assert sum(owed.values()) == length // 60_000
    assert set(owed) <= {"not yet noticed", *(spell.cause for spell in spells)}
    if any(spell.cause == "frozen" and spell.begin_ms == 0 and spell.end_ms >= length for spell in spells):
        assert set(owed) <= {"frozen"}


def test_lengths_and_deadlines() -> None:
    assert (length_ms("90m"), length_ms("26h"), length_ms("3d")) == (90 * 60_000, 26 * HOUR, 72 * HOUR)
    assert [length_ms(text) for text in ("", "h", "1w", "-1h", "1.5h", "٣h")] == [None] * 6
    assert deadline_ms("07:00 Nowhere", 0) is None
