"""Promise 1, F01: after kills at any place, any number of times, the result is as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from kfm.app.runs.settlement import settle_session
from kfm.clock import Clock, FixedClock
from kfm.model.manifests import named_parts, parts
from tests.crash import counts
from tests.crash.harness import (
    Ended,
    Voice,
    answer_of,
    begin,
    cut_run,
    end,
    play,
    recover,
    session_in,
)
from tests.crash.oracle import check, difference, everything, without_noops
from tests.crash.points import boundary
from tests.crash.trial import STATES, Trial
from tests.crash.updaters import FAN, SCRIPTS, SMALLEST, STATIONS, T0, TREE, Script
from tests.sampling import sampled, tries

SLICES = 61  # no multiple of the two or three places a call has: each slice meets all kinds
DAY = 86_400_000


def each(labels: list[str], part: int, slices: int = SLICES) -> Iterator[int]:
    """Every place of a slice, by number."""
    return iter(range(1 + part, len(labels) + 1, slices))


def not_within_sqlite(label: str) -> bool:
    """Leaves out the single page writes of SQLite; its syncs and truncations stay."""
    return not label.startswith("sqlite.xWrite")


@pytest.mark.parametrize("part", sampled(range(SLICES)))
@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("state", sampled(STATES))
def test_a_kill_at_any_place_changes_nothing_in_the_end(scratch: str, state: str, name: str, part: int) -> None:
    singles(scratch, state, SCRIPTS[name], part, None if name == "smallest" else not_within_sqlite)


@pytest.mark.long
@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("script", [FAN, STATIONS], ids=lambda script: script.name)
def test_a_kill_at_any_page_of_sqlite_changes_nothing_in_the_end(scratch: str, script: Script, part: int) -> None:
    singles(scratch, "sqlite", script, part, lambda label: not not_within_sqlite(label))


def singles(scratch: str, state: str, script: Script, part: int, only: Callable[[str], bool] | None) -> None:
    trial = Trial(scratch, state, script, only)
    for at in each(trial.labels, part):
        trial.empty()
        ended = trial.cut(at)
        trial.judge(f"killed at {at} ({trial.labels[at - 1]})", ended.acks)
        counts.add("singles")


@pytest.mark.long
@pytest.mark.parametrize("state", STATES)
def test_a_kill_over_a_tree_of_several_levels_changes_nothing_in_the_end(scratch: str, state: str) -> None:
    over_a_tree(scratch, state, boundary, 11)


@pytest.mark.long
@pytest.mark.parametrize("state", STATES)
def test_a_kill_at_any_place_over_a_tree_of_several_levels_changes_nothing(scratch: str, state: str) -> None:
    over_a_tree(scratch, state, not_within_sqlite, 1)


def over_a_tree(scratch: str, state: str, only: Callable[[str], bool], every: int) -> None:
    trial = Trial(scratch, state, TREE, only)
    with session_in(trial.folder) as session:
        versions = [entry.after for entry in session.state.refs.history("processed/counties")]
        depths = [(named_parts(session.objects, version) or [])[0].depth for version in versions]
        entries = [list(parts(session.objects, version)) for version in versions]
    assert depths == [1, 1, 1], "a root above parts above parts of entries"
    assert len(set(entries[1]) - set(entries[0])) < 12 < len(set(entries[0]) & set(entries[1])), "versions share parts"
    for at in range(every, len(trial.labels) + 1, every):
        trial.empty()
        ended = trial.cut(at)
        trial.judge(f"killed at {at} ({trial.labels[at - 1]})", ended.acks)
        counts.add("singles")


@pytest.mark.parametrize("part", sampled(range(3 * SLICES)))
@pytest.mark.parametrize("state", sampled(STATES))
def test_a_second_kill_during_the_recovery_changes_nothing_either(scratch: str, state: str, part: int) -> None:
    pairs(scratch, state, part, boundary, 3 * SLICES)


@pytest.mark.long
@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("state", STATES)
def test_two_kills_at_any_two_places_change_nothing(scratch: str, state: str, part: int) -> None:
    pairs(scratch, state, part, not_within_sqlite)


def pairs(scratch: str, state: str, part: int, only: Callable[[str], bool], slices: int = SLICES) -> None:
    trial = Trial(scratch, state, SMALLEST, only)
    for first in each(trial.labels, part, slices):
        trial.empty()
        acks = trial.cut(first).acks
        trial.save()
        for second in range(1, 10_000):
            trial.restore()
            ended = cut_run(second, trial.folder, SMALLEST, only, recovering=True)
            if not ended.killed:
                assert ended.code == 0, ended.failure
                break
            trial.judge(f"killed at {first} ({trial.labels[first - 1]}) and at {second} again", {**acks, **ended.acks})
            counts.add("pairs")


@pytest.mark.parametrize("part", sampled(range(7)))
@pytest.mark.parametrize("state", sampled(STATES[::-1]))
def test_an_operator_who_simply_types_it_again_gets_the_same(scratch: str, state: str, part: int) -> None:
    """Without `resume`: at most one more receipt, a NOOP that says the work was done already."""
    trial = Trial(scratch, state, SMALLEST, boundary)
    for at in range(1 + part, len(trial.labels) + 1, 7):
        trial.empty()
        acks = trial.cut(at).acks
        ended = answer_of(lambda voice: (play(trial.folder, SMALLEST, voice), trial.look(voice))[1])
        counts.add("singles")
        told = difference(without_noops(trial.undisturbed), without_noops(ended))
        assert not told, f"{state} killed at {at} ({trial.labels[at - 1]})\n{told}"
        assert sum(place.startswith("ledger/") for place in ended) <= 2
        assert all(f"receipts/{run_id}" in ended for run_id in acks)


@pytest.mark.parametrize("part", sampled(range(7)))
@pytest.mark.parametrize("state", sampled(STATES[::-1]))
def test_a_resume_after_midnight_writes_no_second_receipt(scratch: str, state: str, part: int) -> None:
    """Promise 12: the path of a receipt is of the day the run began, and that day is in the journal."""
    trial = Trial(scratch, state, SMALLEST, boundary)
    kept = 0
    places = range(1 + part, len(trial.labels) + 1, 7)
    for at in places:
        trial.empty()
        trial.cut(at)

        def work(voice: Voice) -> tuple[list[str], list[str], list[str]]:
            with session_in(trial.folder) as session:
                before = [run.started_at[:10] for run in session.state.runs.unfinished()]
                before += [entry.ts[:10] for entry in session.state.ledger.entries()]
            recover(trial.folder, SMALLEST, voice, clock=FixedClock(T0 + DAY))
            with session_in(trial.folder, FixedClock(T0 + 2 * DAY)) as session:
                settle_session(session)
                check(session, trial.folder, {})
                runs = [entry.run_id for entry in session.state.ledger.entries()]
                return before, runs, [p for p in everything(trial.folder, session.tables) if p.startswith(".kfm/rec")]

        before, runs, files = answer_of(work)
        counts.add("singles")
        assert len(runs) == len(files) == 1, files
        day = "2026/01/01" if before else "2026/01/02"
        assert f"/{day}/{runs[0]}.json" in files[0], f"killed at {at} {trial.labels[at - 1]}"
        kept += bool(before)
    assert 0 < kept < len(places), "some kills must come before the claim and some after it"


class Running(FixedClock):
    """The date stands still, but waiting takes time: threads are used as in real life."""

    def monotonic(self) -> float:
        return time.monotonic()


def kill_at_random(
    rng: random.Random, trial: Trial, work: Callable[[str, Script, Voice, Clock], None], longest: float
) -> Ended:
    pid, pipe = begin(lambda voice: work(trial.folder, trial.script, voice, Running(T0)))
    time.sleep(rng.uniform(0, longest))
    os.kill(pid, signal.SIGKILL)
    return end(pid, pipe)


def _play(folder: str, script: Script, voice: Voice, clock: Clock) -> None:
    play(folder, script, voice, clock=clock)


def _recover(folder: str, script: Script, voice: Voice, clock: Clock) -> None:
    recover(folder, script, voice, clock=clock)


def random_kills(scratch: str, state: str, script: Script, seed: int, wanted: int) -> None:
    """Kills that are not tied to any place we thought of, up to three in a row, with threads at work."""
    rng = random.Random(seed)
    counts.seed(seed)
    trial = Trial(scratch, state, script)
    trial.threads = 4
    began = time.monotonic()
    trial.empty()
    answer_of(lambda voice: _play(trial.folder, script, voice, Running(T0)))
    longest = time.monotonic() - began
    kills = 0
    while kills < wanted:
        trial.empty()
        ended = kill_at_random(rng, trial, _play, longest)
        acks, fired = ended.acks, int(ended.killed)
        while ended.killed and rng.random() < 0.5 and fired < 3:
            ended = kill_at_random(rng, trial, _recover, longest / 2)
            acks.update(ended.acks)
            fired += ended.killed
        trial.judge(f"seed {seed}, after {kills} kills", acks)
        kills += fired
        counts.add("random kills", fired)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("script", [FAN, STATIONS], ids=lambda script: script.name)
def test_a_kill_at_any_time_changes_nothing_in_the_end(scratch: str, state: str, script: Script) -> None:
    random_kills(scratch, state, script, seed=len(state) * 1000 + len(script.name), wanted=tries(20))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_two_thousand_kills_at_any_time_change_nothing(scratch: str, seed: int) -> None:
    script = (FAN, STATIONS)[seed % 2]
    random_kills(scratch, STATES[seed // 2 % 2], script, seed=seed, wanted=105)
