"""The minutes by which a dependent dataset is late add up, and begin when there is something new to read."""

from __future__ import annotations

from pathlib import Path

from kfm.app.runs.freshness import freshness
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from tests.app.dependencies.web import Site, laid_out, opened

HOUR = 3_600_000


def owed(site: Site, name: str) -> dict[str, int]:
    (found,) = freshness(site.session, [name])
    assert sum(found.blame.values()) == found.age_min, "the minutes add up to its age"
    return {cause: minutes // 60 for cause, minutes in found.blame.items()}


def passes(site: Site, hours: int) -> None:
    site.session.clock.advance(hours * HOUR)  # type: ignore[attr-defined]


def test_a_dataset_below_a_late_one_is_late_by_it_and_then_not_yet_noticed(
    tmp_path: Path,
) -> None:
    site = opened(laid_out(tmp_path, {"top": [], "below": ["top"]}, more={"below": "freshness: {max_age: 1h}"}))
    site.changed("1")
    site.settled()
    passes(site, 3)
    assert owed(site, "below") == {"upstream late": 3}
    site.changed("2")
    passes(site, 2)
    assert owed(site, "below") == {"upstream late": 3, "not yet noticed": 2}
    site.upkeep._ticker.claim()
    passes(site, 4)
    assert owed(site, "below") == {"upstream late": 3, "not yet noticed": 2, "waiting": 4}
    site.settled()
    assert owed(site, "below") == {}
    site.session.close()


def test_a_look_that_found_nothing_new_above_blames_those_above(tmp_path: Path) -> None:
    site = opened(laid_out(tmp_path, {"top": [], "below": ["top"]}))
    site.changed("1")
    site.settled()
    passes(site, 3)
    assert run_trigger(site.session, new_trigger(site.session, "below", actor="tester")).outcome == "noop"
    passes(site, 1)
    assert owed(site, "below") == {"upstream late": 4}
    site.session.close()


def test_the_older_of_two_sides_does_not_hide_that_the_other_moved(tmp_path: Path) -> None:
    site = opened(laid_out(tmp_path, {"one": [], "two": [], "foot": ["one", "two"]}))
    site.changed("1", "one")
    site.changed("1", "two")
    site.settled()
    passes(site, 2)
    site.changed("2", "two")
    passes(site, 1)
    site.changed("2", "one")
    passes(site, 1)
    assert owed(site, "foot") == {"upstream late": 2, "not yet noticed": 2}
    site.session.close()
