"""Previews masking for a steward before a run: each record of a protected file next to what the public would see."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kfm.app.authority.label_file import read_bytes
from kfm.app.stewards.protected_tables import Columns, columns_of, labels_at, policy_at, secret_at
from kfm.crypto.custodian_key import CustodianKey
from kfm.engine.protected.protection import public_ids
from kfm.engine.protected.source_classification import as_meant
from kfm.errors import BadInput
from kfm.fsio import Fs, failing_as_storage, write_apart
from kfm.masking.first_cells import Memory
from kfm.masking.leak_scanner import Hidden, over_masked
from kfm.masking.mask import Prepared, mask_columns, prepare
from kfm.masking.mask_map import picture
from kfm.masking.public_record import SMALL_GROUP, WITHHELD, PublicRecord, properties
from kfm.masking.public_table import NOTHING_SHOWN, public_table
from kfm.masking.small_groups import (
    RULE,
    Difference,
    GroupSizes,
    difference,
    forms_shown,
    group_columns,
    group_sizes,
)
from kfm.model.labels import Classification, source_classification
from kfm.model.masks import MaskingPolicy
from kfm.model.secret import SHORTEST, Secret
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.config import Resolved

_DONE = {"date": "mask.date", "number": "mask.number", "code": "mask.value-unlisted", "text": "mask.text-unreviewed"}
_REFUSED = {
    "date": "mask.value-unreadable",
    "number": "mask.value-unreadable",
    "code": "mask.value-unlisted",
    "text": "mask.text-unreviewed",
}


class ColumnShown(msgspec.Struct, frozen=True):
    """The effect of masking on one column. `published` is its public name; empty if it is not published."""

    column: str
    published: str
    changed: int
    withheld: int
    why: str


class RecordShown(msgspec.Struct, frozen=True):
    """One record before and after masking."""

    row: int
    place: str  # longitude and latitude as read; empty if unreadable
    before: dict[str, Any]
    after: dict[str, Any]


class Groups(msgspec.Struct, frozen=True):
    """How many records can be recognised by their cell and quasi-identifiers, before and after small groups became
    coarser. `difference` is None if no earlier version was given."""

    columns: list[str]  # the quasi-identifiers; all published columns if the policy names none
    named: bool
    k: int
    as_masked: GroupSizes
    published: GroupSizes
    counts: int | None  # how many counts are published instead of records; None: records are
    counts_withheld: int
    coarser: int  # records with a value that is coarser or withheld for this reason
    difference: Difference | None


class Preview(msgspec.Struct, frozen=True):
    """The result of a masking preview. `publishable` is None if no labels were given."""

    policy: str
    version: str
    resolution: int
    cells: int
    publishable: bool | None
    rules: tuple[str, ...]
    throw_away_key: bool
    hidden: Hidden
    groups: Groups
    columns: list[ColumnShown]
    records: list[RecordShown]


class Previewed:
    """A file masked in memory. Nothing is written."""

    def __init__(
        self,
        file: str,
        mask: str,
        *,
        labels: str = "",
        dataset: str = "",
        key: str = "",
        before: str = "",
        today: str,
        env: Any,
    ) -> None:
        body = read_bytes(file)
        self.policy = policy_at(mask)
        self.table = columns_of(body, file)
        if self.policy.record_id not in self.table:
            raise BadInput(
                f"{printable(file)} has no column {printable(self.policy.record_id)}, by which its records are known",
                hint="look at record_id in the masking policy",
            )
        self.standing = _classification(body, file, labels, dataset, today)
        self.throw_away = not key
        secret = public_ids(CustodianKey(secret_at(key, env) if key else Secret(os.urandom(SHORTEST))))
        self.prepared = prepare(self.policy, _lent(self.standing), secret)
        self.before = _before(before, self.policy) if before else None
        known = self.before.memory if self.before else NOTHING_SHOWN
        made = public_table(self.table, self.prepared, lambda bound: mask_columns(self.table, bound), known)
        self.records, self._as_masked, self._counts = made.records, made.as_masked, made.counts

    def preview(self, rows: int) -> Preview:
        """Return the first `rows` records side by side, all if 0. The counts cover all records."""
        count = len(self.records) if not rows else min(rows, len(self.records))
        classification = self.standing
        return Preview(
            policy=self.policy.id,
            version=self.policy.version,
            resolution=self.prepared.resolution,
            cells=len({one.cell for one in self.records if one.cell}),
            publishable=classification.publishable() if classification else None,
            rules=classification.rules if classification else (),
            throw_away_key=self.throw_away,
            hidden=over_masked(self.records, self.prepared),
            groups=self._groups(),
            columns=_columns(self.table, self.records, self._as_masked, self.prepared),
            records=[
                RecordShown(
                    row=row + 1,
                    place=" ".join(map(repr, _point(self.table, self.policy, row) or ())),
                    before={name: column[row] for name, column in self.table.items()},
                    after={"id": self.records[row].id, **properties(self.records[row])},
                )
                for row in range(count)
            ],
        )

    def _groups(self) -> Groups:
        policy = self.policy
        return Groups(
            columns=group_columns(policy),
            named=bool(policy.recognised_by),
            k=policy.k,
            as_masked=group_sizes(self._as_masked, policy),
            published=group_sizes(self.records, policy),
            counts=len(self._counts.counts) if self._counts else None,
            counts_withheld=sum(count is None for count in self._counts.counts.values()) if self._counts else 0,
            coarser=len({one.id for one in self.records if RULE in one.rules}),
            difference=difference(self.before.groups, self.records, policy) if self.before else None,
        )

    def picture(self) -> str:
        """Return a map of the exact points and the published cells, as SVG."""
        shown = [
            point
            for row, one in enumerate(self.records)
            if one.cell and (point := _point(self.table, self.policy, row)) is not None
        ]
        cells = [one.cell for one in self.records if one.cell]
        return picture(shown, cells, f"Masking policy {self.policy.id}, resolution {self.prepared.resolution}")


def _classification(body: bytes, file: str, labels: str, dataset: str, today: str) -> Classification | None:
    if not labels:
        return None
    from hashlib import sha256

    digest = "sha256:" + sha256(body).hexdigest()
    said = as_meant(labels_at(labels), file, os.path.dirname(labels) or ".")
    return source_classification(said, dataset=dataset, source=file, digest=digest, today=today)


class _Before(NamedTuple):
    """An earlier public version."""

    groups: dict[str, list[tuple[str, ...]]]  # cell and quasi-identifiers, by public id
    memory: Memory  # what a run would remember of it


def _before(file: str, policy: MaskingPolicy) -> _Before:
    """Return the records of a public file. BadInput if it is not a masked table."""
    table = columns_of(read_bytes(file), file)
    names = ["id", "cell", *group_columns(policy)]
    missing = [name for name in names if name not in table]
    if missing:
        raise BadInput(
            f"{printable(file)} has no column {printable(missing[0])}: it is no version that this mask published",
            hint="give a published file, such as `kfm cat published/DATASET KEY` writes it",
        )
    groups: dict[str, list[tuple[str, ...]]] = {}
    memory = Memory({}, {}, {})
    said = map(_as_text, table.get("dataGeneralizations", [""] * len(table["id"])))
    for text, identity, cell, *values in zip(said, *(map(_as_text, table[name]) for name in names), strict=True):
        cell = "" if cell == WITHHELD else cell
        groups.setdefault(identity, []).append((cell, *values))
        if cell:
            memory.cells[identity] = cell
        if SMALL_GROUP in text:
            memory.forms[identity] = forms_shown(policy, values)
    return _Before(groups, memory)


def _lent(standing: Classification | None) -> Classification:
    """Return the classification under which masking is tried. A steward sees the effect even where nothing would be
    published."""
    return Classification(level="generalised", resolution=standing.resolution if standing else None)


def _columns(
    table: Columns, records: Sequence[PublicRecord], as_masked: Sequence[PublicRecord], prepared: Prepared
) -> list[ColumnShown]:
    policy = prepared.policy
    places = {policy.location.latitude, policy.location.longitude, "geometry" if policy.location.geometry else ""} - {
        ""
    }
    found = []
    for name, values in table.items():
        rule = policy.columns.get(name)
        if name == policy.record_id:
            found.append(ColumnShown(name, "", 0, len(values), "mask.record-id"))
        elif name in places:
            found.append(ColumnShown(name, "", 0, len(values), "mask.location"))
        elif name == policy.location.accuracy.column:
            found.append(ColumnShown(name, "georeferenceAccuracy", len(values), 0, "mask.accuracy"))
        elif rule is None:
            found.append(ColumnShown(name, "", 0, len(values), "mask.column-unlisted"))
        else:
            public = rule.name or name
            after = [one.attributes[public] for one in records]
            withheld = sum(one == WITHHELD for one in after)
            changed = sum(one != WITHHELD and one != _as_text(value) for one, value in zip(after, values, strict=True))
            alone = [one.attributes[public] for one in as_masked]
            why = [_DONE[rule.kind] if changed else "", _REFUSED[rule.kind] if WITHHELD in alone else ""]
            if after != alone:
                why.append(RULE)
            found.append(ColumnShown(name, public, changed, withheld, ", ".join(sorted({*why} - {""}))))
    return found


def _as_text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _point(table: Columns, policy: MaskingPolicy, row: int) -> tuple[float, float] | None:
    """Return longitude and latitude of a row as read; None if they cannot be read."""
    location = policy.location
    try:
        if location.geometry:
            lng, lat = table["geometry"][row]["coordinates"][:2]
        else:
            lng, lat = table[location.longitude][row], table[location.latitude][row]
        return float(lng), float(lat)
    except (KeyError, TypeError, ValueError):
        return None


def write_picture(path: str, text: str, resolved: Resolved | None) -> None:
    """Write the picture so that only its owner can read it. BadInput if the place is open to others."""
    fs = Fs()
    where = check_picture(path, resolved)
    with failing_as_storage("write the picture"):
        apart = f"{where}.new"
        write_apart(fs, apart, [text.encode()], mode=0o600)
        fs.replace(apart, where)


def check_picture(path: str, resolved: Resolved | None) -> str:
    """Return the absolute path, without links, where a picture may be written. BadInput if others can look there."""
    where = os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))
    if not path.endswith(".svg"):
        raise BadInput(f"{printable(path)} is no name for a picture", hint="end it with .svg")
    if not os.path.isdir(os.path.dirname(where)):
        raise BadInput(f"the folder of {printable(path)} is not there", hint="make it first, for yourself alone")
    if os.path.isdir(where) or os.path.islink(where):
        raise BadInput(f"{printable(path)} is a folder or a link", hint="name a file")
    for name, folder in _open_to_others(resolved).items():
        inside = os.path.realpath(folder)
        if where == inside or where.startswith(inside + os.sep):
            raise BadInput(
                f"{printable(path)} lies in the folder for {name}: a picture of protected places has no place there",
                hint="name another folder, one that only you can read",
            )
    return where


def _open_to_others(resolved: Resolved | None) -> Mapping[str, str]:
    if resolved is None:
        return {}
    config = resolved.config
    found = {"artifacts": resolved.at(config.artifacts), "the state": resolved.at(".kfm")}
    for name, url in (("what is published", config.publish), ("objects", config.objects), ("the state", config.state)):
        scheme, path = resolved.location(url)
        if path and scheme != "github":
            found[name] = path if name != "the state" else os.path.dirname(path)
    return found
