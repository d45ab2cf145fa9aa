"""What a run knows of protected data: labels, masking policies, and the custodians' keys that are at hand."""

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
    """Handed to a run, or not at all: an installation without labels and custodians, whose state knows of nothing
    protected, has none. Keys are read where they lie when they are first asked for, and kept while this lives."""

    labels: Labels
    custodians: Mapping[str, Callable[[], CustodianKey]]  # by the names that labels use
    policies: Mapping[str, MaskingPolicy] = {}  # of the dataset, by the names of its sources
    unsigned: frozenset[str] = frozenset()  # sources whose policy is not the one that was signed
    may_be_handled: Callable[[], None] = lambda: None  # raises Denied where only public data are handled
    standing: Classification | None = None  # of all that the run reads, once that is known
    facts: Facts = field(default_factory=Facts)  # what it learns
    hidden: dict[str, dict[str, Any]] = {}  # by source: how much masking hid, as it may be told
    _keys: dict[str, CustodianKey] = {}

    def key_of(self, custodian: str) -> CustodianKey:
        """Denied without it: nothing that is protected is read, stored or made without its custodian's key."""
        found = self._keys.get(custodian)
        if found is not None:
            return found
        self.may_be_handled()
        read = self.custodians.get(custodian)
        if read is None:
            raise Denied(
                f"no key of the custodian {custodian} is named in kfm.yml",
                hint="name where it lies, under `custodians:`, or run this where the key is",
                rule="key.unknown",
            )
        try:
            found = self._keys[custodian] = read()
        except BadInput as problem:
            raise Denied(
                f"the key of the custodian {custodian} is not at hand: {problem.message}",
                hint=problem.hint,
                rule="key.missing",
            ) from problem
        return found

    def at_hand(self) -> Iterator[CustodianKey]:
        """Every key that can be read."""
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
        """The key that something is sealed with, if it is at hand."""
        return next((key for key in self.at_hand() if key.key_id == key_id), None)


def public_ids(key: CustodianKey) -> Secret:
    """What public ids are made with."""
    return key.derived("public-id")


def fingerprints(key: CustodianKey) -> Secret:
    """What protected ids and places are known again with."""
    return key.derived("fingerprint")
