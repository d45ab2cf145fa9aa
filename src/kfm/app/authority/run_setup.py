"""Builds the context of a run: its work, its world, and the guards of the installation that may refuse it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kfm.app.authority.classification import classification_now, declared_settings, readable_protection, world_of
from kfm.app.authority.gates import Gates
from kfm.app.session.protection_files import is_needed
from kfm.app.session.session import trust_of
from kfm.clock import StoppedClock
from kfm.engine.guards import Guards
from kfm.engine.run_context import RunContext, Work
from kfm.errors import BadInput
from kfm.model import refs
from kfm.telemetry.run_meter import NO_REGION, RunMeter

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.app.session.source_requests import DatasetSettings
    from kfm.engine.guards import Attest
    from kfm.engine.stage_results import ServedRef, Warrant
    from kfm.model.records import RefMove, Run, Trigger
    from kfm.model.updater import Updater

UNREADABLE = -1  # the epoch of labels that are not there


def context_of(
    session: Session,
    trigger: Trigger,
    updater: Updater,
    unfinished: Run | None = None,
    guards: Guards | None = None,
    recorded: DatasetSettings | None = None,
) -> RunContext:
    """Return the context of a run of this trigger. Without `guards`, its guards are those that hold now; without
    `recorded`, the settings are those of kfm.yml."""
    known = recorded or declared_settings(session, trigger.dataset)
    config_hash, body, replayed = known.config_hash, known.config_body, recorded is not None
    work = Work(trigger, updater, known.metadata, config_hash, body, unfinished, replayed)
    world = world_of(session, trigger.dataset, recorded)
    world.meter = _meter(session, trigger)
    return RunContext(work, world, guards or guards_of(session, trigger.dataset))


def _meter(session: Session, trigger: Trigger) -> RunMeter:
    """Return the meter of the run. BadInput if the table of the grid has a mistake, unless it is an operation."""
    energy = session.config.energy
    if energy.region or energy.grid:
        from kfm.app.session.energy_meter import run_meter

        return run_meter(session, is_operation=trigger.kind == "operation")
    if session.made_meter is None:
        folder = session.resolved.at(energy.rapl)
        is_stopped = isinstance(session.clock, StoppedClock)
        session.made_meter = RunMeter(
            energy.meter, energy.watts_per_core, folder, lambda _hour: NO_REGION, is_stopped=is_stopped
        )
    return session.made_meter


def guards_of(session: Session, dataset: str) -> Guards:
    """Return everything that may refuse a run of this dataset."""
    gates = Gates(session.resolved, dataset, declared_settings(session, dataset).metadata, session)
    epoch = _epoch(gates)  # read before the labels: the commit notices a change in between
    with session.state.reading():
        has_protection = is_needed(session.resolved, session.state)
        may_wait = not has_protection and gates.may_wait()
    protection, unready = readable_protection(session, dataset) if has_protection else (None, None)
    return Guards(
        gate=gates.published,
        step_gate=gates.step,
        both_gates=gates.both if may_wait else None,
        rules=gates.rules,
        epoch=epoch,
        epoch_now=partial(_epoch, gates),
        check_labels=_label_check(session, unready) if protection or unready else None,
        check_policies=gates.check_policies if session.config.policy.folder else None,
        **_budget_guards(session, dataset),
        authority=partial(_warrant, session),
        served_with=partial(_served_with, session),
        signed_since=partial(_signed_since, session),
        classification_of=partial(classification_now, session),
        protection=protection,
        attest=_attester(session),
        signs_lists=bool(session.config.attest.sign_with),
    )


def _budget_guards(session: Session, dataset: str) -> dict[str, Any]:
    """Return the guards that error budgets give; none without objectives."""
    if not session.resolved.has_objectives:
        return {}
    from kfm.app.objectives.error_budgets import check_budget, spent_share

    return {"check_budget": partial(check_budget, session), "spent_share": partial(spent_share, session, dataset)}


def _epoch(gates: Gates) -> int:
    """Return the epoch of the labels. If they cannot be read, only a run that withdraws or closes goes on, and
    `check_labels` says why."""
    try:
        return gates.epoch()
    except BadInput:
        return UNREADABLE


def _label_check(session: Session, unready: BadInput | None) -> Callable[[Updater, Trigger], None]:
    """Return the check of masks against labels, which comes before anything is run, moved or planned."""
    from kfm.app.authority.label_match import check

    return partial(check, session, unready)


def _warrant(session: Session, updater: Updater, trigger: Trigger, moves: list[RefMove]) -> Warrant:
    """Return the authority for an operation. Denied if the keys in force do not give it; without a key list, one
    person alone may do everything."""
    from kfm.app.authority.authorization import warrant

    return warrant(session, updater, trigger, moves)


def _served_with(session: Session, moves: list[RefMove]) -> list[ServedRef]:
    """Return the refs for readers that move with these moves: search aliases and cache epochs."""
    if not any(move.ref.startswith((refs.PUBLISHED, refs.HOTFIX)) for move in moves):
        return []
    from kfm.app.authority.served_refs import served_with

    return served_with(session, moves)


def _signed_since(session: Session, dataset: str, version: str, since: str) -> bool:
    from kfm.app.authority.authorization import signed_since

    return signed_since(session, dataset, version, since)


def _attester(session: Session) -> Attest | None:
    if session.mode == "read" or not session.config.attest.sign_with:
        return None
    from kfm.app.session.attester import Attester

    return Attester(trust_of(session), session.config.attest.builder)
