"""The steps over Arrow columns, with the same results as the steps over records.

An Arrow kernel is used where it has exactly the meaning of a step. Otherwise the function of the record engine is
called for each distinct value of a batch. Both engines see the same values: on reading, NaN and the infinities become
null, and negative zero becomes zero. A hidden last column holds the number of each row in its source.

Rows are streamed, except that `sort` and `deduplicate` keep all of them in memory, up to `MOST_HELD` bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.transform_config import FilterConfig, StepConfig, sort_keys
from kfm.model.updater import Reader
from kfm.parsing import arrow
from kfm.parsing.strict_json import decode
from kfm.updaters.transforms import step_columns
from kfm.updaters.transforms.filter_conditions import test_of
from kfm.updaters.transforms.join import Lookup
from kfm.updaters.transforms.parquet_input import HIDDEN, Opened, values
from kfm.updaters.transforms.step_values import MAX_INTEGER, UNFIT, cast, is_blank
from kfm.updaters.transforms.table_steps import Rows
from kfm.updaters.transforms.transform_errors import Place

if TYPE_CHECKING:
    import pyarrow as pa

Batches = Iterator["pa.RecordBatch"]
Op = Callable[[Batches], Batches]
MOST_HELD = 2 << 30  # bytes of rows that a step may keep in memory
_TYPES = {"text": "string", "integer": "int64", "number": "float64", "boolean": "bool"}
_COMPARED = {"equals": "equal", "above": "greater", "below": "less", "at_least": "greater_equal",
             "at_most": "less_equal"}  # fmt: skip


def each(column: pa.Array, answer: Callable[[Any], Any], kind: Any) -> pa.Array:
    """Return an array with `answer(value)` for every value of a column. The function is called once for each distinct
    value."""
    import pyarrow as pa

    known = column.dictionary_encode()
    found = pa.array([answer(value) for value in values(known.dictionary)], kind)
    out = found.take(known.indices)
    if column.null_count:
        blank = answer(None)
        out = out if blank is None else out.fill_null(pa.scalar(blank, kind))
    return out


class Pipeline:
    """The steps of an output over Arrow columns. `schema` is that of the result."""

    def __init__(
        self,
        schema: pa.Schema,
        steps: Sequence[tuple[StepConfig, Place]],
        lookup: Callable[[StepConfig, Place], Lookup],
        added: Callable[[str, str], str],
    ) -> None:
        """`added` returns the type, in the words of a cast, of a column of another source."""
        self.schema = schema
        self._added = added
        step_columns.follow(schema.names, steps, pointers=False)
        self._ops = [self._compile(step, at, lookup) for step, at in steps]

    def run(self, batches: Batches) -> Batches:
        for op in self._ops:
            batches = op(batches)
        return batches

    def _compile(self, step: StepConfig, at: Place, lookup: Callable[[StepConfig, Place], Lookup]) -> Op:
        import pyarrow as pa

        before = self.schema
        if not (step.select or step.rename):
            self._looked_at(step_columns.asked(step), at)
        if step.select:
            self.schema = pa.schema([before.field(name) for name in step.select], before.metadata)
            return partial(_mapped, lambda batch: batch.select([*step.select, HIDDEN]))
        if step.rename:
            names = [step.rename.get(name, name) for name in before.names]
            fields = [field.with_name(name) for field, name in zip(before, names, strict=True)]
            self.schema = pa.schema(fields, before.metadata)
            return partial(_mapped, lambda batch: batch.rename_columns([*names, HIDDEN]))
        if step.filter is not None:
            said = step.filter
            return partial(_mapped, lambda batch: batch.filter(_mask(said, batch.column(said.column))))
        if step.cast:
            casts: dict[str, tuple[str, Any]] = {
                name: (step.cast[name], _cast_type(before, name, step.cast[name])) for name in sorted(step.cast)
            }
            for name, (_, kind) in casts.items():
                place = self.schema.get_field_index(name)
                self.schema = self.schema.set(place, pa.field(name, kind))
            return partial(_mapped, lambda batch: _cast(batch, casts, step.unfit or "refuse", at))
        if step.join is not None:
            join, found = step.join, lookup(step, at)
            for name in join.add:
                self.schema = self.schema.append(pa.field(name, _TYPES[self._added(join.source, name)]))
            kinds = [self.schema.field(name).type for name in join.add]
            on = sorted(join.on)
            return partial(
                _mapped, lambda batch: _join(batch, on, join.add, kinds, found, join.missing, join.source, at)
            )
        if step.deduplicate is not None:
            said_ = step.deduplicate
            return partial(_deduplicate, said_.by, said_.keep, before, at)
        by = [(key.column, "descending" if key.descending else "ascending") for key in sort_keys(step)]
        return partial(_sort, by, before, at)

    def _looked_at(self, names: Sequence[str], at: Place) -> None:
        for name in names:
            if arrow.family(self.schema.field(name).type) == "other":
                raise at.no_values(name)


def check_plain(schema: pa.Schema, output: str, known: Sequence[str] = ()) -> None:
    """Raise BadInput if a column without plain values is to be written as text, unless it is in `known`."""
    for field in schema:
        if arrow.family(field.type) == "other" and field.name not in known:
            raise BadInput(
                f"output {output}: a column of the source has no plain values and is still in the output",
                hint="leave it out with a select, or write parquet",
                column=field.name,
            )


def without_box(schema: pa.Schema) -> pa.Schema:
    """Return the schema without the bounding box of its geometries, which the steps may have changed."""
    said = {}
    if b"geo" in (schema.metadata or {}):
        geo = decode(schema.metadata[b"geo"], "geo")
        if geo["primary_column"] in schema.names:
            geo["columns"] = {name: about for name, about in geo["columns"].items() if name in schema.names}
            for about in geo["columns"].values():
                about.pop("bbox", None)
            said = {b"geo": canonical(geo)}
    return schema.with_metadata(said)


def word_for(read: Reader, source: str, form: str, column: str) -> str:
    """Return the type of a column that a join adds: text from a CSV; from Parquet its own type, with dates as texts."""
    if form == "csv":
        return "text"
    opened = Opened(read, source)
    opened.close()
    kind = arrow.family(opened.schema.field(column).type)
    if kind == "other":
        raise BadInput(f"source {source}: a column that a join adds has no plain values", column=column)
    return kind if kind in _TYPES else "number" if kind == "decimal" else "text"


def shown(batches: Batches) -> Batches:
    """Yield the batches without the hidden column of row numbers."""
    return (batch.select(batch.schema.names[:-1]) for batch in batches)


def table_as_parquet(names: Sequence[str], types: Sequence[str], stream: Iterable[Rows]) -> Iterator[bytes]:
    """Yield rows of a table as Parquet: texts, and columns that were cast as numbers or booleans, with blanks as
    null."""
    pa = arrow.library("Parquet")
    kinds = [pa.type_for_alias(_TYPES[kind]) for kind in types]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    readers: dict[str, Callable[[str], Any]] = {"integer": int, "number": float, "boolean": "true".__eq__}

    def batches() -> Batches:
        for rows in stream:
            arrays = []
            for n, (kind, type_) in enumerate(zip(types, kinds, strict=True)):
                found: Iterable[Any] = rows.column(n)
                if kind != "text":
                    found = [readers[kind](text) if text else None for text in found]
                arrays.append(pa.array(found, type_))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return arrow.parquet_pieces(schema, batches())


def picked(batch: pa.RecordBatch, places: list[int]) -> pa.RecordBatch:
    """Return the rows of a batch at these places."""
    import pyarrow as pa

    at = pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(array("q", places))])
    return batch.take(at)


def _mapped(change: Callable[[pa.RecordBatch], pa.RecordBatch], batches: Batches) -> Batches:
    return (found for batch in batches if (found := change(batch)).num_rows)


# ------------------------------------------------------------------------------------------- steps


def _mask(said: FilterConfig, column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    asked = {name: operand for name in _COMPARED if (operand := getattr(said, name)) is not None}
    alone = asked and said.not_equals is None and not said.in_ and not said.matches and said.blank is None
    if not alone or not all(_is_exact(arrow.family(column.type), operand) for operand in asked.values()):
        return each(column, test_of(said), "bool")
    found = None
    for name, operand in asked.items():
        mask = getattr(pc, _COMPARED[name])(column, operand)
        found = mask if found is None else pc.and_(found, mask)
    return pc.fill_null(found, False)


def _is_exact(kind: str, operand: Any) -> bool:
    """Return whether Arrow compares a column of this kind with this operand as Python does."""
    if type(operand) is int and abs(operand) <= MAX_INTEGER:
        return kind in ("integer", "number")
    return kind == "number" and type(operand) is float


def _cast_type(schema: pa.Schema, name: str, kind: str) -> pa.DataType:
    """Return the type of a column after a cast. An integer that is cast to a number stays an integer."""
    import pyarrow as pa

    before = schema.field(name).type
    if arrow.family(before) == kind or (kind == "number" and arrow.family(before) == "integer"):
        return before
    return pa.type_for_alias(_TYPES[kind])


def _cast(batch: pa.RecordBatch, casts: dict[str, tuple[str, Any]], unfit: str, at: Place) -> pa.RecordBatch:
    import pyarrow.compute as pc

    wrong: dict[str, Any] = {}
    for name, (kind, type_) in casts.items():
        place = batch.schema.get_field_index(name)
        column = batch.column(place)
        if column.type == type_ and arrow.family(type_) != "text":
            continue
        if arrow.family(column.type) == kind == "text":
            continue
        bad = each(column, partial(_is_unfit, kind), "bool")
        if pc.any(bad).as_py():
            wrong[name] = bad
        made = each(column, partial(_fitting, kind), type_)
        batch = batch.set_column(place, name, made)
    if not wrong:
        return batch
    if unfit == "refuse":
        row, name = min((pc.index(bad, True).as_py(), name) for name, bad in wrong.items())
        raise at.unfit(batch.column(HIDDEN)[row].as_py(), name, casts[name][0])
    if unfit == "drop":
        drop = None
        for bad in wrong.values():
            drop = bad if drop is None else pc.or_(drop, bad)
        batch = batch.filter(pc.invert(drop))
    return batch


def _is_unfit(kind: str, value: Any) -> bool:
    return cast(kind, value) is UNFIT


def _fitting(kind: str, value: Any) -> Any:
    found = cast(kind, value)
    return None if found is UNFIT else found


def _join(
    batch: pa.RecordBatch,
    on: Sequence[str],
    add: Sequence[str],
    kinds: Sequence[Any],
    lookup: Lookup,
    missing: str,
    source: str,
    at: Place,
) -> pa.RecordBatch:
    import pyarrow as pa

    keys = zip(*(values(batch.column(name)) for name in on), strict=True)
    found = [lookup.get(key) for key in keys]
    if missing == "refuse" and None in found:
        raise at.no_match(batch.column(HIDDEN)[found.index(None)].as_py(), source)
    nothing = (None,) * len(add)
    numbers = batch.column(HIDDEN)
    batch = batch.select(batch.schema.names[:-1])
    for n, (name, kind) in enumerate(zip(add, kinds, strict=True)):
        batch = batch.append_column(name, pa.array([(one or nothing)[n] for one in found], kind))
    batch = batch.append_column(HIDDEN, numbers)
    return batch.filter(pa.array([one is not None for one in found])) if missing == "drop" else batch


def _held(batches: Batches, schema: pa.Schema, at: Place) -> pa.Table:
    import pyarrow as pa

    kept: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size > MOST_HELD:
            raise at.too_large(MOST_HELD)
    return pa.Table.from_batches(kept, schema.append(pa.field(HIDDEN, pa.int64())).remove_metadata()).combine_chunks()


def _key(column: pa.Array) -> pa.Array:
    """Return a key column as the values to compare; blank texts become null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = arrow.family(column.type)
    if kind == "decimal":
        return pa.array(values(column), pa.float64())
    if kind != "text":
        return column
    blank = pc.invert(pc.match_substring_regex(column, "[!-~]"))
    if pc.any(blank).as_py():
        blank = each(column, is_blank, "bool")
    return pc.if_else(blank, pa.scalar(None, column.type), column)


