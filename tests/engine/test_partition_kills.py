"""Partitions of one dataset run at once and are killed anywhere: the result is as if one had followed the other."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.engine.crowds import STATES, Told, disturbed, mortal, together
from tests.engine.tiles import PARTS, Site, between
from tests.sampling import sampled


def killed_at_random(folder: Path, state: str, rng: random.Random, rounds: int) -> tuple[int, int]:
    """Two partitions at once. Some die where they leave a trace, some whenever; then each is done, and in another
    place, in the end, one after the other."""
    site, quiet = Site(folder / "site", state), Site(folder / "quiet", state)
    left = both = 0
    for n in range(rounds):
        wanted = {}
        for part in PARTS:
            count = rng.randint(3, 5)
            site.lines(part, count, f"round {n}")
            wanted.update({f"{part}/{k:04d}": f"{part} {k} round {n}" for k in range(count)})
        deaths = rng.sample(range(1, 120), n % 3)
        works = [mortal(partial(site.typed, part), folder / f"counted {n}", deaths) for part in PARTS]
        ended = disturbed(works, rng, longest=rng.uniform(0.01, 0.15), kills=n % 2)
        told = [Told(*each.answer) for each in ended if not each.killed]
        assert {each.outcome for each in told} <= {"done"}, told
        both += len(told) == 2
        with site.open("read") as session:
            left += sum(1 for _ in session.state.runs.unfinished())
        if n % 4 < 2:
            site.finish()
        for part in PARTS:
            assert site.typed(part).outcome in ("done", "noop")
        assert site.content() == wanted, n
    site.sound()
    for part in PARTS:
        (quiet.folder / f"{part}.csv").write_bytes((site.folder / f"{part}.csv").read_bytes())
        quiet.run(part)
    assert site.version() == quiet.version()
    with site.open("read") as session:
        assert not list(session.state.runs.unfinished())
    return left, both


@pytest.mark.parametrize("seed", sampled(range(24)))
@pytest.mark.parametrize("state", STATES)
def test_partitions_killed_at_random_end_as_if_one_had_followed_the_other(
    state: str, seed: int, place: Path, count: Any
) -> None:
    left, both = killed_at_random(place, state, random.Random(seed), rounds=14)
    assert left and both, "nobody was killed in the middle, or nobody was left alone"
    count("rounds of two partitions at once", 14)
    count("partitions killed in the middle", left)


def test_two_at_once_without_a_kill_lose_nothing(place: Path, count: Any) -> None:
    """Many commits in a row from each side, so that they meet at the ref."""
    site = Site(place)

    def many(part: str) -> list[str]:
        told = []
        for n in range(15):
            site.lines(part, 3, f"{n}")
            told.append(site.typed(part).outcome)
        return told

    for told in together([partial(many, part) for part in PARTS]):
        assert told == ["done"] * 15
    assert all(text.endswith(" 14") for text in site.content().values()) and len(site.content()) == 6
    site.sound()


# -- one inside the other


def one_inside_the_other(site: Site) -> list[str]:
    """East has put its version together when West begins and ends; so East has to do that again."""
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        between(patch, lambda: told.append(site.typed("West").outcome))
        told.append(site.typed("East").outcome)
    return told


def begun(folder: Path, state: str) -> Site:
    site = Site(folder, state)
    site.run("")
    for part in PARTS:
        site.lines(part, 4, "second")
    return site


def killed_everywhere(folder: Path, state: str, part: int, parts: int) -> int:
    """One of them is killed at each place they come to, then both are done; and none of that is to be seen."""
    counted = folder / "counted"
    quiet = begun(folder / "quiet", state)
    (whole,) = disturbed([mortal(partial(one_inside_the_other, quiet), counted)], random.Random(0), 0, 0)
    assert whole.answer == ["done", "done"]
    places = range(1 + part, 1 + counted.stat().st_size, parts)
    for place in places:
        site = begun(folder / f"{place}", state)
        work = mortal(partial(one_inside_the_other, site), folder / f"counted {place}", [place])
        (ended,) = disturbed([work], random.Random(0), 0, 0)
        assert ended.killed, f"nobody came to place {place}"
        if place % 2:
            site.finish()
        for name in PARTS:
            assert site.typed(name).outcome in ("done", "noop"), place
        assert site.content() == quiet.content() and site.version() == quiet.version(), place
        site.sound()
        with site.open("read") as session:
            assert not list(session.state.runs.unfinished()), place
    return len(places)


@pytest.mark.parametrize("part", sampled(range(120)))
@pytest.mark.parametrize("state", STATES)
def test_a_kill_at_any_place_of_one_partition_inside_another_changes_nothing_in_the_end(
    state: str, part: int, place: Path, count: Any
) -> None:
    tried = killed_everywhere(place, state, part, 120)
    assert tried, "there was no place"
    count("places of two partitions at once", tried)
