"""Checks a Parquet source against its contract: whole columns of a batch, single values only where a column looks
wrong.

- Every page is read, also of columns that the contract does not name, so that accepted data can be read later.
- The type of a column must fit its contract; otherwise the source is quarantined (`type`), or under `evolve` only
  noted. The values are then checked by the rules for JSON. NaN and the infinities are no numbers, unless `missing`
  names them.
- A row is quarantined if its geometry cannot be read, or is outside the globe or the expected box.
- The accepted rows are written only if something was discarded: with the same columns, types and metadata, except the
  box of the geometries, which may have become smaller.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, BinaryIO

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.format_rules import expected_of
from kfm.model.records import Column, DataContract
from kfm.parsing import arrow
from kfm.parsing.characters import is_printable
from kfm.parsing.strict_json import decode
from kfm.validation.column_rules import ColumnCheck
from kfm.validation.findings import NOTE, SOURCE, Outcome, Violation
from kfm.validation.geoparquet import GEO, Geometry, Places, geometry_of
from kfm.validation.partition_values import Partitions

if TYPE_CHECKING:
    import pyarrow as pa

MOST_COLUMNS = 10_000
UNREADABLE = "it cannot be read as Parquet from here; the source is held"
_FITS = {
    "text": ("text",),
    "integer": ("integer", "number", "decimal"),
    "number": ("integer", "number", "decimal"),
    "boolean": ("boolean",),
    "date": ("date", "text"),
    "datetime": ("timestamp", "text"),
}
_NOUN = {"other": "of a type that has no plain values"}


def inspect_parquet(
    open_body: Callable[[], BinaryIO], contract: DataContract, out: Outcome, accept: Callable[[bytes], None]
) -> None:
    """Check a Parquet file. `open_body` returns a seekable file."""
    pa = arrow.library("Parquet")
    try:
        with open_body() as body:
            changed = _judged(pa, body, contract, out, None)
        if changed and not out.held:
            with open_body() as body:
                _judged(pa, body, contract, Outcome(out.source, lambda _: None), accept)
            out.changed = True
    except MemoryError:  # Arrow's own is one of its exceptions too
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError):
        out.add(SOURCE, "parquet.unreadable", UNREADABLE, out.rows + 1 if out.rows else 0)


def _judged(
    pa: Any, body: BinaryIO, contract: DataContract, out: Outcome, accept: Callable[[bytes], None] | None
) -> bool:
    """Return whether the accepted rows differ from the source. With `accept`, the accepted rows are written."""
    import pyarrow.parquet as pq

    checked = {"page_checksum_verification": True}  # of pages that have a checksum
    file = pq.ParquetFile(pa.PythonFile(body, mode="r"), buffer_size=1 << 20, pre_buffer=False, **checked)
    schema = file.schema_arrow
    geometry = _geometry(schema, out)
    if not named_apart(schema.names, out) or out.held:
        return False
    judge = Judge(schema, contract, geometry, out)
    writer = arrow.ParquetWriter(accept, judge.schema_after()) if accept is not None else None
    changed = judge.drops
    for batch in file.iter_batches(batch_size=arrow.BATCH, use_threads=False):
        batch.validate(full=True)
        passed = judge.take(batch)
        changed = changed or passed is not batch
        if writer is not None:
            writer.add(passed.select(judge.kept))
    if writer is not None:
        writer.close()
    return changed


def _geometry(schema: pa.Schema, out: Outcome) -> Geometry | None:
    try:
        found = geometry_of((schema.metadata or {}).get(GEO))
    except ValueError:
        out.add(SOURCE, "geo.metadata", "what it says of its geometries cannot be read; the source is held")
        return None
    if found is not None and found.column not in schema.names:
        out.add(SOURCE, "geo.metadata", "it says something of a geometry that is not there; the source is held")
    return found


def named_apart(names: Sequence[str], out: Outcome) -> bool:
    if len(names) > MOST_COLUMNS:
        out.add(SOURCE, "parquet.columns", f"there are more than {MOST_COLUMNS:,} columns; the source is held")
        return False
    for position, name in enumerate(names, 1):
        if not name.strip() or name in names[: position - 1]:
            message = f"column {position} has no name, or that of another one; the source is held"
            out.add(SOURCE, "parquet.columns", message)
            return False
    return True


class Judge:
    """Checks batches of one schema against a contract."""

    def __init__(self, schema: pa.Schema, contract: DataContract, geometry: Geometry | None, out: Outcome) -> None:
        self._schema = schema
        self._out = out
        names = list(schema.names)
        known = {column.name for column in contract.columns}
        self._places = Places(geometry, expected_of(contract), out)
        about = geometry.column if geometry is not None else ""
        drops = contract.other_columns == "discard-value"
        self.kept = [name for name in names if not drops or name in known or name == about]
        self.drops = len(self.kept) < len(names)
        place = {name: position for position, name in enumerate(names)}
        self._checks: list[tuple[int, ColumnCheck]] = []
        for column in contract.columns:
            if column.name in place and self._fits(column, schema.field(column.name).type, column.name == about):
                self._checks.append((place[column.name], _check(column, bare=column.name == about)))
        self._unique = [(position, check) for position, check in self._checks if check.unique]
        self._partitions = Partitions(contract, out)
        self._partition = place.get(contract.partition_by, -1)
        self._compare(names, contract, about)

    def schema_after(self) -> pa.Schema:
        """Return the schema of the accepted rows: without dropped columns, and without the extent of the geometries."""
        schema = self._schema
        for name in self._schema.names:
            if name not in self.kept:
                schema = schema.remove(schema.get_field_index(name))
        said = dict(schema.metadata or {})
        if GEO in said:
            geo = decode(said[GEO], "geo")
            geo["columns"] = {name: about for name, about in geo["columns"].items() if name in self.kept}
            for about in geo["columns"].values():
                about.pop("bbox", None)
            said[GEO] = canonical(geo)
        said.pop(b"pandas", None)  # it names every column of the source
        return schema.with_metadata(said)

    def _fits(self, column: Column, kind: pa.DataType, is_geometry: bool) -> bool:
        found = arrow.family(kind)
        if is_geometry or found == "null" or found in _FITS[column.type]:
            return True
        what = f"the column is {_NOUN.get(found, found)} in the file, and {column.type} in the contract"
        effect, end = (NOTE, "noted only") if column.mode == "evolve" else (SOURCE, "the source is held")
        self._out.add(effect, "type", f"{what}; {end}", column=column.name)
        return False

    def _compare(self, names: list[str], contract: DataContract, geometry: str) -> None:
        known = {column.name for column in contract.columns}
        for column in contract.columns:
            if column.name in names:
                continue
            grave = column.required and column.mode != "evolve"
            end = "is required and is not there; the source is held" if grave else "is not there; noted only"
            self._out.add(SOURCE if grave else NOTE, "column.missing", f"the column {end}", column=column.name)
        if contract.partition_by and contract.partition_by not in names:
            message = "the column to partition by is not there; the source is held"
            self._out.add(SOURCE, "column.missing", message, column=contract.partition_by)
        if known:
            for position, name in enumerate(names, 1):
                if name not in known and name != geometry:
                    shown = name if is_printable(name) and len(name) <= 200 else f"#{position}"
                    self._out.other_column(name, shown, contract.other_columns, 0)

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that pass: the batch itself, if all do."""
        first = self._out.rows
        self._out.rows += batch.num_rows
        broken = self._broken(batch)
        held: set[int] = set()
        blanks: dict[int, list[int]] = {}
        unique = [(check, arrow.values(arrow.plain(batch.column(place)))) for place, check in self._unique]
        for at in range(batch.num_rows) if unique else sorted(broken):
            flaws = broken.get(at, [])
            seen = [(check, text_for(column[at])) for check, column in unique if not _blank(check, column[at])]
            flaws += [(-1, check.violation("unique")) for check, text in seen if check.broken_rule(text) == "unique"]
            if flaws and self._out.judge(first + at + 1, [flaw for _, flaw in flaws], lambda at=at: _row(batch, at)):  # type: ignore[misc]
                held.add(at)
                continue
            for check, text in seen:
                check.saw(text)
            for place, (_, _, mode, _) in flaws:
                if mode == "discard-value" and place >= 0:
                    blanks.setdefault(place, []).append(at)
        passed = _blanked(batch, blanks)
        if held:
            passed = passed.filter(_mask(batch.num_rows, held, keep=True))
        if self._partition >= 0 and passed.num_rows:
            column = arrow.plain(passed.column(self._partition)).unique()
            self._partitions.add(map(text_for, arrow.values(column)))
        return passed

    def _broken(self, batch: pa.RecordBatch) -> dict[int, list[tuple[int, Violation]]]:
        """Return, by row, the column and what is wrong with its value."""
        found: dict[int, list[tuple[int, Violation]]] = {}
        for place, check in self._checks:
            column = arrow.plain(batch.column(place))
            if not _all_fine(check, column):
                for at, rule in _rules(check, column):
                    found.setdefault(at, []).append((place, check.violation(rule)))
        if self._places.column:
            for at, body in enumerate(batch.column(self._schema.get_field_index(self._places.column)).to_pylist()):
                if (flaw := self._places.flaw(body)) is not None:
                    found.setdefault(at, []).append((-1, flaw))
        return found


