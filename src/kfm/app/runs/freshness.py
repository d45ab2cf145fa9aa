"""Freshness of datasets: which are late, by how much, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from kfm.app.authority.withdrawals import withdrawing_move
from kfm.app.runs.due_schedules import dependencies, schedules_of
from kfm.app.session.datasets import dataset_config
from kfm.clock import parse_instant, rfc3339
from kfm.config.upstream_datasets import read_by
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.operation_target import REF
from kfm.model.preview_records import preview_of
from kfm.model.records import DatasetVersion, LedgerEntry, RefEntry
from kfm.model.reports.freshness_record import Freshness, Verdict
from kfm.scheduling.freshness_rules import MINUTE_MS, EndedRun, Spell, blame, deadline_ms, length_ms, spells
from kfm.scheduling.triggers import is_of_preview

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import Resolved
    from kfm.config.pace_settings import FreshnessConfig

MOST = 500  # runs of a dataset that are examined; older ones count as the oldest of these


def check_targets(resolved: Resolved) -> None:
    """Raise BadInput if a freshness target in kfm.yml has no meaning."""
    for name, dataset in resolved.config.datasets.items():
        said = dataset.freshness
        if said is None:
            continue
        if bool(said.max_age) == bool(said.by):
            wrong, hint = "freshness has max_age or by, and not both", "write {max_age: 26h}"
        elif said.max_age and length_ms(said.max_age) is None:
            wrong, hint = "max_age is no length of time", "write it like 90m, 26h or 3d"
        elif said.by and deadline_ms(said.by, 0) is None:
            wrong, hint = "by is no time of the day", "write it like 07:00 America/Chicago"
        else:
            continue
        raise BadInput(f"{resolved.document.place(('datasets', name, 'freshness'))}: {wrong}", hint=hint)


class _Seen:
    """Facts that are read once for all datasets, by dataset."""

    def __init__(self, session: Session, now_ms: int) -> None:
        state = session.state
        self.public = {refs.parse(ref).dataset: digest for ref, digest in state.refs.all(refs.PUBLISHED)}
        self.made = {refs.parse(ref).dataset: digest for ref, digest in state.refs.all(refs.PROCESSED)}
        self.previewed = any(True for _ in state.refs.histories(refs.PREVIEW))  # also if that preview was removed since
        self.spells: dict[str, list[Spell]] = {}
        moves: dict[str, list[RefEntry]] = {}
        for entry in (*state.refs.histories(refs.switch("global") + "@"), *state.refs.histories(refs.DATASET_SWITCH)):
            moves.setdefault(entry.ref, []).append(entry)
        self.always = list(_frozen(moves.pop(refs.switch("global"), []), now_ms))
        for ref, entries in moves.items():
            self._add(ref.removeprefix(refs.DATASET_SWITCH), *_frozen(entries, now_ms))
        waiting: dict[str, int] = {}
        for trigger in state.inbox.waiting():
            if trigger.received_at:
                at_ms = parse_instant(trigger.received_at, "a trigger")
                waiting[trigger.dataset] = min(at_ms, waiting.get(trigger.dataset, at_ms))
        for name, at_ms in waiting.items():
            self._add(name, Spell(at_ms, now_ms, "waiting"))
        for run in state.runs.unfinished():
            if not preview_of(run.trigger):
                self._add(run.dataset, Spell(parse_instant(run.started_at, "a run"), now_ms, "running"))

    def _add(self, name: str, *spells: Spell) -> None:
        self.spells.setdefault(name, []).extend(spells)


def freshness(session: Session, datasets: Sequence[str]) -> list[Freshness]:
    """Return the freshness of these datasets, the latest ones first."""
    check_targets(session.resolved)
    now_ms = session.clock.now_ms()
    above = dependencies(session.resolved, schedules_of(session.resolved))
    late: dict[str, bool] = {}
    pooled = _pooled(session)
    seen = _Seen(session, now_ms)

    def is_late(name: str) -> bool:
        if name not in late:
            late[name] = False  # a dataset in a cycle is not late because of itself
            late[name] = _of(session, seen, name, now_ms, [], []).verdict == "late"
        return late[name]

    def late_above(name: str) -> list[str]:
        """Return the late datasets that this one follows. Datasets that it reads are left out, because `_read` uses
        their versions."""
        read = {other for _, other, _ in read_by(dataset_config(session, name))}
        return [each for each in above.get(name, ()) if each not in read and is_late(each)]

    found = [_of(session, seen, name, now_ms, late_above(name), pooled.get(name, [])) for name in datasets]
    return sorted(found, key=lambda each: (-each.late_min, -(each.age_min or 0), each.dataset))


def _of(session: Session, seen: _Seen, name: str, now_ms: int, late_above: list[str], pooled: list[Spell]) -> Freshness:
    said = dataset_config(session, name).freshness
    target = (said.max_age or f"by {said.by}") if said is not None else ""
    current = seen.public.get(name) or seen.made.get(name)
    made = session.state.ledger.version(name, current) if current else None
    if made is None:
        return Freshness(dataset=name, verdict="never", as_of="", age_min=None, target=target, late_min=0, blame={})
    as_of_ms = parse_instant(made.created_at, "a version")
    causes = [*_spells(session, seen, name, as_of_ms, now_ms), *pooled, *_above(late_above, as_of_ms, now_ms)]
    causes = _read(session, name, made, as_of_ms, now_ms, causes)
    blamed = blame(as_of_ms, now_ms, causes)
    verdict, late_min = judged(said, as_of_ms, now_ms)
    return Freshness(
        dataset=name,
        verdict=verdict,
        as_of=rfc3339(as_of_ms),
        age_min=max(now_ms - as_of_ms, 0) // MINUTE_MS,
        target=target,
        late_min=late_min,
        blame=blamed,
    )


def judged(said: FreshnessConfig | None, as_of_ms: int, now_ms: int) -> tuple[Verdict, int]:
    """Return the verdict on a version of this age, and by how many minutes it is late."""
    late_ms = _late_ms(said, as_of_ms, now_ms)
    return "no target" if said is None else "late" if late_ms > 0 else "fresh", -(-late_ms // MINUTE_MS)


def _late_ms(said: FreshnessConfig | None, as_of_ms: int, now_ms: int) -> int:
    if said is None:
        return 0
    if said.max_age:
        return max(now_ms - as_of_ms - (length_ms(said.max_age) or 0), 0)
    begin_ms, due_ms = deadline_ms(said.by, now_ms) or (0, now_ms)
    return now_ms - due_ms if as_of_ms < begin_ms and now_ms > due_ms else 0


def _spells(session: Session, seen: _Seen, name: str, since_ms: int, now_ms: int) -> Iterator[Spell]:
    public = name in seen.public
    moves = list(session.state.refs.history(refs.published(name), reverse=True, limit=MOST)) if public else []
    withdrawn: dict[str, bool] = {}
    ended = []
    for entry in islice(session.state.ledger.entries_of(name), MOST):
        at_ms = parse_instant(entry.ts, "an entry")
        if at_ms <= since_ms:
            break
        if entry.op_type == "ingest" and not (seen.previewed and is_of_preview(session.state, entry)):
            version = _made(entry, name) if public else ""
            published_ms = _published_ms(moves, version, at_ms, now_ms) if version else None
            if version not in withdrawn:
                withdrawn[version] = withdrawing_move(session, name, version) is not None
            if withdrawn[version] and published_ms == now_ms:  # it was withdrawn before it was built again
                published_ms = at_ms
            ended.append(EndedRun(at_ms, entry.outcome, published_ms, withdrawn[version]))
    yield from spells(since_ms, now_ms, ended)
    yield from seen.always
    yield from seen.spells.get(name, ())


def _made(entry: LedgerEntry, name: str) -> str:
    """Return the version that a run made; empty if it made none."""
    moves = (move for move in entry.moves if move.ref == refs.processed(name) and move.after != move.before)
    return next((move.after for move in moves), "")


def _published_ms(moves: list[RefEntry], version: str, made_ms: int, now_ms: int) -> int:
    """Return when a version was published after it was made; now, if it was not. `moves` are the newest first."""
    found = now_ms
    for move in moves:
        at_ms = parse_instant(move.ts, "a move")
        if at_ms < made_ms:
            break
        if move.after == version:
            found = at_ms
    return found


def _frozen(moves: Iterable[RefEntry], now_ms: int) -> Iterator[Spell]:
    """Yield the periods in which a freeze flag was set, from its moves in order."""
    begun: int | None = None
    for entry in moves:
        at_ms = parse_instant(entry.ts, "a move")
        if entry.after == "open" and begun is not None:
            yield Spell(begun, at_ms, "frozen")
            begun = None
        elif entry.after != "open" and begun is None:
            begun = at_ms
    if begun is not None:
        yield Spell(begun, now_ms, "frozen")


def _pooled(session: Session) -> dict[str, list[Spell]]:
    """Return by dataset the periods in which its runs waited for a slot of a pool."""
    if not session.config.pools:
        return {}
    from kfm.app.session.pools import waits

    return {name: [Spell(*each, "waiting for a pool") for each in spans] for name, spans in waits(session).items()}


def _read(
    session: Session, name: str, made: DatasetVersion, since_ms: int, now_ms: int, causes: list[Spell]
) -> list[Spell]:
    """Add the period in which a derived dataset could not change, because no dataset that it reads had a new version.
    If it reads nothing else, an unchanged source is also counted as a late upstream dataset."""
    declared = dataset_config(session, name)
    run = session.state.runs.get(made.validated_by or made.run_id)
    read = {refs.in_zone(said.zone, other) for _, other, said in read_by(declared) if not said.version}
    if not read or run is None:
        return causes
    was = {ref.uri.removeprefix(REF): ref.content_hash for ref in run.inputs}
    if len(read) == len(declared.sources):
        causes = [each if each.cause != "source late" else each._replace(cause="upstream late") for each in causes]
    news = [at_ms for ref in read if (at_ms := _left(session, ref, was.get(ref, ""))) is not None]
    return [*causes, Spell(since_ms, max(min(news, default=now_ms), since_ms), "upstream late")]


def _left(session: Session, ref: str, version: str) -> int | None:
    """Return when a ref moved away from a version; None if it did not."""
    found = None
    for move in session.state.refs.history(ref, reverse=True, limit=MOST):
        if move.after == version:
            break
        found = parse_instant(move.ts, "a move")
    return found


def _above(late_above: list[str], since_ms: int, now_ms: int) -> list[Spell]:
    return [Spell(since_ms, now_ms, "upstream late")] if late_above else []
