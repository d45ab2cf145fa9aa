"""The context of a published dataset, made of public records alone: nothing else can get into it.

It says the same as `kfm explain` and the page of the dataset, for programs. Bounding boxes stay out: a context is no
place for coordinates.
"""

from __future__ import annotations

from kfm.delivery.corrections import correction_of
from kfm.delivery.public_runs import entry_of, public_run
from kfm.delivery.upstream_runs import public_explanation
from kfm.errors import Corrupt, Denied, Refused
from kfm.model import refs
from kfm.model.jobs.focus_record import (
    FORMAT,
    CommunityLabel,
    ContextGovernance,
    ContextLink,
    ContextRun,
    ContextSentence,
    ContextTelemetry,
    FocusContext,
)
from kfm.model.labels import COMMUNITY, PUBLISHABLE
from kfm.model.ports import Objects, State
from kfm.model.public_run import PublicRun
from kfm.model.records import DatasetVersion
from kfm.projections.explanation import TRIGGERS, Explanation
from kfm.projections.live_versions import last_move

LOOKED_AT = 2000  # runs of a dataset that are searched for the last successful one


def dataset_context(state: State, objects: Objects, dataset: str) -> FocusContext:
    """Return the context of the public version of a dataset. Refused if none is public; Denied if it may not be."""
    with state.reading():
        version = state.refs.at(refs.published(dataset))
        record = state.ledger.version(dataset, version) if version else None
        if not version:
            raise Refused(f"{dataset} has no published version yet", hint=f"first: `kfm publish {dataset} --reason …`")
        if record is None:
            raise Corrupt(f"the run that made {version} is not recorded", hint="see `kfm doctor --deep`")
        _check_publishable(dataset, record)
        made = public_run(state, objects, entry_of(state, record.run_id))
        move = last_move(state.refs.history(refs.published(dataset)), version)
        published_by = move.run_id if move is not None else ""
        correction = correction_of(state, objects, dataset, version)
        told = public_explanation(state, objects, made, published_by, correction)
        published = public_run(state, objects, entry_of(state, published_by), parts=False) if published_by else None
        metadata = made.metadata or (published.metadata if published is not None else {})
        said = metadata if correction is None else correction.of(metadata)
        return FocusContext(
            format=FORMAT,
            dataset=dataset,
            version=version,
            title=str(said.get("title", "")),
            description=str(said.get("description", "")),
            license=str(said.get("license", "")),
            attribution=str(said.get("attribution", "")),
            produced=_run(made),
            published=None if published is None else _run(published),
            last_successful=_last_successful(state, objects, dataset),
            chain=_chain(told),
            cut=told.cut,
            governance=governance_of(made),
            telemetry=telemetry_of(state, made),
            sentences=tuple(ContextSentence(about=line.about, text=line.text, cites=line.cites) for line in told.lines),
        )


def _check_publishable(dataset: str, record: DatasetVersion) -> None:
    standing = record.standing
    level = standing.level if standing is not None else record.metadata.get("sensitivity")
    if level not in PUBLISHABLE or (standing is not None and not standing.publishable()):
        raise Denied(
            f"the version of {dataset} may not be public, so nothing is said of it",
            hint="ask its stewards",
            rule="context.not-public",
        )


def _run(run: PublicRun) -> ContextRun:
    return ContextRun(
        run_id=run.run_id,
        updater_id=run.updater_id,
        updater_version=run.updater_version,
        trigger=run.trigger,
        trigger_type=TRIGGERS[run.trigger],
        outcome=run.outcome,
        started_at=run.started_at,
        finished_at=run.finished_at,
        receipt=run.receipt_digest,
    )


def _last_successful(state: State, objects: Objects, dataset: str) -> ContextRun | None:
    """Return the last run that did something and ended well. Operations do not count, nor do runs with nothing to do:
    the context would have to change with each."""
    for number, entry in enumerate(state.ledger.entries_of(dataset)):
        if number >= LOOKED_AT:
            return None
        if entry.outcome in ("done", "unchanged"):
            receipt = state.ledger.receipt(entry.run_id)
            if receipt is not None and not receipt.job_type.startswith("operation."):
                return _run(public_run(state, objects, entry, parts=False))
    return None


def _chain(told: Explanation) -> tuple[ContextLink, ...]:
    return tuple(
        ContextLink(
            stage=link.stage,
            id=link.id,
            name=link.name,
            digest=link.digest,
            level=link.level,  # type: ignore[arg-type]  # the chain spells a level as text
            reads=link.reads,
            run_id=link.run_id,
            updater=link.updater,
            at=link.at,
        )
        for link in told.chain
    )


def governance_of(made: PublicRun) -> ContextGovernance:
    """Return the labels that the outputs of a run are shown under."""
    labels = made.labels
    if labels is None:
        return ContextGovernance(level="public")
    return ContextGovernance(
        level=labels.level,
        care=labels.care,
        access=labels.access,
        resolution=labels.resolution,
        expires=labels.expires,
        owners=labels.authorities,
        custodians=labels.custodians,
        labels=tuple(
            CommunityLabel(code=code, name=COMMUNITY[code][0]) for code in labels.community_labels if code in COMMUNITY
        ),
    )


def telemetry_of(state: State, made: PublicRun) -> ContextTelemetry | None:
    """Return what the run took; None for data with labels, whose size it could show."""
    measured = state.ledger.telemetry(made.run_id) if made.labels is None else None
    if measured is None:
        return None
    return ContextTelemetry(
        duration_ms=measured.duration_ms,
        energy_kwh=measured.energy_kwh,
        co2e_g=measured.co2e_g,
        energy_method=measured.energy_method,
    )
