"""Promise 3, F02, F06: when the disk fails, KFM stops with exit code 74; when it works again, nothing is lost."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest

from tests.crash import counts
from tests.crash.harness import Ended, Voice, answer_of, in_child
from tests.crash.points import Points, fail, install
from tests.crash.trial import STATES, Trial
from tests.crash.typing_it import STORAGE, Typed, check_manners, type_all
from tests.crash.updaters import FAN, SMALLEST, STATIONS, Script
from tests.sampling import sampled

SLICES = 47
PLACES = 36
_SYNCS = ("fs.sync", "files.sync")


def faulty(label: str) -> bool:
    """Calls of the file system; the others are ours and fail only through these."""
    return label.startswith(("fs.", "sqlite.", "files."))


def must_stop(labels: list[str], at: int) -> bool:
    """Is this a sync that something is acknowledged by? (SQLite's own tidying up on closing is not.)"""
    label = labels[at - 1]
    if label.startswith("sqlite.xSync"):
        earlier = [other for other in labels[: at - 1] if other.startswith("tables.")]
        return bool(earlier) and earlier[-1] == "tables.commit before"
    return label.startswith(_SYNCS)


def typed_of(ended: Ended) -> list[Typed]:
    return [Typed(*line[1:]) for line in ended.said if line[0] == "typed"]


def typed_under(trial: Trial, points: Points) -> Ended:
    def work(voice: Voice) -> tuple[list[str], int]:
        install(points)
        type_all(trial.folder, trial.script, voice)
        return points.labels, points.acted

    trial.empty()
    ended = in_child(work)
    assert ended.code == 0 and not ended.killed, ended.failure
    return ended


def faulty_only(act: Callable[[str], None]) -> Callable[[str], None]:
    def acting(label: str) -> None:
        if faulty(label):
            act(label)

    return acting


def every_fault(
    scratch: str,
    state: str,
    script: Script,
    part: int,
    only: Callable[[str], bool],
    *ways: tuple[int, bool],
    slices: int = SLICES,
) -> None:
    """Type the script while one call fails, or all from there on; for each call that can, one of the ways in turn."""
    trial = Trial(scratch, state, script)
    labels, _ = typed_under(trial, Points()).answer
    stopped = 0
    places = [at for at, label in enumerate(labels, 1) if faulty(label) and only(label)]
    for (number, forever), at in zip(cycle(ways), places[part::slices], strict=False):
        only_faulty = faulty_only(fail(number))
        ended = typed_under(trial, Points(at, only_faulty, forever=forever))
        story = f"{state} {script.name} {os.strerror(number)} at {at} ({labels[at - 1]})"
        seen, fired = ended.answer
        assert fired and seen[:at] == labels[:at], story
        counts.add("faults")
        for typed in typed_of(ended):
            check_manners(typed, story)
        codes = [typed.code for typed in typed_of(ended)]
        assert codes[-1] == STORAGE or not must_stop(labels, at), f"{story}: a failed sync was ignored, {codes}"
        stopped += codes[-1] == STORAGE
        trial.judge(story, ended.acks)
    assert stopped, "no fault was noticed at all"


def any_place(_label: str) -> bool:
    return True


@pytest.mark.parametrize("part", [0])  # the other slices are in `test_any_call_may_fail_in_every_way`
@pytest.mark.parametrize("state", STATES)
def test_a_call_that_fails_once_stops_everything_and_loses_nothing(scratch: str, state: str, part: int) -> None:
    every_fault(scratch, state, SMALLEST, part, any_place, (errno.EIO, False))


@pytest.mark.long
@pytest.mark.parametrize("part", range(PLACES))
@pytest.mark.parametrize("state", STATES)
def test_large_outputs_survive_a_disk_that_fails_once(scratch: str, state: str, part: int) -> None:
    every_fault(scratch, state, FAN, part, lambda label: label.startswith("fs."), (errno.EIO, False), slices=PLACES)


@pytest.mark.parametrize("part", sampled(range(PLACES)))
@pytest.mark.parametrize("state", STATES)
def test_published_files_survive_a_full_disk(scratch: str, state: str, part: int) -> None:
    only = (errno.ENOSPC, True)
    every_fault(scratch, state, STATIONS, part, lambda label: label.startswith("files."), only, slices=PLACES)


WAYS = {
    f"{errno.errorcode[number]} {'forever' if forever else 'once'}": (number, forever)
    for number in (errno.EIO, errno.ENOSPC)
    for forever in (False, True)
}


@pytest.mark.long
@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state", STATES)
def test_any_call_may_fail_in_every_way(scratch: str, state: str, way: str, part: int) -> None:
    every_fault(scratch, state, SMALLEST, part, any_place, WAYS[way])


@pytest.mark.long
@pytest.mark.parametrize("part", range(2 * SLICES))
@pytest.mark.parametrize("script", [FAN, STATIONS], ids=lambda script: script.name)
@pytest.mark.parametrize("state", STATES)
def test_any_call_may_fail_in_some_way(scratch: str, state: str, script: Script, part: int) -> None:
    every_fault(scratch, state, script, part, any_place, *WAYS.values(), slices=2 * SLICES)


# ------------------------------------------------------------------------------------- a disk that is really full

_libc = ctypes.CDLL(None, use_errno=True)
_NEWNS, _REMOUNT, _REC, _PRIVATE = 0x00020000, 32, 16384, 1 << 18


def _mount(what: str, where: str, flags: int, options: str) -> None:
    if _libc.mount(what.encode(), where.encode(), b"tmpfs", flags, options.encode()):
        raise OSError(ctypes.get_errno(), f"cannot mount at {where}")


def own_mounts() -> None:
    """In a child: from here on, what is mounted is seen by this process and its children only."""
    if _libc.unshare(_NEWNS):
        raise PermissionError(ctypes.get_errno(), "no mount namespace of one's own")
    _mount("none", "/", _REC | _PRIVATE, "")


def can_mount() -> bool:
    return bool(in_child(lambda _voice: own_mounts()).code == 0)


def in_a_small_place(trial: Trial, kib: int) -> tuple[list[Typed], str]:
    """Type the script where only so much fits, make room, recover, compare; gives what was answered while full."""
    place = os.path.join(trial.folder, ".kfm")

    def work(_voice: Voice) -> list[Any]:
        own_mounts()
        os.makedirs(place, exist_ok=True)
        _mount("small", place, 0, f"size={kib}k")
        ended = in_child(lambda voice: type_all(trial.folder, trial.script, voice))
        assert ended.code == 0 and not ended.killed, f"{kib} KiB: {ended.code} {ended.failure}"
        _mount("small", place, _REMOUNT, "size=64m")
        trial.judge(f"{kib} KiB", ended.acks)
        return typed_of(ended)

    trial.empty()
    typed = [Typed(*answer) for answer in answer_of(work)]
    counts.add("faults")
    for each in typed:
        check_manners(each, f"{kib} KiB")
    return typed, typed[-1].err


def fill(scratch: str, state: str, script: Script, step: int) -> None:
    if not can_mount():
        pytest.skip("needs the right to mount a small disk")
    trial = Trial(scratch, state, script)
    failures = 0
    for kib in range(step, 1 << 16, step):
        typed, said = in_a_small_place(trial, kib)
        if typed[-1].code != STORAGE:
            break
        assert "the disk is full" in said or "No space left" in said, said
        failures += 1
    assert failures > 3, "the disk was never full"
    assert [each.code for each in typed].count(0) > 0


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("script", sampled([SMALLEST, FAN]), ids=lambda script: script.name)
def test_a_full_disk_is_said_to_be_full_and_nothing_is_lost(scratch: str, state: str, script: Script) -> None:
    steps = {"sqlitesmallest": 32, "jsonlsmallest": 4, "sqlitefan": 64, "jsonlfan": 32}
    fill(scratch, state, script, steps[state + script.name])


@pytest.mark.long
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("script", [SMALLEST, FAN, STATIONS], ids=lambda script: script.name)
def test_a_disk_may_be_full_at_any_page(scratch: str, state: str, script: Script) -> None:
    fill(scratch, state, script, 4)


# ------------------------------------------------------------------------------------------- too many open files


def contents(found: dict[str, str]) -> dict[str, str]:
    """What is there in the end, without how often it was tried: a run that had no handle left may have failed."""
    return {p: body for p, body in found.items() if p.startswith(("refs/", "objects/", "public/", ".kfm/objects/"))}


@pytest.mark.parametrize("part", sampled(range(2)))
@pytest.mark.parametrize("state", STATES)
def test_too_few_file_handles_give_one_line_and_lose_nothing(scratch: str, state: str, part: int) -> None:
    trial = Trial(scratch, state, FAN)
    codes = []
    for spare in range(part, 12, 2):
        trial.empty()

        def work(voice: Voice, spare: int = spare) -> None:
            open_now = {int(name) for name in os.listdir("/proc/self/fd")}
            free = [fd for fd in range(200) if fd not in open_now]
            resource.setrlimit(resource.RLIMIT_NOFILE, (free[spare], resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            type_all(trial.folder, trial.script, voice)

        ended = in_child(work)
        assert ended.code == 0, ended.failure
        counts.add("faults")
        for typed in typed_of(ended):
            check_manners(typed, f"{spare} spare handles")
            assert typed.code in (0, 3, 69, STORAGE), typed
            codes.append(typed.code)
        found = answer_of(lambda voice: (type_all(trial.folder, trial.script, voice), trial.look(voice))[1])
        assert contents(found) == contents(trial.undisturbed), f"{spare} spare handles"
    assert STORAGE in codes and codes[-1] == 0, codes
