"""Versions of other datasets as inputs: pinned by their digests, and all refs are read at the same moment.

The content hash of such an input is the digest of the version. If the version has one key, or if the source names one,
perform() reads the bytes of that key like those of any source.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec

from kfm.engine.run_context import RunContext
from kfm.engine.stage_results import Wanted
from kfm.errors import Corrupt, Denied, Refused
from kfm.model import manifests
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.labels import LEVELS, PUBLISHABLE
from kfm.model.operation_target import REF
from kfm.model.ports import Objects
from kfm.model.records import DataContract, DatasetVersion, ManifestEntry, SourceRef

ZONES = ("processed", "published")


class Versions:
    """The versions of other datasets that one run reads."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._at: dict[str, str] | None = None

    def pin(
        self, name: str, wanted: Wanted, contract: DataContract | None, partition: tuple[str, ...], complete: bool
    ) -> SourceRef:
        version = self._version(name, wanted)
        entry = self._entry(name, wanted, version, contract)
        return SourceRef(
            uri=REF + wanted.ref,
            content_hash=version.digest,
            size=version.size if entry is None else entry.size,
            name=name,
            media_type="" if entry is None else entry.media_type,
            # The key is part of what was read. With a contract, the hash of the contract includes it.
            partition=partition if contract is not None else (*wanted.key, *partition),
            complete=complete,
            contract_hash=self._held(version) if contract is None else _against(contract, wanted.key),
            accepted_hash="" if entry is None else entry.digest,
        )

    def _version(self, name: str, wanted: Wanted) -> DatasetVersion:
        state = self._context.world.state
        if self._at is None:  # all at once, so the versions existed together
            with state.reading():
                self._at = {each.ref: state.refs.at(each.ref) for each, _ in self._context.world.datasets.values()}
        at = wanted.version or self._at[wanted.ref]
        if not at:
            raise self._not_there(name, wanted)
        found = state.ledger.version(wanted.dataset, at)
        if found is None and wanted.version:
            raise Refused(
                f"source {name}: {wanted.dataset} never had the version {at[:19]}",
                hint=f"see `kfm refs history {wanted.ref}`, and correct `version` in kfm.yml",
            )
        if found is None:
            raise Corrupt(f"the run that made {at} is not recorded", hint="see `kfm doctor --deep`")
        return found

    def _not_there(self, name: str, wanted: Wanted) -> Refused:
        for last in self._context.world.state.refs.history(wanted.ref, reverse=True, limit=1):
            return Refused(
                f"source {name}: {wanted.ref} was withdrawn {last.ts}: there is no version of it to read",
                hint=f"see `kfm refs history {wanted.ref}`; what was made from it stays until its next run",
            )
        do = f"kfm run {wanted.dataset}" if wanted.zone == "processed" else f"kfm publish {wanted.dataset} --reason …"
        return Refused(f"source {name}: {wanted.dataset} has no {wanted.zone} version yet", hint=f"first: `{do}`")

    def _entry(
        self, name: str, wanted: Wanted, version: DatasetVersion, contract: DataContract | None
    ) -> ManifestEntry | None:
        """Return the one entry that is read; None if the updater's code reads all entries."""
        objects = _readable(self._context)
        if wanted.key:
            found = manifests.find(objects, version.digest, wanted.key)
            if found is None:
                raise Refused(
                    f"source {name}: version {version.digest[:19]} of {wanted.dataset} does not have the key it reads",
                    hint=f"`kfm cat {wanted.ref}` lists its keys; correct `key` in kfm.yml",
                )
            return found
        first = list(islice(manifests.entries(objects, version.digest), 2))
        if len(first) == 1:
            return first[0]
        updater = self._context.updater
        if contract is not None or (updater.declared and not updater.reads_keys):
            raise Refused(
                f"source {name}: {wanted.dataset} has {version.entries} keys, and one of them is to be read",
                hint=f"name it: `key: […]`; `kfm cat {wanted.ref}` lists them",
            )
        return None

    def _held(self, version: DatasetVersion) -> str:
        """Return the hash of the contracts that the version's own sources passed; empty unless every source has one. A
        reader then needs no contract of its own."""
        said = version.validation
        whole = 0 < said.get("sources", 0) == said.get("contracts", 0)
        if not whole or any(name.startswith("unheld/") for name in said):
            return ""
        run = self._context.world.state.runs.get(version.validated_by or version.run_id)
        return digest(canonical([ref.contract_hash for ref in run.inputs])) if run is not None else ""


def _against(contract: DataContract, key: tuple[str, ...]) -> str:
    return digest(canonical([contract, key] if key else contract))


def _readable(context: RunContext) -> Objects:
    if context.guards.protection is None:
        return context.world.objects
    from kfm.engine.protected.encrypted_objects import DecryptingObjects

    return DecryptingObjects(context.world.objects, context.guards.protection.with_id)


def version_of(ref: SourceRef) -> str:
    """Return the dataset whose version this input is; empty if it is not a version."""
    zone, _, dataset = ref.uri.removeprefix(REF).partition("/")
    return dataset if ref.uri.startswith(REF) and zone in ZONES else ""


def inherit(context: RunContext, refs: Iterable[SourceRef]) -> None:
    """Set the sensitivity of the run to the strictest of its own and of the versions that it reads. Denied if one of
    those is closed."""
    said = context.work.metadata.get("sensitivity")
    for ref in refs:
        dataset = version_of(ref)
        version = (
            context.world.state.ledger.version(dataset, ref.content_hash) if dataset and ref.content_hash else None
        )
        then = version.metadata.get("sensitivity") if version is not None else None
        if then is None or then == "public":
            continue
        if then == "closed" or then not in LEVELS:
            raise Denied(
                f"{context.dataset} reads {dataset}, which is closed, and closed data may not be used",
                hint="ask who closed it",
                rule="dataset.sensitivity",
            )
        if said is None and then in PUBLISHABLE:
            continue  # an undeclared sensitivity is already stricter
        if said is None or LEVELS.index(then) > LEVELS.index(said):
            said = then
    if said != context.work.metadata.get("sensitivity"):
        context.work = msgspec.structs.replace(context.work, metadata={**context.work.metadata, "sensitivity": said})