def _sort(by: Sequence[tuple[str, str]], schema: pa.Schema, at: Place, batches: Batches) -> Batches:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = _held(batches, schema, at)
    keys = [_rank(_key(arrow.plain(table.column(name)))) for name, _ in by]
    keyed = pa.Table.from_arrays(keys, [str(n) for n in range(len(by))])
    order = pc.sort_indices(keyed, sort_keys=[(str(n), order) for n, (_, order) in enumerate(by)])  # stable, nulls last
    yield from _taken(table, order)


def _taken(table: pa.Table, rows: pa.Array) -> Batches:
    """Yield the rows of a table with these numbers in batches: all at once would need twice the memory."""
    import pyarrow as pa

    columns = [arrow.plain(column) for column in table.columns]
    for start in range(0, len(rows), arrow.BATCH):
        some = rows.slice(start, arrow.BATCH)
        yield pa.RecordBatch.from_arrays([column.take(some) for column in columns], schema=table.schema)


def _rank(column: pa.Array) -> pa.Array:
    """Return texts as their ranks, so that repeated texts are compared once."""
    import pyarrow.compute as pc

    if arrow.family(column.type) != "text":
        return column
    known = column.dictionary_encode()
    return pc.array_sort_indices(pc.array_sort_indices(known.dictionary)).take(known.indices)