def _check(column: Column, *, bare: bool) -> ColumnCheck:
    """Return the check of a column; of a geometry (`bare`) only its presence is checked."""
    return ColumnCheck(Column(name=column.name, required=column.required, mode=column.mode) if bare else column)


def _all_fine(check: ColumnCheck, column: pa.Array) -> bool:
    """Return True only if no value breaks a rule, `unique` aside; False may also mean that single values must be
    checked."""
    import pyarrow.compute as pc

    said, kind = check.column, arrow.family(column.type)
    if said.required and column.null_count:
        return False
    if kind in ("null", "other"):
        return not said.required or not len(column) or kind == "other"
    if said.values or said.pattern or said.missing:
        return False
    if kind == "text":
        plainly = not said.required or pc.all(pc.match_substring_regex(column, "[!-~]")).as_py() is not False
        return said.type == "text" and plainly
    if kind == "number" and (said.type == "integer" or pc.all(pc.is_finite(column)).as_py() is False):
        return False
    if kind == "decimal" or said.minimum is not None or said.maximum is not None:
        if kind != "number" and kind != "integer":
            return False
        found = pc.min_max(column).as_py()
        if found["min"] is None:
            return True
        low, high = said.minimum, said.maximum
        return (low is None or found["min"] >= low) and (high is None or found["max"] <= high)
    return kind not in ("date", "timestamp") or arrow.in_range(column)


