"""Requests for jobs: an envelope is made or checked, and stored with its trigger before anyone is told.

Nothing in an envelope gives a right: the dataset decides who may work on it, and its gates what may be published.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kfm.app.authority.classification import declared_settings
from kfm.app.jobs.job_pools import job_level, job_pools
from kfm.app.jobs.job_types import JobParameters, JobType, job_type
from kfm.app.runs.auto_promotion import check_plainly_public
from kfm.app.runs.trigger_request import default_actor, new_trigger
from kfm.app.session.datasets import dataset_config
from kfm.clock import rfc3339
from kfm.config.upstream_datasets import read_by
from kfm.errors import BadInput, Denied, Refused
from kfm.model import refs
from kfm.model.jobs.job_envelope import DATASET, SYSTEM, JobEnvelope, JobInput, JobTrace, Priority, identified
from kfm.model.jobs.job_records import JobState
from kfm.model.keys import correlation_id, digest, job_id_of
from kfm.model.labels import LEVELS
from kfm.model.names import dataset_id, dataset_uri
from kfm.model.records import Trigger
from kfm.parsing.documents import Document
from kfm.parsing.record_shape import problems_of

if TYPE_CHECKING:
    from kfm.app.session.session import Session

PARTITION_TYPE, DEFAULT_TYPE = "backfill.partition", "ingest.pull_source"


class Enqueued(NamedTuple):
    """A stored job. `is_new` is false if the same envelope was stored before: then nothing has changed."""

    job: JobState
    is_new: bool


def new_envelope(
    session: Session,
    name: str,
    dataset: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    requested_by: str = "",
    parent_run_id: str | None = None,
    correlation_id: str = "",
) -> JobEnvelope:
    """Return the envelope of a job of this type: of this dataset, or, if the type makes derived datasets, of the one
    that reads it. BadInput if there is no such dataset."""
    kind = job_type(name)
    target = target_dataset(session, kind, dataset)
    return identified(
        JobEnvelope(
            job_type=kind.name,
            requested_by=requested_by or f"user:{default_actor()}",
            requested_at=rfc3339(session.clock.now_ms()),
            inputs=_inputs(session, kind, target),
            parameters={"target_zone": "Processed", **(parameters or {}), "dataset": dataset_uri(target)},
            trace=JobTrace(parent_run_id=parent_run_id, correlation_id=correlation_id),
        )
    )


def _inputs(session: Session, kind: JobType, target: str) -> tuple[JobInput, ...]:
    """Return the inputs of a job: the declaration of the dataset, or the current versions that a derived one reads."""
    if not kind.derived:
        checksum = declared_settings(session, target).config_hash
        return (JobInput(kind="config", id=dataset_uri(target), checksum=checksum),)
    found = []
    for _, other, source in read_by(session.config.datasets[target]):
        version = session.state.refs.at(refs.in_zone(source.zone, other))
        if not version:
            raise Refused(f"{other} has no {source.zone} version, which {target} reads", hint=f"`kfm run {other}`")
        found.append(JobInput(kind="dataset", id=dataset_uri(other), checksum=version))
    return tuple(found)


def target_dataset(session: Session, kind: JobType, dataset: str) -> str:
    """Return the dataset that a job of this type runs: the named one, or the only one of that type that reads it.
    BadInput if there is none, or more than one."""
    name = dataset_id(dataset)
    declared = dataset_config(session, name)
    own = _declared_type(session, name)
    if kind.derived:
        if own == kind.name:
            return name
        found = [
            other
            for other, config in sorted(session.config.datasets.items())
            if _declared_type(session, other) == kind.name and name in {each for _, each, _ in read_by(config)}
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise BadInput(f"{len(found)} datasets are made from {name} by {kind.name}", hint=f"name one: {found}")
        raise BadInput(
            f"no dataset says that {kind.name} makes it from {name}",
            hint=f"add to kfm.yml: `{name}-made: {{job: {kind.name}, sources: {{source: {{dataset: {name}}}}}, …}}`",
        )
    if own not in (DEFAULT_TYPE, PARTITION_TYPE):
        raise BadInput(f"{name} is made by jobs of the type {own}", hint=f"say {own} instead of {kind.name}")
    if kind.name == PARTITION_TYPE and declared.updater is None:
        raise BadInput(
            f"{name} has no partitions: what kfm.yml declares is made whole", hint=f"say {DEFAULT_TYPE} instead"
        )
    return name


def _declared_type(session: Session, dataset: str) -> str:
    """Return the type of the jobs that make a dataset, as kfm.yml says."""
    declared = session.config.datasets.get(dataset)
    return (declared.job if declared is not None else None) or DEFAULT_TYPE


def enqueue(
    session: Session,
    envelope: JobEnvelope,
    *,
    priority: Priority = "normal",
    reason: str = "",
    not_before_ms: int = 0,
) -> Enqueued:
    """Store a job durably, with its trigger. The same envelope again changes nothing.

    Raises BadInput, Refused or Denied, each with what to do, if no worker could do the job.
    """
    known = session.state.jobs.by_id(envelope.job_id)
    if known is not None:
        return Enqueued(known, is_new=False)
    job = new_job(session, envelope, priority=priority, reason=reason, not_before_ms=not_before_ms)
    with session.state.transaction() as tx:
        return Enqueued(*tx.jobs.enqueue(job))


def new_job(
    session: Session,
    envelope: JobEnvelope,
    *,
    priority: Priority = "normal",
    reason: str = "",
    not_before_ms: int = 0,
) -> JobState:
    """Return the job of an envelope, checked, with the trigger that it will have."""
    kind = job_type(envelope.job_type)
    parameters = typed_parameters(kind, envelope.parameters)
    if parameters.target_zone not in kind.zones:
        raise BadInput(
            f"a job of the type {kind.name} does not write to {parameters.target_zone}",
            hint=f"say target_zone: {' or '.join(kind.zones)}",
        )
    target = _target_of(session, kind, envelope, parameters)
    for each in envelope.inputs:
        _check_input(session, each, target)
    _check_label(session, target, parameters)
    if parameters.target_zone == "Published":
        _check_promotion(session, target)
    force = bool(getattr(parameters, "force", False))
    if force and not reason.strip():
        raise BadInput("a job with force: true needs a reason", hint="add --reason; it goes into the ledger")
    trigger = new_trigger(
        session,
        target,
        window=getattr(parameters, "window", ""),
        partition=getattr(parameters, "partition", ""),
        force=force,
        reason=_private(session, target, reason),
        actor=envelope.requested_by.removeprefix("user:"),
        kind="job",
    )
    trigger = msgspec.structs.replace(
        trigger, correlation_id=envelope.trace.correlation_id or envelope.job_id, low=priority == "low"
    )
    return JobState(
        envelope=envelope,
        trigger=trigger,
        priority=priority,
        pools=job_pools(session, target),
        not_before_ms=not_before_ms,
    )


def _private(session: Session, dataset: str, reason: str) -> str:
    if not reason:
        return ""
    from kfm.app.authority.private_reasons import private_reason

    return private_reason(session, dataset, reason)


def typed_parameters(kind: JobType, parameters: Mapping[str, Any]) -> JobParameters:
    """Return the parameters of a job as its type says. BadInput for the first that does not fit."""
    try:
        return msgspec.convert(dict(parameters), kind.parameters, strict=True)
    except msgspec.ValidationError as error:
        document = Document(dict(parameters), "the envelope", lambda _path: None)
        problems = problems_of(document, kind.parameters)
        if problems:
            what, hint = problems[0].what, problems[0].hint
        else:
            what, hint = str(error).splitlines()[0], "correct it"
        raise BadInput(f"the parameters of {kind.name}: {what}", hint=f"{hint}; see `kfm jobs types`") from None


def _target_of(session: Session, kind: JobType, envelope: JobEnvelope, parameters: JobParameters) -> str:
    """Return the dataset that a job runs, from its parameters or else its inputs."""
    named = parameters.dataset or next((each.id for each in envelope.inputs if each.id.startswith(DATASET)), "")
    if not named:
        raise BadInput("the job names no dataset", hint="say parameters.dataset, or give an input kfm://dataset/ID")
    return target_dataset(session, kind, named)


def _check_input(session: Session, one: JobInput, target: str) -> None:
    """Raise Refused unless these are bytes that are known here."""
    if one.kind == "uri":
        known = {source.known_as for source in session.config.datasets[target].sources.values()}
        if one.id not in known:
            raise Refused(f"no source of {target} has the address of an input", hint="see `kfm config show`")
        return
    name = dataset_id(one.id)
    if one.kind == "config":
        dataset_config(session, name)
        if one.checksum != declared_settings(session, name).config_hash:
            raise Refused(
                f"the declaration of {name} is not the one that the job was made for",
                hint="kfm.yml has changed since; make the job again: `kfm jobs enqueue`",
            )
        return
    if session.state.ledger.version(name, one.checksum) is None:
        if name not in session.config.datasets:
            dataset_config(session, name)  # raises: there is no such dataset
        current = session.state.refs.at(refs.processed(name))
        raise Refused(
            f"{one.checksum[:19]}… is no version of {name}",
            hint=f"its processed version: {current}" if current else f"it has none; `kfm run {name}` makes one",
        )


def _check_label(session: Session, target: str, parameters: JobParameters) -> None:
    """Raise Denied if the job says that its result is more open than its dataset."""
    said = parameters.policy_label
    if said is None:
        return
    level = job_level(session, target)
    if LEVELS.index(said) < LEVELS.index(level):
        raise Denied(
            f"policy_label: {said} is more open than {target}, which is {level}",
            hint=f"say {level}, or leave it out; `kfm labels show {target}` shows what decides",
        )


def _check_promotion(session: Session, target: str) -> None:
    """Raise Refused or Denied unless a run of the dataset is followed by a promotion."""
    if session.config.datasets[target].promote != "auto":
        raise Refused(
            f"{target} is not published by a job: a person decides that",
            hint=f"say target_zone: Processed, then `kfm publish {target} --reason …`; or promote: auto in kfm.yml",
        )
    check_plainly_public(session, target, session.state.refs.at(refs.processed(target)))


def derived_job(session: Session, trigger: Trigger) -> JobState:
    """Return the job of a trigger that came without an envelope, such as one of a schedule or a webhook."""
    kind = PARTITION_TYPE if trigger.partition else _declared_type(session, trigger.dataset)
    parameters: dict[str, Any] = {"target_zone": "Processed", "dataset": dataset_uri(trigger.dataset)}
    for name in ("window", "partition"):
        if value := getattr(trigger, name):
            parameters[name] = value
    config = session.config.datasets.get(trigger.dataset)
    inputs: tuple[JobInput, ...] = ()
    if config is not None:
        checksum = declared_settings(session, trigger.dataset).config_hash
        inputs = (JobInput(kind="config", id=dataset_uri(trigger.dataset), checksum=checksum),)
    envelope = JobEnvelope(
        job_type=kind,
        requested_by=SYSTEM,
        requested_at=trigger.received_at,
        inputs=inputs,
        parameters=parameters,
        trace=JobTrace(correlation_id=job_id_of(digest(f"{trigger.trigger_id}/{correlation_id(trigger)}".encode()))),
    )
    priority: Priority = "low" if trigger.low else "normal"
    return JobState(envelope=identified(envelope), trigger=trigger, priority=priority)
