"""The rules about protected data in force for a dataset, and how protected its sources and versions are by them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kfm.app.session.protection_files import custodians_of, is_needed, protection_of
from kfm.app.session.source_access import SourceOpener
from kfm.app.session.source_requests import DatasetSettings, dataset_settings
from kfm.engine.world import World
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.labels import joined
from kfm.model.operation_target import REF

if TYPE_CHECKING:
    from collections.abc import Callable

    from kfm.app.session.retry_guards import SourceGuards
    from kfm.app.session.session import Session
    from kfm.config import Config
    from kfm.engine.cluster.cluster_crew import ClusterCrew
    from kfm.engine.protected.protection import Protection
    from kfm.engine.protected.source_classification import SourceClassifier
    from kfm.model.labels import Labels
    from kfm.model.ports import Source
    from kfm.model.records import Classification, DatasetVersion, SourceRef


def protection_for(session: Session, dataset: str) -> Protection | None:
    """Return the rules about protected data as the files say now; None if nothing is protected. BadInput if a file has
    a mistake."""
    if not is_needed(session.resolved, session.state):
        return None
    from kfm.app.authority.keyring import check_protected
    from kfm.app.authority.labels_in_force import labels_in_force
    from kfm.app.authority.mask_names import unsigned_masks

    labels, unsigned = labels_in_force(session), unsigned_masks(session, dataset)
    return protection_of(session.resolved, dataset, labels, partial(check_protected, session), unsigned)


def readable_protection(session: Session, dataset: str) -> tuple[Protection | None, BadInput | None]:
    """Return the rules about protected data, or the reason why they cannot be read. Without them a run may only take
    away or close."""
    try:
        return protection_for(session, dataset), None
    except BadInput as problem:
        return None, problem


def declared_settings(session: Session, dataset: str) -> DatasetSettings:
    """Return the settings of a dataset as a run needs them. A session reads them once, and again after a fork."""
    known = session.declared.get(dataset)
    if known is None or not known.holds(session.config):
        known = dataset_settings(session.resolved, session.config, dataset, dry=session.mode == "dry")
        session.declared[dataset] = known
    return known


def open_source(session: Session, dataset: str, uri: str, config: Config | None = None) -> Source:
    """Return the reader of this address, with the secrets, retries and decompression that kfm.yml, or the given
    configuration, sets for it."""
    declared = (config or session.config).datasets.get(dataset)
    protection = partial(protection_for, session)
    dry, guards = session.mode == "dry", partial(_guards, session)
    reach = SourceOpener(session.resolved, session.clock, session.log, protection, dry=dry, guards=guards)
    return reach.open(dataset, declared, uri)


def _guards(session: Session, dataset: str, uri: str) -> SourceGuards | None:
    from kfm.app.session.retry_guards import source_guards  # most installations set no retries

    return source_guards(session, dataset, uri)


def world_of(session: Session, dataset: str, recorded: DatasetSettings | None = None) -> World:
    """Return the stores, the clock, the log and the sources for a run of this dataset, by these settings or by those of
    kfm.yml."""
    known = recorded or declared_settings(session, dataset)
    return World(
        state=session.state,
        objects=session.objects,
        clock=session.clock,
        log=session.log,
        open_source=partial(open_source, session, dataset, config=known.config if recorded else None),
        settings=known.settings,
        sources=known.sources,
        datasets=known.datasets,
        request=known.request,
        progress=session.progress,
        crew=_crew(session),
    )


def _crew(session: Session) -> Callable[..., ClusterCrew | None] | None:
    """Return what makes the crew of a run on the configured cluster; None if there is none. The branch of a preview
    has code that the workers do not have."""
    address = session.config.execute.cluster
    if not address or session.resolved.is_proposal:
        return None
    from kfm.app.session.dask_pool import DaskPool
    from kfm.engine.cluster.cluster_crew import cluster_crew

    return partial(cluster_crew, partial(DaskPool, address))


def source_classifier(session: Session, dataset: str, labels: Labels | None = None) -> SourceClassifier | None:
    """Return the classification of a dataset's sources, by the labels in force or by these; None if nothing here is
    protected, or if the labels cannot be read. If only a masking policy cannot be read, the labels alone decide: what
    they close is closed."""
    protection, unreadable = readable_protection(session, dataset)
    if unreadable is not None:
        protection = _labels_alone(session)
    if protection is None:
        return None
    rules = protection if labels is None else msgspec.structs.replace(protection, labels=labels)
    return classifier_by(session, dataset, rules)


def _labels_alone(session: Session) -> Protection | None:
    """Return the rules without masking policies; None if the labels cannot be read either."""
    from kfm.app.authority.labels_in_force import labels_in_force

    try:
        return msgspec.structs.replace(custodians_of(session.resolved), labels=labels_in_force(session))
    except BadInput:
        return None


def classifier_by(session: Session, dataset: str, protection: Protection) -> SourceClassifier:
    """Return an object that classifies the sources of a dataset by these rules."""
    from kfm.engine.protected.source_classification import SourceClassifier

    declared = declared_settings(session, dataset).metadata.get("sensitivity")
    return SourceClassifier(
        world_of(session, dataset), protection, dataset, declared, partial(classification_now, session)
    )


def classification_now(
    session: Session, dataset: str, version: str, above: tuple[str, ...] = ()
) -> Classification | None:
    """Return the present classification of a version: that of everything it was made of, including versions of other
    datasets. None if nothing protects it. `above` are the versions being followed, so that a cycle ends."""
    made = session.state.ledger.version(dataset, version)
    way = source_classifier(session, dataset) if made is not None and f"{dataset}@{version}" not in above else None
    if made is None or way is None:
        return None
    from kfm.engine.protected.source_classification import aged

    found = [] if made.standing is None else [aged(made.standing, way.today)]
    found += way.labelled(f"{REF}processed/{dataset}", declared_settings(session, dataset).request.base_dir, "")
    found += _masked_finer(session, made)
    for ref in made_from(session, dataset, made.validated_by or made.run_id):
        if ref.uri.startswith(REF):
            other = ref.uri.removeprefix(REF).partition("/")[2]
            its = classification_now(session, other, ref.content_hash, (*above, f"{dataset}@{version}"))
        else:
            its = way.classification_now(ref)
        found += [] if its is None else [its]
    return joined(found) if found else None


def declared_now(session: Session, dataset: str, version: str, above: tuple[str, ...] = ()) -> Classification | None:
    """Return the strictest classification that kfm.yml alone declares today for a dataset and for every dataset that
    this version was made of; None if it declares nothing but public data. `above` are the versions being followed."""
    from kfm.model.labels import Classification

    declared = session.config.datasets.get(dataset)
    own = declared.sensitivity if declared is not None else None
    found = [] if own in (None, "public") else [Classification(level=own, rules=("dataset.sensitivity",))]
    made = session.state.ledger.version(dataset, version) if f"{dataset}@{version}" not in above else None
    for ref in made_from(session, dataset, made.validated_by or made.run_id) if made is not None else ():
        if ref.uri.startswith(REF):
            other = ref.uri.removeprefix(REF).partition("/")[2]
            its = declared_now(session, other, ref.content_hash, (*above, f"{dataset}@{version}"))
            found += [] if its is None else [its]
    return joined(found) if found else None


def _masked_finer(session: Session, made: DatasetVersion) -> list[Classification]:
    """Return a restriction if a masking policy of the dataset shows less now than when the version was made."""
    declared = session.resolved.config.datasets.get(made.dataset)
    masked = [name for name, source in (declared.sources if declared is not None else {}).items() if source.mask]
    if not masked:
        return []
    from kfm.app.authority.mask_policies import shows_less
    from kfm.model.labels import Classification

    last = session.state.ledger.receipt(made.validated_by or made.run_id)  # the last run that made it
    since = last.finished_at if last is not None else made.created_at
    if any(shows_less(session, made.dataset, name, since) for name in masked):
        return [Classification(level="restricted", rules=("mask.coarser",))]
    return []


def made_from(session: Session, dataset: str, run_id: str) -> list[SourceRef]:
    """Return the sources a version was made of; for one made in partitions, those of each partition."""
    runs, state_refs = session.state.runs, session.state.refs
    makers = {run_id: runs.get(run_id)}
    if (last := makers[run_id]) is not None and last.trigger.partition:
        for ref, _ in list(state_refs.all(f"{refs.RAW}{dataset}/")):
            for move in state_refs.history(ref, reverse=True, limit=1):
                makers[move.run_id] = runs.get(move.run_id)
    return [ref for run in makers.values() if run is not None for ref in run.inputs]
