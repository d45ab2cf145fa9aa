"""Recall: what labels close today is taken back from the public, with everything that was made of it.

Nobody's leave is needed, and no freeze stops it: it only takes away. Done before every run of an installation that has
protected data, and whenever a label was tightened.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from kfm.clock import Clock
from kfm.delivery.public_files import PUBLIC as OUTSIDE
from kfm.engine.protected.source_classification import PUBLIC, WayIn, aged, is_more_closed
from kfm.engine.run import run
from kfm.engine.run_context import Ports
from kfm.engine.stage_results import Warrant
from kfm.errors import Broken, KfmError
from kfm.model.labels import joined
from kfm.model.operation_target import REF
from kfm.model.ports import Log, State
from kfm.model.records import SourceRef, Standing
from kfm.operations.ref_moves import Rollback
from kfm.projections.live_versions import live_versions as still_public
from kfm.scheduling.triggers import operation_trigger

ACTOR = "kfm recall"


class Recalling(Protocol):
    """An open house, as far as it is asked for here."""

    clock: Clock
    log: Log

    @property
    def state(self) -> State: ...

    def ports(self, name: str) -> Ports: ...

    def retention(self, dataset: str) -> int: ...


class Recalled(NamedTuple):
    """One dataset that was taken back."""

    dataset: str
    rules: tuple[str, ...]  # why
    versions: int  # that were public
    told: tuple[str, ...]  # which sinks had told the outside of it
    problem: KfmError | None = None  # it could not be


def recall(session: Recalling) -> list[Recalled]:
    """Withdraw whatever is more protected today than when it was published. The outside hears of it with `settle`."""
    found = []
    for ref, at in list(session.state.refs.all("published/")):
        dataset = ref.partition("/")[2]
        public = still_public(session.state.refs.history(ref), session.retention(dataset)) if at else []
        rules = _closed_since(session, dataset, public)
        if rules is not None:
            found.append(_withdrawn(session, dataset, rules, len(public)))
    return found


def _closed_since(session: Recalling, dataset: str, public: list[str]) -> tuple[str, ...] | None:
    """Why one of these versions may not be public any more; None if all may."""
    for version in public:
        made = session.state.ledger.version(dataset, version)
        now = stands_now(session, dataset, version)
        if now is not None and is_more_closed(now, (made.standing if made is not None else None) or PUBLIC):
            return now.rules
    return None


def stands_now(session: Recalling, dataset: str, version: str, above: tuple[str, ...] = ()) -> Standing | None:
    """How a version stands today: as all that it was made of does, the versions of other datasets among them."""
    made = session.state.ledger.version(dataset, version)
    ports = session.ports(dataset)
    if made is None or ports.protection is None or f"{dataset}@{version}" in above:
        return None
    way = WayIn(ports, ports.protection, dataset)
    found = [] if made.standing is None else [aged(made.standing, way.today)]
    found += way.labelled(f"{REF}processed/{dataset}", ports.request.base_dir, "")
    for ref in _inputs(session, dataset, made.validated_by or made.run_id):
        if ref.uri.startswith(REF):
            other = ref.uri.removeprefix(REF).partition("/")[2]
            its = stands_now(session, other, ref.content_hash, (*above, f"{dataset}@{version}"))
        else:
            its = way.stands_now(ref)
        found += [] if its is None else [its]
    return joined(found) if found else None


def _inputs(session: Recalling, dataset: str, run_id: str) -> list[SourceRef]:
    """What a version was made of; of one made by parts, what each of them was."""
    runs, refs = session.state.runs, session.state.refs
    makers = {run_id: runs.get(run_id)}
    if (last := makers[run_id]) is not None and last.trigger.partition:
        for ref, _ in list(refs.all(f"raw/{dataset}/")):
            for move in refs.history(ref, reverse=True, limit=1):
                makers[move.run_id] = runs.get(move.run_id)
    return [ref for run in makers.values() if run is not None for ref in run.inputs]


def _withdrawn(session: Recalling, dataset: str, rules: tuple[str, ...], versions: int) -> Recalled:
    updater = Rollback()
    why = "it is more protected than when it was published: " + ", ".join(rules)
    trigger = operation_trigger(updater, dataset, {"to": "nothing"}, session.clock, actor=ACTOR, reason=why)
    ports = msgspec.structs.replace(session.ports(dataset), authority=lambda *_about: Warrant())
    told = tuple(sink for sink in (OUTSIDE,) if session.state.outbox.told(sink, dataset) is not None)
    try:
        receipt = run(trigger, updater, ports)
    except Broken:
        raise
    except KfmError as problem:
        session.log.event("dataset.unrecalled", dataset=dataset, error=problem)
        return Recalled(dataset, rules, versions, told, problem)
    session.log.event("dataset.recalled", dataset=dataset, rules=list(rules), versions=versions, run_id=receipt.run_id)
    return Recalled(dataset, rules, versions, told)