def _rules(check: ColumnCheck, column: pa.Array) -> Iterator[tuple[int, str]]:
    """Return the rows whose value breaks a rule other than `unique`. Each distinct value is checked once."""
    places = _suspects(check, column)
    if places is not None:
        column = column.take(places)
    found = _by_distinct(check, column) if arrow.family(column.type) in _TOLD_APART else _singly(check, column)
    for at, rule in found:
        yield at if places is None else places[at].as_py(), rule


_TOLD_APART = ("text", "integer", "number", "date", "timestamp")


def _suspects(check: ColumnCheck, column: pa.Array) -> pa.Array | None:
    """Return the positions of numbers that may be wrong, None for all. All others are within their bounds."""
    import pyarrow.compute as pc

    said = check.column
    if arrow.family(column.type) != "number" or said.values or said.pattern or said.missing:
        return None
    mask = pc.invert(pc.is_finite(column))
    if said.type == "integer":
        mask = pc.or_(mask, pc.not_equal(pc.floor(column), column))
    if said.minimum is not None:
        mask = pc.or_(mask, pc.less(column, arrow.number(float(said.minimum))))
    if said.maximum is not None:
        mask = pc.or_(mask, pc.greater(column, arrow.number(float(said.maximum))))
    return pc.indices_nonzero(pc.or_kleene(mask, column.is_null()) if said.required else mask)