def _deduplicate(by: Sequence[str], keep: str, schema: pa.Schema, at: Place, batches: Batches) -> Batches:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = _held(batches, schema, at)
    size = table.num_rows
    if not size:
        return
    codes: Any = None
    none: Any = None
    for name in by:
        key = _key(arrow.plain(table.column(name)))
        blank = pc.is_null(key)
        none = blank if none is None else pc.and_(none, blank)
        known = key.dictionary_encode(null_encoding="encode")
        found = known.indices.cast(pa.int64())
        if codes is not None:  # both are smaller than the number of rows
            found = pc.add(pc.multiply(codes, arrow.number(len(known.dictionary))), found)
            found = found.dictionary_encode().indices.cast(pa.int64())
        codes = found
    back = pc.array_sort_indices(arrow.numbers(size), order="descending") if keep == "last" else None
    # Counted in the order in which they first come, a key is new if it is past all before it.
    counts = (codes if back is None else codes.take(back)).dictionary_encode().indices.cast(pa.int64())
    before = pa.concat_arrays([arrow.numbers(1, -1), pc.cumulative_max(counts).slice(0, size - 1)])
    fresh = pc.greater(counts, before)
    stays = pc.or_(fresh if back is None else fresh.take(back), none)
    yield from _taken(table, pc.indices_nonzero(stays))
