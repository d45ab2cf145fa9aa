"""`kfm gc` killed at every place, and another process that writes at every place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from kfm.model.keys import digest
from tests.app.gc.house import (
    DAY,
    GRACE,
    HOUR,
    LARGE,
    SMALL,
    Years,
    everywhere,
    gc,
    laid_out,
    name_in_state,
    opened,
    orphans,
    readable,
    set_aside,
)
from tests.app.move.carried import kfm, killed_at, places_of
from tests.app.move.test_places import edited
from tests.crash.harness import Voice, in_child
from tests.crash.points import Points, boundary, install
from tests.sampling import everything, sampled

KINDS = ("sqlite", "jsonl")
ADDED = (b"third", b"the third, and large " * 5000)


class Prepared(NamedTuple):
    """An installation in which gc has something of every kind to do."""

    folder: str
    kept: dict[str, bytes]  # what is named
    due: list[str]  # what this gc removes for good
    fresh: list[str]  # what it sets aside


def place(label: str) -> bool:
    return boundary(label) or label.startswith(("fs.replace", "fs.unlink", "fs.sync_dir"))


def prepared(folder: str, kind: str) -> Prepared:
    os.environ["KFM_NOW"] = "2026-01-01T00:00:00Z"
    years = Years()
    laid_out(folder, kind)
    edited(folder, "datasets:", "retention: {unchanged_runs: 30d}\ndatasets:")
    for _ in range(3):
        years.advance(DAY)
        assert kfm(folder, "run", "fan").code == 0
    kept = dict.fromkeys(everywhere(folder), b"")
    back = [b"comes back", b"comes back, large " * 5000]
    due = orphans(folder, *back)
    assert gc(folder).code == 0
    name_in_state(folder, [digest(body) for body in back])
    years.advance(31 * DAY)
    fresh = _writes(folder, list(ADDED))
    with opened(folder) as session:
        kept = {name: session.objects.read(name) for name in kept}
    kept |= {digest(body): body for body in back}
    return Prepared(folder, kept, due[:2], fresh)


@pytest.fixture
def environment_now(environment: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KFM_NOW", "2026-01-01T00:00:00Z")
    yield


@pytest.mark.parametrize("kind", KINDS)
def test_gc_killed_anywhere_loses_nothing_and_the_next_one_ends_it(
    kind: str, scratch: str, environment_now: None
) -> None:
    first = prepared(os.path.join(scratch, "house"), kind)
    copy = f"{first.folder}-copy"
    places = places_of(first.folder, "gc", only=place)
    now = os.environ["KFM_NOW"]
    killed = 0
    for at in range(1, len(places) + 1, 1 if everything else max(1, len(places) // 4)):
        os.environ["KFM_NOW"] = now
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(first.folder, copy)
        killed += killed_at(copy, at, "gc", only=place)
        readable(copy, first.kept)
        assert kfm(copy, "doctor", "--deep").code == 0, places[at - 1]
        answer = gc(copy)
        assert answer.code == 0, (answer, places[at - 1])
        readable(copy, first.kept)
        assert not set(first.due) & (set_aside(copy) | everywhere(copy)), places[at - 1]
        assert not set(first.fresh) & everywhere(copy), places[at - 1]
        years = Years(now)
        years.advance(GRACE + HOUR)
        assert gc(copy).code == 0 and gc(copy).code == 0
        readable(copy, first.kept)
        assert set_aside(copy) == set() and set(first.kept) <= everywhere(copy), places[at - 1]
        assert not set(first.fresh) & everywhere(copy), places[at - 1]
        with opened(copy) as session:
            noop = [entry.run_id for entry in session.state.ledger.entries() if entry.outcome == "noop"]
            assert len(noop) == 3 and all(session.state.ledger.is_short(run) for run in noop)
        assert kfm(copy, "doctor", "--deep").code == 0, places[at - 1]
    assert killed >= 4


def outside(label: str) -> bool:
    """A place where no transaction is open, so that another process may write."""
    return label in ("tables.begin before", "tables.commit after") or label.startswith(
        ("fs.replace", "fs.unlink", "fs.sync_dir")
    )


def _writes(folder: str, bodies: list[bytes]) -> list[str]:
    with opened(folder) as session:
        return [session.objects.put(body) for body in bodies]


def _looks(folder: str, bodies: list[bytes]) -> list[str]:
    """As a writer that skips what is there."""
    with opened(folder) as session:
        names = [digest(body) for body in bodies]
        return [
            name if session.objects.has(name) else session.objects.put(body)
            for name, body in zip(names, bodies, strict=True)
        ]


WRITERS: dict[str, tuple[Callable[[str, list[bytes]], list[str]], bool]] = {
    "writes and names at once": (_writes, True),
    "writes and names later": (_writes, False),
    "looks and names at once": (_looks, True),
    "looks and names later": (_looks, False),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("writer", sampled(list(WRITERS), every=2))
def test_what_another_process_needs_meanwhile_is_never_lost(
    writer: str, kind: str, scratch: str, environment_now: None
) -> None:
    write, at_once = WRITERS[writer]
    first = prepared(os.path.join(scratch, "house"), kind)
    copy = f"{first.folder}-copy"
    places = places_of(first.folder, "gc", only=outside)
    bodies = [SMALL, LARGE, *ADDED]
    wanted = {digest(body): body for body in bodies}
    now = os.environ["KFM_NOW"]
    interleaved = 0
    for at in range(1, len(places) + 1, 1 if everything else max(1, len(places) // 4)):
        os.environ["KFM_NOW"] = now
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(first.folder, copy)

        def work(voice: Voice, at: int = at) -> int:
            def act(_label: str) -> None:
                names = write(copy, bodies)
                if at_once:
                    name_in_state(copy, names)
                voice.say("acted", 1)

            install(Points(at, act, only=outside))
            return kfm(copy, "gc").code

        ended = in_child(work)
        assert ended.answer == 0, (ended.failure, places[at - 1])
        interleaved += any(line[0] == "acted" for line in ended.said)
        if not at_once:
            name_in_state(copy, list(wanted))
        readable(copy, first.kept | wanted)
        assert kfm(copy, "doctor", "--deep").code == 0, places[at - 1]
        years = Years(now)
        for _ in range(2):
            years.advance(GRACE + HOUR)
            assert gc(copy).code == 0
            readable(copy, first.kept | wanted)
        assert set(first.kept | wanted) <= everywhere(copy), places[at - 1]
    assert interleaved >= 3
