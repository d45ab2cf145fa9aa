"""The rules about protected data for one run: labels, masking policies and custodians' keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from kfm.crypto.custodian_key import CustodianKey
from kfm.engine.protected.protected_facts import Facts
from kfm.errors import BadInput, Denied, KfmError
from kfm.model.labels import Labels
from kfm.model.masks import MaskingPolicy
from kfm.model.records import Classification
from kfm.model.secret import Secret


class Protection(Struct):
    """The labels, masking policies and keys of one run. An installation without labels and custodians, whose state has
    no protected data, has none. A key is read when it is first needed, and kept while this object exists."""

    labels: Labels
    custodians: Mapping[str, Callable[[], CustodianKey]]  # by their names in labels
    policies: Mapping[str, MaskingPolicy] = {}  # of the dataset, by source
    unsigned: Mapping[str, str] = {}  # sources whose policy is not the one that was signed, and its other name, if any
    may_be_handled: Callable[[], None] = lambda: None  # raises Denied if only public data may be handled here
    standing: Classification | None = None  # of everything that the run reads, once it is known
    facts: Facts = field(default_factory=Facts)  # what the run adds to the state
    hidden: dict[str, dict[str, Any]] = {}  # how much masking hid, as a receipt may show it, by source
    _keys: dict[str, CustodianKey] = {}

    def key_of(self, custodian: str) -> CustodianKey:
        """Return the key of a custodian. Denied if it is missing: protected data is never read, stored or made without
        it."""
        found = self._keys.get(custodian)
        if found is not None:
            return found
        self.may_be_handled()
        read = self.custodians.get(custodian)
        if read is None:
            raise Denied(
                f"no key of the custodian {custodian} is named in kfm.yml",
                hint="name its file under `custodians:`, or run this where the key is available",
                rule="key.unknown",
            )
        try:
            found = self._keys[custodian] = read()
        except BadInput as problem:
            raise Denied(
                f"the key of the custodian {custodian} is missing: {problem.message}",
                hint=problem.hint,
                rule="key.missing",
            ) from problem
        return found

    def at_hand(self) -> Iterator[CustodianKey]:
        """Yield every custodian's key that can be read here."""
        for custodian in self.custodians:
            try:
                yield self.key_of(custodian)
            except KfmError:
                continue

    def is_key_of(self, custodian: str, key_id: str) -> bool:
        try:
            return self.key_of(custodian).key_id == key_id
        except KfmError:
            return False

    def with_id(self, key_id: str) -> CustodianKey | None:
        """Return the key with this id, if it can be read."""
        return next((key for key in self.at_hand() if key.key_id == key_id), None)


def public_ids(key: CustodianKey) -> Secret:
    """Return the secret that public ids are derived from."""
    return key.derived("public-id")


def fingerprints(key: CustodianKey) -> Secret:
    """Return the secret that fingerprints of protected ids and places are derived from."""
    return key.derived("fingerprint")


def places(key: CustodianKey) -> Secret:
    """Return the secret that the digests of protected places are derived from."""
    return key.derived("place")
