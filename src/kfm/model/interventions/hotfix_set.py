"""Hotfixes: corrections of what the public metadata of a dataset say. Its data and its versions never change.

All hotfixes of a dataset are one object, and the ref `hotfix/DATASET` names it. Everything that shows metadata reads
them from there: STAC, DCAT, pages, feeds and citations. A hotfix says what it expects to find. It holds for every
version that says exactly that, also for later ones; for any other version it changes nothing and waits for a person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from kfm.errors import Corrupt
from kfm.model.records import Record

Document = Literal["stac", "dcat"]
# The texts that people write about a dataset. Everything else in its metadata is computed, or decides who may see it.
FIELDS = ("title", "description", "license", "license_text", "attribution")


class Fix(Record, frozen=True):
    """One hotfix: the values that it expects to find, and those that it puts in their place. None: no value."""

    name: str
    document: Document  # the one that its file patches
    before: dict[str, str | None]
    after: dict[str, str | None]
    version: str = ""  # it holds for this version alone; empty: for every version that meets its expectations

    def holds(self, metadata: Mapping[str, Any], version: str) -> bool:
        """Return whether a version with these metadata says exactly what the hotfix expects."""
        if self.version not in ("", version):
            return False
        return all((metadata.get(field) or None) == value for field, value in self.before.items())


class FixSet(Record, frozen=True):
    """All hotfixes of a dataset in the order in which they were applied."""

    dataset: str
    fixes: list[Fix] = []


_decoder = msgspec.json.Decoder(FixSet)


def fixes_in(body: bytes) -> list[Fix]:
    """Return the hotfixes in an object. Raise Corrupt if it does not hold hotfixes."""
    try:
        return _decoder.decode(body).fixes
    except msgspec.MsgspecError:
        raise Corrupt("stored hotfixes cannot be read", hint="see `kfm doctor --deep`") from None


def corrected(metadata: Mapping[str, Any], version: str, fixes: Sequence[Fix]) -> dict[str, Any]:
    """Return the metadata of a version with every hotfix that holds for it, one after the other."""
    found = dict(metadata)
    for fix in fixes:
        if fix.holds(found, version):
            found.update(fix.after)
            found = {field: value for field, value in found.items() if value is not None}
    return found


def changes(metadata: Mapping[str, Any], version: str, fixes: Sequence[Fix]) -> dict[str, str | None]:
    """Return the texts that the hotfixes change in the metadata of a version, each with its new value."""
    found = corrected(metadata, version, fixes)
    return {field: found.get(field) for field in FIELDS if found.get(field) != metadata.get(field)}


def waiting(metadata: Mapping[str, Any], version: str, fixes: Sequence[Fix]) -> list[Fix]:
    """Return the hotfixes that do not hold for a version, because it says something else."""
    found, left = dict(metadata), []
    for fix in fixes:
        if fix.holds(found, version):
            found = corrected(found, version, [fix])
        else:
            left.append(fix)
    return left
