"""Recall: withdraws published data that labels close today, with everything derived from it.

A recall needs no approval, and no freeze flag stops it, because it only takes away. It happens before every run of an
installation that has protected data, after every tightened label, and with every command that writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kfm.app.authority.classification import classification_now, declared_now
from kfm.app.authority.run_setup import context_of
from kfm.app.session.datasets import public_retention
from kfm.app.session.protection_files import closes_a_dataset
from kfm.app.session.session import Recalled, Session
from kfm.delivery.public_files import PUBLIC as OUTSIDE
from kfm.engine.protected.source_classification import PUBLIC, is_more_closed
from kfm.engine.run import run
from kfm.engine.stage_results import Warrant
from kfm.errors import Broken, KfmError
from kfm.model import refs
from kfm.model.records import Receipt
from kfm.operations.move_updater import MoveUpdater
from kfm.operations.rollback import Rollback
from kfm.projections.live_versions import live_versions as still_public
from kfm.scheduling.triggers import operation_trigger

ACTOR = "kfm recall"


class ClosedDataset(NamedTuple):
    """A dataset that is public and may not be, the rules that say so, and the count of its public versions."""

    dataset: str
    rules: tuple[str, ...]
    versions: int


def recall(session: Session) -> list[Recalled]:
    """Withdraw every dataset that is more protected today than when it was published, and return them. The public files
    are removed when the session settles."""
    return [_withdrawn(session, *one) for one in list(closed_datasets(session))]


def closed_datasets(session: Session) -> Iterator[ClosedDataset]:
    """Yield every published dataset that is more protected today than when it was published."""
    for ref, at in list(session.state.refs.all(refs.PUBLISHED)):
        dataset = refs.parse(ref).dataset
        public = still_public(session.state.refs.history(ref), public_retention(session, dataset)) if at else []
        rules = closing_rules(session, dataset, public)
        if rules is not None:
            yield ClosedDataset(dataset, rules, len(public))


def closing_rules(session: Session, dataset: str, public: list[str]) -> tuple[str, ...] | None:
    """Return the rules by which one of these versions may no longer be public; None if all may."""
    closes = closes_a_dataset(session.resolved)
    for version in public:
        made = session.state.ledger.version(dataset, version)
        now = classification_now(session, dataset, version) or (
            declared_now(session, dataset, version) if closes else None
        )
        if now is not None and is_more_closed(now, (made.standing if made is not None else None) or PUBLIC):
            return now.rules
    return None


def recalled_line(one: Recalled, *, predicted: bool = False) -> str:
    """Return what a withdrawal did, or would do, in one line."""
    if one.problem is not None:
        return f"{one.dataset} must be withdrawn ({', '.join(one.rules)}), and could not be: {one.problem}"
    versions = "1 version" if one.versions == 1 else f"{one.versions} versions"
    done = "would be withdrawn" if predicted else "withdrawn"
    return f"{one.dataset}: {versions} {done} from the public files, because it is closed ({', '.join(one.rules)})"


def run_unsigned(
    session: Session, updater: MoveUpdater, dataset: str, params: dict[str, str], *, actor: str, reason: str
) -> Receipt:
    """Run an operation that only takes away or closes, such as a withdrawal or a freeze: it needs no signature."""
    trigger = operation_trigger(updater, dataset, params, session.clock, actor=actor, reason=reason)
    context = context_of(session, trigger, updater)
    context.guards.authority = lambda *_about: Warrant()
    return run(context)


def _withdrawn(session: Session, dataset: str, rules: tuple[str, ...], versions: int) -> Recalled:
    why = "it is more protected than when it was published: " + ", ".join(rules)
    received_by = tuple(sink for sink in (OUTSIDE,) if session.state.outbox.told(sink, dataset) is not None)
    try:
        receipt = run_unsigned(session, Rollback(), dataset, {"to": "nothing"}, actor=ACTOR, reason=why)
    except Broken:
        raise
    except KfmError as problem:
        session.log.event("dataset.unrecalled", dataset=dataset, error=problem)
        return Recalled(dataset, rules, versions, received_by, problem)
    session.log.event("dataset.recalled", dataset=dataset, rules=list(rules), versions=versions, run_id=receipt.run_id)
    return Recalled(dataset, rules, versions, received_by)
