"""Builds the `PublicRun` of a run from the state. No other module builds one.

Everything that is not public is withheld here, and thus in everything built from the record. Data is public only if its
settings declare it public and no label closes it; a masked dataset is shown without its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.labels import joined
from kfm.model.lineage_edges import Zone
from kfm.model.manifests import Change
from kfm.model.names import is_digest
from kfm.model.operation_target import REF
from kfm.model.public_run import (
    WITHHELD_SOURCE,
    PublicArtifact,
    PublicInput,
    PublicLabels,
    PublicMember,
    PublicPart,
    PublicRun,
    artifact_id,
)
from kfm.model.records import (
    Classification,
    DatasetVersion,
    Item,
    LedgerEntry,
    Level,
    ManifestEntry,
    Receipt,
    RefMove,
    Run,
    SourceRef,
)

_UNSAID = Classification(level="restricted", rules=("dataset.sensitivity",))  # the settings do not declare it public
_CLOSED = Classification(level="restricted", rules=("source.protected",))  # an input became protected later
_PUBLIC = Classification(level="public")


ZoneChange = tuple[str, Zone, Change, str]  # of a dataset, and the version in which the entry got its content


class RunFacts(msgspec.Struct, frozen=True):
    """What the state knows of a run besides its receipt."""

    run: Run | None = None  # its own row
    maker: Run | None = None  # for a run that did no work: the run that made the current version
    version: DatasetVersion | None = None  # the version it made or moved to; if it moved nothing, the current one
    before: DatasetVersion | None = None  # the version before it
    sealed: frozenset[str] = frozenset()  # checksums of inputs with encrypted bytes
    closed: frozenset[str] = frozenset()  # ids of inputs that are protected now, even if they were not then


def standing_of(entry: LedgerEntry, receipt: Receipt, known: RunFacts) -> Classification:
    """Return the classification of everything the run was about. Data that nothing declares public is restricted."""
    said = [] if known.version is None or known.version.standing is None else [known.version.standing]
    said += [source.standing for source in _sources(known) if source.standing is not None]
    if isinstance(entry.governed, msgspec.UnsetType) or not entry.governed.withheld:  # an entry about public data
        declared = _declared(receipt, known)
        if declared is not None and declared != "public" and not any(one.level != "public" for one in said):
            return _UNSAID
        if known.closed and not any(one.level != "public" for one in said):
            return _CLOSED
        return joined(said) if said else _PUBLIC
    if any(one.level != "public" for one in said):
        return joined(said)
    told = Classification(level="restricted", care=entry.governed.care, rules=tuple(entry.governed.findings))
    return joined([*said, told])


def _sources(known: RunFacts) -> list[SourceRef]:
    run = known.run or known.maker
    return run.inputs if run is not None else []


def _declared(receipt: Receipt, known: RunFacts) -> str | None:
    """Return the sensitivity that the dataset had when the run began; None for an operation that involves only
    names."""
    for record in (known.run, known.version, known.maker):
        if record is not None and record.metadata:
            return str(record.metadata.get("sensitivity", ""))
    return None if receipt.job_type.startswith("operation.") else ""


def may_be_named(version: DatasetVersion | None) -> bool:
    """Return whether the entries of a version may be named: those of public and of masked data may."""
    if version is None:
        return False
    if version.standing is not None and version.standing.level != "public":
        return version.standing.level == "generalised"
    return version.metadata.get("sensitivity") == "public"


def public_run(
    entry: LedgerEntry,
    receipt: Receipt,
    known: RunFacts,
    changes: Iterable[Change] = (),
    path_of: Callable[[ManifestEntry], str] = lambda _entry: "",
    restored: Iterable[ZoneChange] = (),
    members: Iterable[ManifestEntry] = (),
) -> PublicRun:
    """Return the public record of a run. `changes` are those between the version before and the one it made; `restored`
    are those of the zones whose refs an operation moved; `members` are the entries of the version. None is read if keys
    are protected."""
    standing = standing_of(entry, receipt, known)
    public = standing.level == "public"
    shown = refs.SHOWN if public else refs.VERSIONS  # nobody may guess what a hotfix of protected data says
    moves = tuple(move for move in receipt.moves if move.ref.startswith(shown))
    moved = next((move for move in moves if move.ref.startswith(refs.VERSIONS)), None)
    made = next((item.checksum for item in receipt.outputs if item.kind == "dataset"), "")
    named = standing.publishable() and may_be_named(known.version)
    artifacts, removed = _made(receipt.dataset, changes if named and made else (), path_of)
    return PublicRun(
        run_id=receipt.run_id,
        wal_id=next(iter(entry.wal_ids), ""),
        index=entry.index,
        op=entry.op_type,
        job_type=receipt.job_type,
        dataset=receipt.dataset,
        partition=receipt.partition if public else "",
        updater_id=receipt.updater_id,
        updater_version=receipt.updater_version,
        trigger=receipt.trigger,
        status=receipt.status,
        outcome=receipt.outcome,
        dry_run=receipt.dry_run,
        started_at=receipt.started_at,
        finished_at=receipt.finished_at,
        correlation_id=receipt.correlation_id if public else "",
        # Addresses, step ids and keys are hashed into these, so a guess could be confirmed by comparing.
        run_key=receipt.run_key if public else "",
        plan_hash=receipt.plan_hash if standing.publishable() else "",
        input_hash=receipt.input_hash if public else "",
        code_hash=receipt.code_hash,
        config_hash=receipt.config_hash if public else "",
        receipt_digest=entry.receipt_digest,
        inputs=tuple(_input(receipt, at, standing, known) for at, _ in enumerate(receipt.inputs)),
        artifacts=artifacts,
        removed=removed,
        version=made or (moved.after if moved is not None else ""),
        before=moved.before if moved is not None else made,
        ref=moved.ref if moved is not None else "",
        moves=moves,
        rows=receipt.rows if public else None,
        held_rows=receipt.held_rows if public else None,
        labels=None if public else _labels(standing),
        metadata=_metadata(moved, public, known),
        restored=_restored(restored) if named else (),
        kept=_kept(receipt.dataset, members, {each.id for each in artifacts}, path_of) if named else (),
        operator=entry.operator if public and _declared(receipt, known) == "public" else "",
    )


def _made(
    dataset: str, changes: Iterable[Change], path_of: Callable[[ManifestEntry], str]
) -> tuple[tuple[PublicArtifact, ...], tuple[str, ...]]:
    artifacts, removed = [], []
    for change in changes:
        entry = change.new
        if entry is None:
            removed.append(artifact_id(dataset, change.key))
            continue
        artifacts.append(
            PublicArtifact(
                id=artifact_id(dataset, entry.key),
                key=entry.key,
                digest=entry.digest,
                size=entry.size,
                media_type=entry.media_type,
                path=path_of(entry),
                bbox=entry.bbox,
                datetime=entry.datetime,
                stac_id=entry.stac_id,
            )
        )
    return tuple(artifacts), tuple(removed)


def _restored(parts: Iterable[ZoneChange]) -> tuple[PublicPart, ...]:
    found = []
    for dataset, zone, change, version in parts:
        id, new = artifact_id(dataset, change.key), change.new
        digest, stac_id = (new.digest, new.stac_id) if new is not None else ("", "")
        found.append(PublicPart(id=id, digest=digest, version=version, zone=zone, stac_id=stac_id))
    return tuple(found)


def _kept(
    dataset: str, members: Iterable[ManifestEntry], own: set[str], path_of: Callable[[ManifestEntry], str]
) -> tuple[PublicMember, ...]:
    found = ((artifact_id(dataset, entry.key), entry) for entry in members)
    return tuple(PublicMember(id=id, digest=entry.digest, path=path_of(entry)) for id, entry in found if id not in own)


def _input(receipt: Receipt, at: int, standing: Classification, known: RunFacts) -> PublicInput:
    item = receipt.inputs[at]
    source = _source(item, at, known)
    own = source.standing if source is not None else None
    level: Level = own.level if own is not None else "public" if standing.level == "public" else standing.level
    if item.kind == "dataset" or item.id.startswith(
        (REF + refs.PROCESSED, REF + refs.PUBLISHED, REF + refs.SWITCH, REF + refs.AMBER)
    ):
        # A name from the configuration. Its digest is that of the version, which is encrypted if necessary.
        return PublicInput(kind=item.kind, id=item.id, checksum=item.checksum, level=level)
    sealed = item.checksum in known.sealed or bool(source is not None and source.sealed_with)
    if not sealed and item.id not in known.closed and _is_public(source, own, standing, known):
        return PublicInput(
            kind=item.kind,
            id=item.id,
            checksum=item.checksum,
            name=source.name if source is not None else "",
            media_type=source.media_type if source is not None else "",
            size=source.size if source is not None and item.kind != "ref" else None,
        )
    checksum = item.checksum
    if not sealed:  # its digest is of the clear bytes, so a guess could be confirmed by comparing
        checksum = digest(canonical(["withheld", receipt.run_id, at]))
    if not is_digest(checksum):
        checksum = digest(checksum.encode())
    kept: Level = "restricted" if level == "public" else level
    return PublicInput(kind="uri", id=WITHHELD_SOURCE + checksum.removeprefix("sha256:"), checksum=checksum, level=kept)


def _is_public(source: SourceRef | None, own: Classification | None, standing: Classification, known: RunFacts) -> bool:
    """Return whether one input is public. Among protected inputs it is named only if the settings declare it public."""
    if own is not None:
        return own.level == "public"
    if standing.level == "public":
        return True
    run = known.run or known.maker
    return source is not None and run is not None and run.metadata.get("sensitivity") == "public"


def _source(item: Item, at: int, known: RunFacts) -> SourceRef | None:
    sources = _sources(known)
    inputs = [sources[at]] if at < len(sources) else []
    for source in [*inputs, *sources]:
        if (source.uri, source.content_hash) == (item.id, item.checksum):
            return source
    return None


def _labels(standing: Classification) -> PublicLabels:
    return PublicLabels(
        level=standing.level,
        care=standing.care,
        access=standing.access,
        resolution=standing.resolution,
        expires=standing.expires,
        custodians=standing.custodians,
        authorities=standing.authorities,
        community_labels=standing.community_labels,
        rules=standing.rules,
    )


def _metadata(moved: RefMove | None, public: bool, known: RunFacts) -> dict[str, object]:
    """Return the declared metadata of a dataset as far as it may be public. For data that is not public it is shown
    only after the leak scan has read it."""
    record = known.version or known.run
    published = moved is not None and moved.ref.startswith(refs.PUBLISHED)
    return (
        dict(record.metadata) if record is not None and (public or (published and may_be_named(known.version))) else {}
    )
