"""Lineage of a version or source: what it was made of, and what was made of it, over any number of runs.

It shows public facts only; the address of a protected source is withheld. A thing that occurs again is named but not
followed again, so cycles end. At most `MOST` steps are returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kfm.app.runs.resolve import find_thing
from kfm.app.session.session import Session
from kfm.delivery.public_runs import entry_of, public_run
from kfm.errors import BadInput
from kfm.model.lineage_edges import DATASET, ZONES, version_named
from kfm.model.operation_target import REF
from kfm.model.public_run import PublicRun
from kfm.model.records import Record
from kfm.parsing.characters import printable

Direction = Literal["upstream", "downstream"]
MOST = 10_000


class Point(Record, frozen=True, kw_only=False):
    """A version, source or ref in the lineage."""

    kind: Literal["version", "source", "ref"]
    id: str  # for a version, its dataset
    digest: str  # for a source, empty means any bytes at the address


class LineageStep(Record, frozen=True):
    """One run between two things. Upstream it made `of` and read `to`; downstream it read `of` and made `to`."""

    depth: int  # number of runs between the requested thing and `to`
    of: Point
    run_id: str
    op: str
    updater_id: str
    finished_at: str
    to: Point
    again: bool  # it occurred before, and is not followed here


class Lineage(Record, frozen=True):
    """The lineage of a thing in one direction: upstream, what it was made of, or downstream, what was made of it."""

    thing: Point
    direction: Direction
    steps: list[LineageStep]  # each step before those further away
    whole: bool  # false if `--depth` or `MOST` cut it off


def lineage(session: Session, text: str, direction: Direction, depth: int = -1) -> Lineage:
    """Return the lineage of the thing that this text names, up to `depth` runs away; -1 means all."""
    start = _point(session, text)
    steps: list[LineageStep] = []
    met = {start}
    waiting = [iter(neighbours(session, start, direction))]
    whole = True
    while waiting:
        one = next(waiting[-1], None)
        if one is None:
            waiting.pop()
            continue
        if len(steps) >= MOST:
            whole = False
            break
        of, run, to = one
        again, level = to in met, len(waiting)
        steps.append(
            LineageStep(
                depth=level, of=of, run_id=run.run_id, op=run.op, updater_id=run.updater_id,
                finished_at=run.finished_at, to=to, again=again,
            )
        )  # fmt: skip
        met.add(to)
        if again:
            continue
        if 0 <= depth <= level:
            whole = whole and next(iter(neighbours(session, to, direction)), None) is None
        else:
            waiting.append(iter(neighbours(session, to, direction)))
    return Lineage(thing=start, direction=direction, steps=steps, whole=whole)


def _point(session: Session, text: str) -> Point:
    """Return the thing that this text names: a version, the current version of a dataset, or a source by its address in
    kfm.yml. BadInput for a run."""
    address, mark, digest = text.partition("#sha256:")
    if any(True for _ in session.state.lineage.users(address, mark[1:] + digest)):
        return Point("source", address, mark[1:] + digest)
    thing = find_thing(session, text)
    if thing.run_id and not thing.version:
        raise BadInput(
            f"{printable(text)} is a run, and not something that was read or made",
            hint=f"see `kfm explain {thing.run_id}`, or name what it made",
        )
    if not thing.version:
        raise BadInput(f"{printable(text)} points to no version", hint=f"see `kfm refs history {thing.ref or text}`")
    return Point("version", thing.dataset, thing.version)


def neighbours(session: Session, point: Point, direction: Direction) -> Iterator[tuple[Point, PublicRun, Point]]:
    """Yield each thing that lies one run away, once, with that run. Runs are read as far as the caller asks."""
    runs = _makers(session, point) if direction == "upstream" else _users(session, point)
    seen: set[Point] = set()
    for run_id in runs:
        run = public_run(session.state, session.objects, entry_of(session.state, run_id), parts=False)
        for to in _read(run) if direction == "upstream" else _gave(run):
            if to not in seen and to != point:
                seen.add(to)
                yield point, run, to


def _makers(session: Session, point: Point) -> Iterator[str]:
    if point.kind == "version":
        yield from session.state.lineage.makers(point.id, point.digest)


def _users(session: Session, point: Point) -> Iterator[str]:
    users = session.state.lineage.users
    if point.kind == "source":
        yield from dict.fromkeys(use.run_id for use in users(point.id, point.digest))
    elif point.kind == "version":
        for address in (DATASET + point.id, *(f"{REF}{zone}/{point.id}" for zone in ZONES)):
            for use in users(address, point.digest):
                yield use.run_id


def _read(run: PublicRun) -> Iterator[Point]:
    for each in run.used():
        version = version_named(each.id, each.checksum)
        yield Point("version", *version) if version is not None else Point("source", each.id, each.checksum)


def _gave(run: PublicRun) -> Iterator[Point]:
    if run.made_a_version():
        yield Point("version", run.dataset, run.version)
    elif run.ref:
        yield Point("ref", run.ref, run.version)


def tree(found: Lineage) -> Iterator[str]:
    """Yield the lineage as an indented tree, with the run between each two things."""
    yield _name(found.thing)
    if not found.steps:
        what = "was made of nothing that is recorded" if found.direction == "upstream" else "nothing was made of it"
        yield f"  {what}"
    word = "made by" if found.direction == "upstream" else "read by"
    before: tuple[int, Point, str] | None = None
    for step in found.steps:
        indent = "    " * (step.depth - 1)
        if before != (step.depth, step.of, step.run_id):
            yield f"{indent}  {word} {step.op} {step.run_id}, {step.finished_at}"
        before = (step.depth, step.of, step.run_id)
        yield f"{indent}    {_name(step.to)}{' (as above)' if step.again else ''}"


def _name(point: Point) -> str:
    if point.kind == "ref":
        return f"{point.id} at {point.digest[:19] or 'nothing'}"
    return f"{point.id} {point.digest[:19]}".rstrip()
