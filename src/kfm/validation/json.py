"""Checks JSON, NDJSON, GeoJSON and STAC sources against their contracts, record by record.

- `json` with `root`: the records are the list in that member. Without `root`: the list at the top. If there is no list,
  the document is the one record, and a finding that would quarantine a row quarantines the source.
- `stac` is one item, collection or catalog, or a collection of features that are items.
- JSON that cannot be read strictly (malformed, a key twice, NaN, too deep, integers beyond 2^53, half a surrogate
  pair, a byte order mark) quarantines the source.
- `json_schema` applies to the whole document for `json`, to each record for `ndjson` and `stac`, and to each feature
  for `geojson`. A record that violates it is quarantined; a violation around the list quarantines the source.
- A record that is no object or no feature is quarantined (`json.record`, `geojson.shape`, `stac.shape`). If a column,
  or `other_columns`, has the mode `freeze`, it quarantines the source. A feature with a wrong location, or an item
  with a missing member, is quarantined.
- A discarded value becomes null; a discarded unknown member is removed.
- The accepted records are written only if something was discarded: unchanged records as they are, changed ones in
  canonical form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, BinaryIO

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.records import ColumnMode, DataContract
from kfm.parsing.strict_json import decode
from kfm.validation.column_rules import ColumnCheck, text_of
from kfm.validation.findings import BUFFER, MAX_NAMES, NOTE, SOURCE, Outcome, Unreadable, Violation
from kfm.validation.geojson import collection_flaw, feature_flaw, place_flaw
from kfm.validation.json_records import ListInJson, lines
from kfm.validation.json_schema_subset import schema_check, split_at_list
from kfm.validation.partition_values import Partitions
from kfm.validation.stac_rules import stac_breaks, stac_flaw


def inspect_json(
    open_body: Callable[[], BinaryIO], contract: DataContract, out: Outcome, accept: Callable[[bytes], None]
) -> None:
    """Check a source in any of the four formats. The schema of the document is split, so that a list of any length is
    never in memory whole."""
    outer: Any = True
    each: Any = contract.json_schema
    size: tuple[int, int | None] = (0, None)
    if contract.format == "json":
        outer, each, size = split_at_list(contract.json_schema, contract.root)
    root = "features" if contract.format in ("geojson", "stac") else contract.root
    inspector = _Inspector(contract, each, out)
    with closing(open_body()) as body:
        stac = contract.format == "stac"
        found = None if contract.format == "ndjson" else ListInJson(body, root, alone=stac)
        accepted = _Accepted(open_body, root, found, accept)
        try:
            for raw in lines(body) if found is None else found.records():
                kept = inspector.take(raw)
                if out.held or (kept is raw and not accepted.begun):
                    continue
                if not accepted.begun:
                    accepted.begin(out.rows - 1)
                if kept is not None:
                    accepted.add(kept)
        except Unreadable as flaw:
            row = 0 if found is not None and not found.head else out.rows + 1  # 0: before any record
            out.add(SOURCE, flaw.rule, flaw.message, row)
            return
        out.changed = accepted.begun
        if found is None:
            accepted.end(b"")
        elif found.alone is not None:
            _alone(found.alone, inspector, contract, out, accept)
        else:
            _around(found, outer, size, contract, out)
            accepted.end(found.tail)
    if contract.partition_by and out.rows > out.held_rows and not inspector.partitioned:
        message = "no record has the member to partition by; the source is held"
        out.add(SOURCE, "column.missing", message, column=contract.partition_by)


def _alone(
    body: bytes, inspector: _Inspector, contract: DataContract, out: Outcome, accept: Callable[[bytes], None]
) -> None:
    """Check a document that is one record: it passes whole or not at all."""
    inspector.each = schema_check(contract.json_schema)
    inspector.alone = True
    kept = inspector.take(body)
    if kept is None and not out.held:
        out.add(SOURCE, "json.record", "the document is one record, and that is held; the source is held")
    if kept is not None and kept is not body and not out.held:
        out.changed = True
        accept(kept)


def _around(found: ListInJson, outer: Any, size: tuple[int, int | None], contract: DataContract, out: Outcome) -> None:
    """Check the document around the list, which is read with the list emptied."""
    try:
        document = decode(found.head + found.tail, "what surrounds the records")
    except BadInput as error:
        out.add(SOURCE, "json.malformed", f"{error.message}; the source is held")
        return
    if contract.format in ("geojson", "stac") and (flaw := collection_flaw(document)):
        out.add(SOURCE, flaw[0], f"{flaw[1]}; the source is held")
    at = f"/{contract.root}" if contract.root else ""
    broken = schema_check(outer)(document)
    broken += [(at, "minItems")] if out.rows < size[0] else []
    broken += [(at, "maxItems")] if size[1] is not None and out.rows > size[1] else []
    for pointer, keyword in broken:
        out.add(SOURCE, f"schema.{keyword}", f"{_BREAKS.format(keyword)}; the source is held", column=pointer)


_BREAKS = "it breaks `{}` of the JSON schema"
_UNCHECKED = "what this extension asks for is checked only where a json_schema says it; noted only"


class _Accepted:
    """Writes the records that passed, once they differ from the source."""

    def __init__(
        self,
        open_body: Callable[[], BinaryIO],
        root: str,
        found: ListInJson | None,
        accept: Callable[[bytes], None],
    ) -> None:
        self.begun = False
        self._open_body = open_body
        self._root = root
        self._found = found
        self._accept = accept
        self._between = b""
        self._parts: list[bytes] = []
        self._waiting = 0

    def begin(self, passed: int) -> None:
        """Begin to write the accepted records: first the `passed` records before the current one, which are read again,
        because none of them was changed."""
        self.begun = True
        if self._found is not None:
            self._put(self._found.head)
        if not passed:
            return
        with closing(self._open_body()) as body:
            for raw, _ in zip(self._again(body), range(passed), strict=False):
                self.add(raw)

    def _again(self, body: BinaryIO) -> Iterator[bytes]:
        return lines(body) if self._found is None else ListInJson(body, self._root).records()

    def add(self, raw: bytes) -> None:
        if self._found is None:
            self._put(raw + b"\n")
            return
        self._put(self._between + raw)
        self._between = b",\n"

    def end(self, tail: bytes) -> None:
        if self.begun:
            self._put(tail)
            self._flush()

    def _put(self, part: bytes) -> None:
        self._parts.append(part)
        self._waiting += len(part)
        if self._waiting >= BUFFER:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._accept(b"".join(self._parts))
            self._parts.clear()
            self._waiting = 0


class _Inspector:
    def __init__(self, contract: DataContract, schema: Any, out: Outcome) -> None:
        self.each = schema_check(schema)
        self.alone = False  # the record is the document
        self._geo = contract.format == "geojson"
        self._stac = contract.format == "stac"
        self._extensions: set[str] = set()  # STAC extensions that were reported
        self._out = out
        self._checks = [ColumnCheck(column) for column in contract.columns]
        self._names = {column.name for column in contract.columns}
        self._other = contract.other_columns
        self._shaped = bool(contract.columns or contract.partition_by)  # records must be objects
        frozen = "freeze" in (contract.other_columns, *(column.mode for column in contract.columns))
        self._shape_mode: ColumnMode = "freeze" if frozen else "discard-row"
        self.partitioned = False  # whether a record that passed had the member to partition by
        self._partition = contract.partition_by
        self._partitions = Partitions(contract, out)

    def take(self, raw: bytes) -> bytes | None:
        """Check one record, and return its bytes: unchanged, changed, or None if the record is quarantined."""
        out = self._out
        out.rows += 1
        try:
            record = decode(raw, "the record")
        except BadInput as error:
            out.judge(out.rows, [("", "json.malformed", "freeze", error.message)], dict)
            return None
        members = self._members(record)
        if members is None:
            return None
        broken = [(check, rule) for check in self._checks if (rule := check.broken_json_rule(members.get(check.name)))]
        violations = [*self._about_record(record), *(check.violation(rule) for check, rule in broken)]
        if violations and out.judge(out.rows, violations, partial(_data, record)):
            return None
        if self._stac:
            self._note_extensions(record.get("stac_extensions", []))
        changed = self._blank(members, [check for check, _ in broken if check.mode == "discard-value"])
        changed = self._others(members) or changed
        for check in self._checks:
            if check.unique:
                check.saw(text_of(members.get(check.name)))
        if self._partition:
            self.partitioned = self.partitioned or self._partition in members
            self._partitions.add([text_of(members.get(self._partition))])
        return canonical(record) if changed else raw

    def _members(self, record: Any) -> dict[str, Any] | None:
        """Return the members of a record in which columns are looked up; None if the record is malformed and
        quarantined."""
        if self._geo:
            flaw = feature_flaw(record)
            if flaw is None:
                return record["properties"] if record["properties"] is not None else {}
        elif self._stac:
            flaw = stac_flaw(record, alone=self.alone)
            if flaw is None:
                return (record["properties"] or {}) if record["type"] == "Feature" else record
        elif type(record) is dict or not self._shaped:
            return record if type(record) is dict else {}
        else:
            flaw = "json.record", "the record is not an object"
        self._out.judge(self._out.rows, [("", flaw[0], self._shape_mode, flaw[1])], partial(_data, record))
        return None

    def _about_record(self, record: Any) -> Iterable[Violation]:
        if self._geo and (flaw := place_flaw(record)):
            yield "", flaw[0], "discard-row", flaw[1]
        if self._stac:
            for pointer, rule, message in stac_breaks(record):
                yield pointer, rule, "discard-row", message
        for pointer, keyword in self.each(record):
            yield pointer, f"schema.{keyword}", "discard-row", _BREAKS.format(keyword)

    def _note_extensions(self, names: list[str]) -> None:
        """Report each of the first thousand extensions once, where it first passes. The source chose the name."""
        for position, name in enumerate(names):
            if name not in self._extensions and len(self._extensions) < MAX_NAMES:
                self._extensions.add(name)
                self._out.add(NOTE, "stac.extension", _UNCHECKED, self._out.rows, f"/stac_extensions/{position}")

    @staticmethod
    def _blank(members: dict[str, Any], checks: list[ColumnCheck]) -> bool:
        for check in checks:
            members[check.name] = None
        return bool(checks)

    def _others(self, members: dict[str, Any]) -> bool:
        """Report members that the contract does not name. Their names are shown only if the record also has a member
        that the contract names."""
        if not self._names or self._names.issuperset(members):
            return False
        sure = not self._names.isdisjoint(members)
        for position, name in enumerate(list(members), 1):
            if name not in self._names:
                self._out.other_column(name, name if sure else f"#{position}", self._other, self._out.rows)
                if self._other == "discard-value":
                    del members[name]
        return self._other == "discard-value"


def _data(record: Any) -> dict[str, Any]:
    return record if type(record) is dict else {"#": record}
