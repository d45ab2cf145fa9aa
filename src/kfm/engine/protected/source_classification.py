"""Classifies each source, and chooses the key that its bytes are encrypted with.

The labels of the dataset, of the address and of the exact bytes are combined with what the state remembers about the
address and the bytes; the strictest wins. Bytes that are known as protected never reach the store in clear, whatever a
dataset declares. While any such bytes are known, the bytes of an unlabelled source wait, encrypted with a key that is
kept nowhere, until their digest and their content are compared with the protected ones. So an altered copy is refused
before a byte of it is stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeGuard

import msgspec

from kfm.clock import rfc3339
from kfm.crypto.custodian_key import CustodianKey
from kfm.engine.protected.encrypted_objects import (
    BLOCK,
    DecryptingObjects,
    EncryptedObjects,
    Encryption,
    ScreenedObjects,
    sealed_with,
)
from kfm.engine.protected.protection import Protection
from kfm.engine.run_context import RunContext
from kfm.engine.world import World
from kfm.errors import Denied
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.labels import (
    LEVELS,
    UNLABELLED,
    Label,
    Labels,
    Level,
    joined,
    label_classification,
    source_classification,
)
from kfm.model.operation_target import REF
from kfm.model.ports import Objects
from kfm.model.records import Checkpoint, Classification, DataContract, FetchRequest, SourceRef
from kfm.model.source_identity import is_part_of, source_identity, spellings

PUBLIC = Classification(level="public")


class SourceClassifier:
    """Classifies the sources of one run."""

    def __init__(
        self,
        world: World,
        protection: Protection,
        dataset: str,
        declared: Level | None,
        classification_of: Callable[[str, str], Classification | None] | None = None,
    ) -> None:
        self._world = world
        self.protection = protection
        self._dataset = dataset
        self._declared = declared  # the sensitivity of the dataset in kfm.yml
        self._classification_of = classification_of  # of another dataset's version, today
        self._state = world.state
        self._objects = world.objects
        self.today = rfc3339(world.clock.now_ms())[:10]
        self._plain: dict[str, str] = {}  # the digest of the bytes in clear, by stored digest; never stored
        self._keys = self._state.protected.keys_of_bytes()
        self._screens = bool(self._keys) or any(label.of.bytes_ for label in protection.labels.labels)

    def objects_for(self, request: FetchRequest) -> Objects:
        """Return the store for the bytes of a source. Denied, before anything is fetched, if the source is closed or
        its key is missing."""
        standing = self.usable_classification(request.uri, request.base_dir, "", request.name)
        if _is_protected(standing):
            return self._encrypted_store(standing)
        if not self._screens:
            return self._objects
        return ScreenedObjects(
            self._objects,
            self.protection.with_id,
            lambda plain, pieces: self._by_bytes(request, plain, pieces),
            dry=self._world.settings.dry_run,
        )

    def guarded(self, request: FetchRequest) -> FetchRequest:
        """Return the request of an unprotected source with the list of all protected addresses. No redirect may lead to
        one of them, because its bytes would be stored unencrypted."""
        if "://" not in request.uri or _is_protected(
            self.usable_classification(request.uri, request.base_dir, "", request.name)
        ):
            return request
        labels = self.protection.labels.labels
        closed = [one.of.source for one in labels if _is_protected(label_classification(one, self.today))]
        named = {one for one in closed if "://" in one}
        known = {one for one in self._state.protected.sources() if "://" in one}
        return msgspec.structs.replace(request, protected=tuple(sorted(named | known)))

    def checkpoint(self, request: FetchRequest, known: Checkpoint | None) -> Checkpoint | None:
        """Return the checkpoint of a source; None if its bytes must be fetched again, to be compared or to be stored in
        another form."""
        if known is None:
            return None
        standing = self.usable_classification(request.uri, request.base_dir, "", request.name)
        wanted = self.key_for(standing).key_id if _is_protected(standing) else ""
        if sealed_with(self._objects, known.content_hash) != wanted:
            return None
        if not wanted and self._screens:
            standing = self.usable_classification(request.uri, request.base_dir, known.content_hash, request.name)
        return None if not wanted and _is_protected(standing) else known

    def classified(self, request: FetchRequest, ref: SourceRef, contract: DataContract | None) -> SourceRef:
        """Return a fetched source with its classification, and add what the state must remember to the facts."""
        plain = self.plain_digest(ref.content_hash)
        standing = self.usable_classification(request.uri, request.base_dir, plain, request.name)
        if not _is_protected(standing):
            return msgspec.structs.replace(ref, standing=standing)
        key = self.key_for(standing)
        facts = self.protection.facts
        facts.standings[f"source/{address(request.uri, request.base_dir)}"] = standing
        facts.standings[_of_bytes(key, plain)] = standing
        facts.standings[f"sealed/{ref.content_hash}"] = standing
        policy = self.protection.policies.get(ref.name)
        records = [label for label in self.protection.labels.labels if label.of.record] if policy else []
        said = [contract, policy, records, standing.level, standing.resolution, key.key_id]
        return msgspec.structs.replace(
            ref,
            standing=standing,
            sealed_with=key.key_id,
            etag="" if "://" in ref.uri else ref.etag,  # it may be a digest of the bytes
            contract_hash=digest(canonical(said)),
        )

    def plain_digest(self, stored: str) -> str:
        """Return the digest of a source's unencrypted bytes. A source that was not fetched again is decrypted from the
        store."""
        if stored not in self._plain and sealed_with(self._objects, stored):
            known = hashlib.sha256()
            with DecryptingObjects(self._objects, self.protection.with_id).open(stored) as file:
                while block := file.read(BLOCK):
                    known.update(block)
            self._plain[stored] = "sha256:" + known.hexdigest()
        return self._plain.get(stored, stored)

    def kept(self, known: Checkpoint, ref: SourceRef) -> Checkpoint:
        """Return the checkpoint without its ETag if the source is protected, because an ETag may be a digest of the
        bytes."""
        return msgspec.structs.replace(known, etag="") if ref.sealed_with and "://" in ref.uri else known

    def inherited(self, ref: SourceRef) -> SourceRef:
        """Return an unpinned ref with its classification: that of its version, or restricted if the object is
        encrypted. Denied if it is closed."""
        standing = self.version_classification(ref)
        if standing is not None:
            if standing.level == "closed":
                raise Denied(
                    f"a dataset that {self._dataset} reads is closed: " + ", ".join(standing.rules),
                    hint="ask who closed it; what was published from it is withdrawn",
                    rule=standing.rules[0] if standing.rules else "",
                )
            self._check_made(ref, standing)
            sealed_by = sealed_with(self._objects, ref.content_hash)
            return msgspec.structs.replace(ref, standing=standing, sealed_with=sealed_by)
        if key_id := sealed_with(self._objects, ref.content_hash):
            names = tuple(name for name in self.protection.custodians if self.protection.is_key_of(name, key_id))
            sealed = Classification(level="restricted", custodians=names, rules=("bytes.sealed",))
            return msgspec.structs.replace(ref, standing=sealed, sealed_with=key_id)
        return ref

    def _check_made(self, ref: SourceRef, now: Classification) -> None:
        """Denied if the version is more protected today than when it was stored in clear, masked or encrypted."""
        dataset = ref.uri.removeprefix(REF).partition("/")[2]
        version = self._state.ledger.version(dataset, ref.content_hash)
        if version is not None and is_more_closed(now, version.standing or PUBLIC):
            raise Denied(
                f"{dataset}, which {self._dataset} reads, is more protected than when it was made: "
                + ", ".join(now.rules),
                hint=f"run it first under the labels in force: `kfm run {dataset}`",
                rule="standing.changed",
            )

    def version_classification(self, ref: SourceRef) -> Classification | None:
        """Return the classification of another dataset's version: the stricter of today's and of that when it was
        made."""
        if not ref.uri.startswith(REF):
            return None
        dataset = ref.uri.removeprefix(REF).partition("/")[2]
        version = self._state.ledger.version(dataset, ref.content_hash)
        now = self._classification_of(dataset, ref.content_hash) if self._classification_of is not None else None
        said = [each for each in (version.standing if version is not None else None, now) if each is not None]
        return joined(said) if said else None

    # -- classification

    def usable_classification(self, uri: str, base: str, plain: str, name: str = "") -> Classification | None:
        """Return the classification of a source; None if there is none. Denied if it is closed."""
        standing = self.classification(uri, base, plain, name)
        if standing is not None and standing.level == "closed":
            raise Denied(
                f"a source of {self._dataset} is closed: " + ", ".join(standing.rules),
                hint="ask who closed it; what was published from it is withdrawn",
                rule=standing.rules[0] if standing.rules else "",
            )
        return standing

    def classification(self, uri: str, base: str, plain: str, name: str = "") -> Classification | None:
        """Return the classification of a source, closed or not; None if there is none."""
        found = self.labelled(uri, base, plain, name) + self._remembered(uri, base, plain)
        return joined(found) if found else None

    def classification_now(self, ref: SourceRef) -> Classification | None:
        """Return today's classification of a source that was read before. Labels on exact bytes count only if the key
        that decrypts the stored bytes is available."""
        base = self._world.request.base_dir
        if not ref.sealed_with:
            return self.classification(ref.uri, base, ref.content_hash, ref.name)
        key = self.protection.with_id(ref.sealed_with)
        by_digest = key is not None and any(label.of.bytes_ for label in self.protection.labels.labels)
        plain = self.plain_digest(ref.content_hash) if by_digest else ""
        kept = self._state.protected.standing(f"sealed/{ref.content_hash}")
        found = [self.classification(ref.uri, base, plain, ref.name), None if kept is None else aged(kept, self.today)]
        said = [standing for standing in found if standing is not None]
        return joined(said) if said else None

    def labelled(self, uri: str, base: str, plain: str, name: str = "") -> list[Classification]:
        """Return the classification by labels and settings alone; empty if there is none."""
        declared, dataset = self._declared, self._dataset
        labels = [meant(label, uri, base, name) for label in self.protection.labels.labels]
        own = [label for label in labels if _is_on(label, dataset, uri, plain)]
        if not own and declared is None:
            return []
        said = Labels(version=1, labels=tuple(own))
        return [
            source_classification(
                said, dataset=dataset, source=uri, digest=plain or "-", today=self.today, declared=declared
            )
        ]

    def is_under(self, labels: Iterable[Label], uri: str, plain: str, name: str = "") -> bool:
        """Return whether one of these labels is on the source."""
        base = self._world.request.base_dir
        return any(is_on(label, self._dataset, uri, base, plain, name) for label in labels)

    def names_of_bytes(self, plain: str) -> list[str]:
        """Return the names, one for each key, under which the state may remember these bytes as protected."""
        return [_of_bytes(self._key_with(key_id), plain) for key_id in self._keys]

    def _remembered(self, uri: str, base: str, plain: str) -> list[Classification]:
        protected = self._state.protected
        keys = [f"source/{one}" for one in spellings(uri, base)]
        if plain:
            keys += self.names_of_bytes(plain)
        known = [(key, standing) for key in keys if (standing := protected.standing(key)) is not None]
        return [aged(standing, self.today) for _, standing in known]

    def _key_with(self, key_id: str) -> CustodianKey:
        key = self.protection.with_id(key_id)
        if key is None:
            raise Denied(
                f"bytes are known as protected under key {key_id}, which is missing: they cannot be compared",
                hint="name the key under `custodians:`, or run public data in an installation of its own",
                rule="key.missing",
            )
        return key

    # -- keys

    def key_for(self, standing: Classification) -> CustodianKey:
        """Return the key of the custodian that a classification names. With several custodians, all keys must be
        available; the key of the first by name encrypts."""
        if not standing.custodians:
            raise Denied(
                f"a source of {self._dataset} is {standing.level} and has no custodian: " + ", ".join(standing.rules),
                hint="label it with the custodian whose key encrypts it",
                rule="label.custodian-missing",
            )
        keys = [self.protection.key_of(name) for name in standing.custodians]
        return keys[0]

    def encryption_for(self, standing: Classification) -> Encryption:
        return Encryption(self.key_for(standing), self.protection.with_id)

    def _encrypted_store(self, standing: Classification) -> Objects:
        return EncryptedObjects(self._objects, self.encryption_for(standing), self._plain.__setitem__)

    def _by_bytes(self, request: FetchRequest, plain: str, pieces: Callable[[], Iterator[bytes]]) -> Objects:
        standing = self.usable_classification(request.uri, request.base_dir, plain, request.name)
        if _is_protected(standing):
            return self._encrypted_store(standing)
        from kfm.engine.protected.leak_check import check_fetched

        check_fetched(self._state, self.protection, self._dataset, pieces())
        return self._objects


def classifier_of(context: RunContext, protection: Protection) -> SourceClassifier:
    declared = context.work.metadata.get("sensitivity")
    return SourceClassifier(context.world, protection, context.dataset, declared, context.guards.classification_of)


def check_resumed(context: RunContext, classifier: SourceClassifier, refs: Iterable[SourceRef]) -> None:
    """Denied if a source of a resumed run is more protected today than when the run read it."""
    refs = list(refs)
    for ref in refs:
        now = classifier.version_classification(ref) if ref.uri.startswith(REF) else classifier.classification_now(ref)
        if now is not None and is_more_closed(now, ref.standing or PUBLIC):
            raise Denied(
                f"a source of {context.dataset} is more protected than when this run read it: " + ", ".join(now.rules),
                hint=f"end the run: `kfm run {context.arguments} --abandon --reason …`",
                rule="standing.changed",
            )
    settle_classification(context, classifier, refs)


def settle_classification(context: RunContext, classifier: SourceClassifier, refs: Iterable[SourceRef]) -> None:
    """Set the classification of the run to the strictest of its sources. Everything that a restricted run stores is
    encrypted, its plan included."""
    standings = [ref.standing for ref in refs]
    said = [standing for standing in standings if standing is not None]
    if not said:
        return
    if len(said) < len(standings):
        said.append(PUBLIC if context.work.metadata.get("sensitivity") == "public" else UNLABELLED)
    classifier.protection.standing = standing = joined(said)
    if standing.level == "restricted":
        encryption = classifier.encryption_for(standing)
        objects = EncryptedObjects(context.world.objects, encryption)
        context.world = msgspec.structs.replace(context.world, encryption=encryption, objects=objects)


def aged(standing: Classification, today: str) -> Classification:
    """Return the classification on this day: closed after the day until which consent was given."""
    if not standing.expires or standing.expires >= today:
        return standing
    rules = tuple(sorted({*standing.rules, "label.expired"}))
    return msgspec.structs.replace(standing, level="closed", rules=rules)


def is_more_closed(now: Classification, then: Classification) -> bool:
    """Return whether `now` is stricter than `then`."""
    if LEVELS.index(now.level) > LEVELS.index(then.level):
        return True
    if now.resolution is None or now.level != "generalised":
        return False
    return then.resolution is None or now.resolution < then.resolution


def address(uri: str, base: str) -> str:
    """Return the canonical text under which the state remembers an address."""
    return source_identity(uri, base)


def is_on(label: Label, dataset: str, uri: str, base: str, plain: str, name: str = "") -> bool:
    """Return whether this label is on that source of that dataset, however its address is written."""
    return _is_on(meant(label, uri, base, name), dataset, uri, plain)


def meant(label: Label, uri: str, base: str, name: str = "") -> Label:
    """Return a label as a label on `uri` if it names the same source in another spelling; else return it unchanged. A
    label without a member or a query is on all of them, and a label may give the source's name in kfm.yml."""
    said = label.of.source
    if not said or said == uri:
        return label
    if said != name and not is_part_of(uri, said, base):
        return label
    return msgspec.structs.replace(label, of=msgspec.structs.replace(label.of, source=uri))


def as_meant(labels: Labels, uri: str, base: str, name: str = "") -> Labels:
    """Return the labels. Each label that names this source in another spelling becomes a label on `uri`."""
    if not any(label.of.source for label in labels.labels):
        return labels
    return Labels(version=1, labels=tuple(meant(label, uri, base, name) for label in labels.labels))


def _is_on(label: Label, dataset: str, uri: str, plain: str) -> bool:
    of = label.of
    return of.dataset == dataset or bool(uri and of.source == uri) or bool(plain and of.bytes_ == plain)


def _is_protected(standing: Classification | None) -> TypeGuard[Classification]:
    return standing is not None and standing.level != "public"


def _of_bytes(key: CustodianKey, plain: str) -> str:
    return f"bytes/{key.key_id}/{key.keyed('bytes', plain.encode()).hex()}"