def _by_distinct(check: ColumnCheck, column: pa.Array) -> Iterator[tuple[int, str]]:
    known = column.dictionary_encode()
    rules = [broken_rule(check, value) for value in _values(known.dictionary)]
    blank = broken_rule(check, None) if column.null_count else ""
    if blank or any(rules):
        for at, code in enumerate(known.indices.to_pylist()):
            if rule := blank if code is None else rules[code]:
                yield at, rule


def _singly(check: ColumnCheck, column: pa.Array) -> Iterator[tuple[int, str]]:
    known: dict[Any, str] = {}
    for at, value in enumerate(_values(column)):
        key = (type(value), value) if value == value else "nan"
        if key not in known:
            if len(known) > arrow.BATCH:
                known.clear()
            known[key] = broken_rule(check, value)
        if known[key]:
            yield at, known[key]


_NO_DATE = object()


def _values(column: pa.Array) -> list[Any]:
    """Return the plain values of a column, with a mark in place of a date that has no text form."""
    try:
        if arrow.family(column.type) == "other":
            return [None if value is None else _NO_DATE for value in column.is_valid().to_pylist()]
        return arrow.values(column)
    except arrow.OutOfRange:
        return [_single(column[at : at + 1]) for at in range(len(column))]


def _single(column: pa.Array) -> Any:
    try:
        return arrow.values(column)[0]
    except arrow.OutOfRange:
        return _NO_DATE


def _blank(check: ColumnCheck, value: Any) -> bool:
    return value is None or value is _NO_DATE or check.blank(text_for(value))


def broken_rule(check: ColumnCheck, value: Any) -> str:
    """Return the first rule that a value breaks; "" if none. The rules are those of JSON, extended to types that JSON
    lacks."""
    if value is _NO_DATE:
        return "type"
    wild = type(value) is float and not isfinite(value)
    if wild or (type(value) is int and abs(value) > arrow.MOST_SAFE):
        text = text_for(value)
        if wild:
            return ("required" if check.column.required else "") if check.blank(text) else "type"
        rule = check.broken_rule(text)
    else:
        rule = check.broken_json_rule(value)
    return "" if rule == "unique" else rule


def text_for(value: Any) -> str:
    """Return a value as the texts of a contract write it, also of types that JSON lacks."""
    if value is None or type(value) is str:
        return value or ""
    if type(value) is float and not isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return str(value) if type(value) is int else canonical(value).decode()


def _mask(size: int, rows: set[int], *, keep: bool) -> pa.Array:
    return arrow.truths([(at in rows) is not keep for at in range(size)])


def _blanked(batch: pa.RecordBatch, blanks: dict[int, list[int]]) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, rows in blanks.items():
        column = arrow.plain(batch.column(place))
        nothing = pa.nulls(len(column), column.type)
        column = pc.if_else(_mask(len(column), set(rows), keep=False), nothing, column)
        field = batch.schema.field(place)
        batch = batch.set_column(place, field, column.cast(field.type))
    return batch


def _row(batch: pa.RecordBatch, at: int) -> dict[str, Any]:
    """Return a row for quarantine. Values of types that JSON lacks become texts."""
    found: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.slice(at, 1).columns, strict=True):
        try:
            known = arrow.family(column.type) not in ("other", "decimal")
            found[name] = _shown((arrow.values(arrow.plain(column)) if known else column.to_pylist())[0])
        except ValueError:  # a moment that has no text
            found[name] = str(column[0].value)
    return found


def _shown(value: Any) -> Any:
    if value is None or type(value) in (str, bool):
        return value
    if type(value) is bytes:
        return "base64:" + base64.b64encode(value).decode()
    if type(value) in (int, float):
        try:
            canonical(value)
        except BadInput:
            return text_for(value)
        return value
    if type(value) is list:
        return [_shown(each) for each in value]
    if type(value) is dict:
        return {str(name): _shown(each) for name, each in value.items()}
    return str(value)
