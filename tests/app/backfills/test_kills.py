"""A backfill is killed at every durable write and resumed: the installation ends as it would without the kill."""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.backfills.backfill_control import start, under_way
from kfm.app.backfills.backfill_worker import Worker
from kfm.app.runs.run_control import resume_runs, run_operation
from kfm.app.runs.settlement import settle_session
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock, parse_instant
from kfm.engine.verify import verify
from kfm.errors import KfmError
from kfm.model.records import Receipt
from tests.app.backfills.sites import DAYS, Site
from tests.crash.oracle import check, everything
from tests.crash.points import Points, boundary, die, install
from tests.engine.crowds import disturbed, mortal, together
from tests.sampling import sampled

NOW = parse_instant("2026-06-01T12:00:00Z", "now")


class Killed(Site):
    """One that is worked off by children, under a clock that stands still."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, days: int, state: str = "sqlite:.kfm/state.db") -> None:
        super().__init__(folder, patch, days, downstream="coalesce")
        if days > len(DAYS):
            self.days = [f"{month}-{day:02d}" for month in ("2024-03", "2024-04") for day in range(1, 31)][:days]
            self.declare("{kind: name, keys: [" + ", ".join(f'"{day}"' for day in self.days) + "]}")
            for number, day in enumerate(self.days):
                self.rows(day, number)
        with (folder / "kfm.yml").open("a") as file:
            file.write(f"state: '{state}'\nexecute: {{threads: 1}}\n")

    def session(self) -> Session:
        return open_session(config.load(str(self.folder / "kfm.yml"), os.environ), clock=FixedClock(NOW))

    def begun(self) -> Killed:
        from kfm.config.backfill_files import one

        with self.session() as session:
            _, receipt = start(session, one(session.resolved, "january"), "", actor="tester", reason="")
            assert receipt is not None and receipt.status == "SUCCESS"
            settle_session(session)
        return self

    def work(self) -> list[str]:
        """Until nothing is left to take; the outcomes."""
        problems: list[KfmError] = []
        found: list[Receipt] = []
        with self.session() as session:
            worker = Worker(session, under_way(session, "january"), lambda _about, problem: problems.append(problem))
            for receipt in worker.work():
                found.append(receipt)
                settle_session(session)
            settle_session(session)
        assert not problems and not worker.stopped, (problems, worker.stopped)
        return [receipt.outcome for receipt in found]

    def all(self) -> dict[str, str]:
        with self.session() as session:
            return everything(str(self.folder), session.tables)

    def sound(self) -> None:
        with self.session() as session:
            check(session, str(self.folder), {})
            verify(session.state, session.objects)

    def one_run_each(self) -> None:
        done = [part for part, outcome in self.runs() if outcome == "done"]
        assert sorted(done) == sorted(self.days) and len(self.runs()) == len(self.days)
        assert [name for name, _ in self.asked()] == ["first", "second"], "downstream was told once"


STATES = {"sqlite": "sqlite:.kfm/state.db", "jsonl": "jsonl:.kfm/state.jsonl"}


@pytest.mark.parametrize("part", sampled(range(120)))
@pytest.mark.parametrize("state", STATES)
def test_killed_at_any_place_and_resumed_it_is_the_same_installation(
    state: str, part: int, place: Path, monkeypatch: pytest.MonkeyPatch, count: Any
) -> None:
    parts = 120
    quiet = Killed(place / "quiet", monkeypatch, 3, STATES[state]).begun()
    (whole,) = disturbed([mortal(quiet.work, place / "counted")], random.Random(0), 0, 0)
    assert whole.answer == ["done"] * 3
    quiet.one_run_each()
    places = range(1 + part, 1 + (place / "counted").stat().st_size, parts)
    for number in places:
        site = Killed(place / f"{number}", monkeypatch, 3, STATES[state]).begun()
        (ended,) = disturbed([mortal(site.work, place / f"counted {number}", [number])], random.Random(0), 0, 0)
        assert ended.killed, f"nobody came to place {number}"
        site.sound()
        site.work()
        assert site.all() == quiet.all(), number
        site.one_run_each()
    assert places, "there was no place"
    count("places where a backfill was killed", len(places))


def dying(site: Killed, commits: int) -> list[str]:
    """Works until so many transactions are behind it."""
    install(Points(commits, die, only=lambda label: label == "tables.commit after"))
    return site.work()


@pytest.mark.parametrize(("days", "seed"), sampled([(20, 0), *((50, seed) for seed in range(8))]))
def test_many_partitions_killed_again_and_again_end_with_the_same_bytes(
    days: int, seed: int, place: Path, monkeypatch: pytest.MonkeyPatch, count: Any
) -> None:
    """Every attempt dies after some more transactions than the one before, or wherever it is."""
    rng = random.Random(seed)
    quiet = Killed(place / "quiet", monkeypatch, days).begun()
    assert quiet.work() == ["done"] * days
    site = Killed(place / "site", monkeypatch, days).begun()
    kills = 0
    while True:
        work = mortal(site.work, place / f"counted {kills}", [rng.randint(1, 700)])
        if not seed:
            work = partial(dying, site, 1 + kills % 7)
        (ended,) = disturbed([work], random.Random(0), 0, 0)
        if not ended.killed:
            break
        kills += 1
    assert kills > (days // 2 if not seed else 5)
    site.sound()
    assert site.all() == quiet.all()
    site.one_run_each()
    count(f"kills of a backfill of {days} partitions", kills)


def ending(site: Killed, at: int) -> list[str]:
    """Works until it comes to a boundary: of a transaction, of a sync, of a name that is given."""
    install(Points(at, die, only=boundary))
    return site.work()


def come_so_far(site: Killed) -> tuple[frozenset[str], tuple[str, ...]]:
    """Which places there are, and what is journaled. Who holds what, and how often it was tried, is no progress."""
    with open_session(config.load("kfm.yml", os.environ), mode="read") as session:
        found = everything(str(site.folder), session.tables)
    return frozenset(found), tuple(text for place, text in sorted(found.items()) if place.startswith("journal/"))


@pytest.mark.parametrize("days", [2, pytest.param(5, marks=pytest.mark.long), pytest.param(50, marks=pytest.mark.long)])
def test_one_history_killed_at_every_successive_boundary_ends_with_the_same_bytes(
    days: int, place: Path, monkeypatch: pytest.MonkeyPatch, count: Any
) -> None:
    """Each process is killed at a boundary one further than the one before it, until something is left behind that was
    not there; the next is killed at its first again, or in the sample a little before. So nobody ever gets further than
    one piece of progress."""
    quiet = Killed(place / "quiet", monkeypatch, days).begun()
    assert quiet.work() == ["done"] * days
    site = Killed(place / "site", monkeypatch, days).begun()
    kills, pieces, at, before = 0, 0, 1, come_so_far(site)
    while True:
        (ended,) = disturbed([partial(ending, site, at)], random.Random(0), 0, 0)
        if not ended.killed:
            break
        kills += 1
        after = come_so_far(site)
        if after == before:
            at += 1
        else:
            pieces, at, before = pieces + 1, 1 if days > 5 else max(1, at - 2), after
    assert pieces > 4 * days, "nobody was killed within a partition"
    site.sound()
    assert site.all() == quiet.all()
    site.one_run_each()
    count(f"kills of one backfill of {days} partitions, at each of its boundaries", kills)


@pytest.mark.parametrize("seed", sampled(range(12)))
def test_two_workers_at_once_take_each_partition_once(
    seed: int, place: Path, monkeypatch: pytest.MonkeyPatch, count: Any
) -> None:
    """Of one dataset; now and then one is killed, and the other or a third takes up what it had."""
    rng = random.Random(seed)
    quiet = Killed(place / "quiet", monkeypatch, 20).begun()
    quiet.work()
    site = Killed(place / "site", monkeypatch, 20).begun()
    both = together([site.work, site.work]) if not seed % 3 else []
    if not both:
        works = [mortal(site.work, place / f"counted {n}", [rng.randint(1, 2000)]) for n in (1, 2)]
        ended = disturbed(works, rng, longest=0.2, kills=seed % 2)
        count("workers killed beside another", sum(each.killed for each in ended))
        site.work()
    else:
        assert all(both) and len(both[0]) + len(both[1]) == 20, "one of them had nothing to do"
    site.work()
    site.sound()
    site.one_run_each()
    assert site.version() == quiet.version() and site.content() == quiet.content()


def test_what_is_killed_is_taken_up_by_kfm_resume_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Killed(place / "site", monkeypatch, 3).begun()
    (ended,) = disturbed([partial(dying, site, 3)], random.Random(0), 0, 0)
    assert ended.killed
    with site.session() as session:
        left = [each.trigger_id for each in session.state.inbox.waiting()]
        assert left == ["backfill.january.0.1.0000000"], "nobody was killed in the middle of a partition"
        list(resume_runs(session))
    site.work()
    site.one_run_each()


def test_a_worker_that_is_paused_between_partitions_stops(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Killed(place / "site", monkeypatch, 5).begun()
    with site.session() as session:
        worker = Worker(session, under_way(session, "january"), lambda _about, _problem: None)
        receipts = worker.work()
        assert next(receipts).outcome == "done"
        run_operation(session, "freeze", "rain", {"scope": "backfill/january"}, reason="stop", actor="tester")
        assert list(receipts) == [] and worker.stopped == "paused"
    assert len(site.runs()) == 1
    site.backfill("resume")
    site.one_run_each()


def test_a_cancelled_backfill_stops_its_worker(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfm.app.backfills.backfill_control import cancel
    from kfm.errors import Conflict

    site = Killed(place / "site", monkeypatch, 5).begun()
    with site.session() as session:
        receipts = Worker(session, under_way(session, "january"), lambda _about, _problem: None).work()
        next(receipts)
        assert cancel(session, "january", actor="tester", reason="no").status == "SUCCESS"
        with pytest.raises(Conflict, match="was cancelled"):
            next(receipts)
    assert [name for name, _ in site.asked()] == ["first", "second"], "what was made is told"
    assert len(site.runs()) == 1


def test_a_frozen_dataset_keeps_its_partition_until_the_thaw(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Killed(place / "site", monkeypatch, 3).begun()
    with site.session() as session:
        run_operation(session, "freeze", "rain", {"scope": "rain"}, reason="stop", actor="tester")
    assert site.kfm("backfill", "resume", "january", code=5).data["state"] == "waiting"
    assert site.content() == {}
    with site.session() as session:
        run_operation(session, "thaw", "rain", {"scope": "rain"}, reason="go", actor="tester")
    assert site.backfill("resume")["counts"] == {"made": 3}
    assert sorted(site.content()) == site.days
