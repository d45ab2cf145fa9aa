"""Runs triggers and operations, resumes unfinished runs, and fetches a source without a run.

A run is durable once the session is settled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from kfm.app.authority.classification import (
    classifier_by,
    declared_settings,
    open_source,
    protection_for,
)
from kfm.app.authority.run_setup import context_of, guards_of
from kfm.app.runs.trigger_request import default_actor, trigger_updater
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.protection_files import closes_a_dataset
from kfm.engine.run import run
from kfm.errors import Broken, Corrupt, KfmError, Refused
from kfm.model.operation_target import SIGNED, is_signature
from kfm.model.preview_records import preview_of
from kfm.parsing.characters import printable
from kfm.scheduling.triggers import operation_trigger
from kfm.store.process_identity import is_held

if TYPE_CHECKING:
    from kfm.app.session.recorded_config import RecordedSettings
    from kfm.app.session.session import Session
    from kfm.app.session.source_requests import DatasetSettings
    from kfm.engine.guards import Guards
    from kfm.engine.run_context import RunContext
    from kfm.model.records import Fetched, FetchRequest, Receipt, Run, Trigger
    from kfm.model.updater import Updater
    from kfm.operations.move_updater import MoveUpdater

Tell = Callable[[str, KfmError], None]
_rules_lock = threading.RLock()  # one job at a time adopts rules and recalls: its siblings then find nothing to do


def run_trigger(
    session: Session,
    trigger: Trigger,
    updater: Updater | None = None,
    *,
    patient: bool = True,
    recorded: DatasetSettings | None = None,
) -> Receipt:
    """Run one trigger and return its receipt. Full if it is not `patient` and would have to wait for a slot of a pool.
    Without `recorded`, the settings are those of kfm.yml.

    Rules that are not in force yet are adopted first, and what they close is recalled.
    """
    guards = guards_of(session, trigger.dataset)
    if session.mode != "read":
        _apply_rules(session, trigger.dataset, guards)
    updater = updater or dataset_updater(session, trigger.dataset)
    context = context_of(session, trigger, updater, guards=guards, recorded=recorded)
    with session.state.recent():  # the claim of the run reads what was written before it
        return _run(session, context, patient=patient)


def _apply_rules(session: Session, dataset: str, guards: Guards) -> None:
    """Take the rules of the files into force, and recall what is closed. A recall needs no rule that can be read. A dry
    run only shows what would be recalled."""
    with _rules_lock:
        _apply_rules_alone(session, dataset, guards)


def _apply_rules_alone(session: Session, dataset: str, guards: Guards) -> None:
    is_protected = guards.protection is not None
    has_rules = is_protected or closes_a_dataset(session.resolved) or bool(session.config.policy.folder)
    if has_rules and session.mode == "write":
        from kfm.app.authority.rule_adoption import adopt_rules

        adopt_rules(session, dataset)
    # Without protection and without a mistake in its files nothing was protected when the guards were made.
    if is_protected or closes_a_dataset(session.resolved) or guards.check_labels is not None:
        from kfm.app.authority.recall import recall

        session.recalled += recall(session)


def _run(session: Session, context: RunContext, *, patient: bool = True) -> Receipt:
    if SIGNED in context.trigger.params and context.trigger.kind == "operation" and session.offered is None:
        from kfm.app.authority.brought_requests import brought_request

        with brought_request(session, context.trigger):
            return _run(session, context, patient=patient)
    if not session.config.pools:
        return run(context)
    from kfm.app.session.pools import slot

    with slot(session, context, patient=patient):
        return run(context)


def run_operation(
    session: Session,
    name: str,
    dataset: str,
    params: dict[str, str] | None = None,
    *,
    reason: str = "",
    actor: str = "",
    updater: MoveUpdater | None = None,
) -> Receipt:
    """Run an operation, such as promote, rollback, freeze or thaw, and return its receipt. A caller may give the
    updater that does it instead of the usual one."""
    from kfm.operations.registry import operations

    updater = updater or operations()[name]()
    if reason:
        from kfm.app.authority.private_reasons import private_reason

        reason = private_reason(session, dataset, reason, name)
    trigger = operation_trigger(
        updater, dataset, params or {}, session.clock, actor=actor or default_actor(), reason=reason
    )
    return run(context_of(session, trigger, updater))


def fetch_source(session: Session, request: FetchRequest, dataset: str) -> Fetched:
    """Fetch a source without a run: its bytes go into the object store, nothing else changes."""
    from kfm.app.authority.label_match import check_all

    check_all(session)
    opened = open_source(session, dataset, request.uri)
    known = session.state.inbox.checkpoint(request.uri)
    protection = protection_for(session, dataset)
    if protection is None:
        return opened.fetch(request, known, session.objects)
    classifier = classifier_by(session, dataset, protection)
    fetched = opened.fetch(request, classifier.checkpoint(request, known), classifier.objects_for(request))
    ref = classifier.classified(request, fetched.ref, None)
    return msgspec.structs.replace(fetched, ref=ref, checkpoint=classifier.kept(fetched.checkpoint, ref))


def resume_runs(
    session: Session,
    run_id: str | None = None,
    tell: Tell | None = None,
    *,
    patient: bool = True,
    today: bool = False,
    recorded: RecordedSettings | None = None,
) -> Iterator[Receipt]:
    """Resume unfinished runs where their journal ends, then run the triggers that a freeze kept. With `run_id`, resume
    only that run. Yields the receipts.

    A planned run is finished with the settings it was planned with; with `today`, with those of kfm.yml. Any other one
    uses `recorded`, or else those of kfm.yml.

    A run that cannot be resumed, because another worker has it or other code planned it, does not stop the others:
    `tell` receives the problem. Without `tell`, the first problem is raised at the end. A run that another worker ends
    meanwhile is left out.
    """
    requested = session.state.runs.get(run_id) if run_id is not None else None
    runs = [requested] if requested is not None and requested.status == "RUNNING" else []
    if run_id is None:
        runs = [run for run in session.state.runs.unfinished() if not preview_of(run.trigger)]
    elif not runs:
        known = requested is not None or session.state.ledger.receipt(run_id) is not None
        raise Refused(
            f"run {run_id[:80]} is not unfinished" if known else f"no run is called {printable(run_id)}",
            hint="see `kfm runs list`",
        )
    problems: list[KfmError] = []

    def keep(_name: str, problem: KfmError) -> None:
        problems.append(problem)

    for unfinished in runs:
        yield from _resume(session, unfinished.trigger, unfinished, tell or keep, patient, today, recorded)
    if run_id is None:
        resumed = {unfinished.trigger.trigger_id for unfinished in runs}
        for trigger in list(session.state.inbox.waiting()):
            is_signed = is_signature(trigger)  # see requested_work.py
            if trigger.trigger_id not in resumed and not is_signed and not _has_worker(session, trigger):
                yield from _resume(session, trigger, None, tell or keep, patient)
    if problems:
        raise problems[0]


def _has_worker(session: Session, trigger: Trigger) -> bool:
    """Return whether a live worker has claimed this trigger as a job."""
    lease = session.state.leases.of(f"job/{trigger.trigger_id}")
    return lease is not None and is_held(lease, session.state.now_ms())


def _planned_settings(session: Session, unfinished: Run) -> RecordedSettings | None:
    """Return the settings under which a run was planned, if kfm.yml has changed since; else None. Corrupt if they are
    missing or damaged."""
    from kfm.engine.run_journal import planned_config

    dataset = unfinished.dataset
    if unfinished.trigger.kind == "operation" or dataset not in session.config.datasets:
        return None
    config_hash = planned_config(session.state, unfinished.run_id)
    if config_hash in ("", declared_settings(session, dataset).config_hash):
        return None
    from kfm.app.session.recorded_config import recorded_settings

    cure = f"use that of kfm.yml: `kfm resume {unfinished.run_id} --today`"
    return recorded_settings(session, dataset, config_hash, cure)


def _resume(
    session: Session,
    trigger: Trigger,
    unfinished: Run | None,
    tell: Tell,
    patient: bool,
    today: bool = False,
    recorded: RecordedSettings | None = None,
) -> Iterator[Receipt]:
    def waits() -> bool:
        if unfinished is None:
            return session.state.inbox.kept(trigger) is not None
        now = session.state.runs.get(unfinished.run_id)
        return now is not None and now.status == "RUNNING"

    if not waits():
        return
    if unfinished is not None:  # read again: another worker may have planned it, and died
        unfinished = session.state.runs.get(unfinished.run_id)
    try:
        if unfinished is not None and unfinished.plan_hash and not today:
            recorded = _planned_settings(session, unfinished)
    except Corrupt as problem:  # concerns this run alone
        tell(unfinished.run_id if unfinished is not None else trigger.dataset, problem)
        return
    try:
        updater = trigger_updater(session, trigger) if recorded is None else recorded.updater
        settings = None if recorded is None else recorded.settings
        context = context_of(session, trigger, updater, unfinished, recorded=settings)
        receipt = _run(session, context, patient=patient)
    except Broken:
        raise
    except KfmError as problem:
        if waits():
            tell(unfinished.run_id if unfinished is not None else trigger.dataset, problem)
    else:
        yield receipt
