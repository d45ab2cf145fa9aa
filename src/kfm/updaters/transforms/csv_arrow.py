"""Runs steps that only choose and order rows over a large plain CSV with Arrow: the same bytes as the text engine
writes, in a fraction of the time.

It returns the output, or None before any output is made; then the text engine does the work. It accepts only input
that both engines certainly read alike: UTF-8 without a byte order mark, lines that end with `\\n`, no quote, no NUL.
The text engine decides, once per distinct text, what a text means (blank, a number, a pattern). Without pyarrow, and
in other languages, the text engine writes the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, BinaryIO

from kfm.model.csv_format import line_of
from kfm.model.records import Layout
from kfm.model.transform_config import SortConfig, StepConfig, sort_keys
from kfm.parsing import arrow
from kfm.parsing.encodings import encoding_of
from kfm.updaters.transforms.filter_conditions import mask_of
from kfm.updaters.transforms.step_columns import after, check
from kfm.updaters.transforms.step_values import is_blank
from kfm.updaters.transforms.transform_errors import Place

if TYPE_CHECKING:
    import pyarrow as pa

LEAST = 4 << 20  # bytes of a source: a smaller one is finished before Arrow is imported
MOST = 256 << 20  # a larger source need not fit into memory: the text engine uses scratch files
BLOCK = 1 << 20  # bytes that Arrow reads together
_CODES = 2**62
_OFFSET = struct.Struct("=i")
_MARK = b"\xef\xbb\xbf"
Steps = Sequence[tuple[StepConfig, Place]]


def is_for(size: int, layout: Layout, steps: Steps) -> bool:
    """Return whether a source of this size and layout, with these steps, suits the Arrow engine."""
    return (
        LEAST <= size <= MOST
        and bool(steps)
        and encoding_of(layout.encoding) == "utf-8"
        and layout.delimiter.isascii()
        and not any(step.cast or step.join is not None for step, _ in steps)
    )


def read_columns(open_body: Callable[[], BinaryIO], layout: Layout) -> Columns | None:
    """Return the columns of a CSV table; None if the text engine must make the output."""
    try:
        import pyarrow as pa
        import pyarrow.csv
    except ModuleNotFoundError:
        return None
    with open_body() as file:
        body = file.read(MOST + 1)
    if not _is_plain(body, layout.delimiter):
        return None
    start, names = 0, list(layout.columns)
    if not names:
        start = len(body) - len(body.lstrip(b"\n"))
        end = body.find(b"\n", start)
        if end < 0:
            return None
        try:
            names, start = body[start:end].decode().split(layout.delimiter), end + 1
        except UnicodeDecodeError:
            return None
    if body.startswith(_MARK, start):  # Arrow would drop it
        return None
    try:
        table = _read(memoryview(body)[start:], layout.delimiter, len(names))
    except (pa.ArrowInvalid, pa.ArrowCapacityError):  # the text engine reports what is wrong
        return None
    return Columns(names, table)


def table_as_csv(found: Columns, steps: Steps) -> Iterator[bytes]:
    """Yield the output of the steps over the columns of a CSV table."""
    names = found.names
    for step, place in steps:  # check all names first, as the text engine does
        check(names, step, place, pointers=False)
        names = after(names, step)
    for step, _ in steps:
        found.take(step)
    return found.lines()


def _is_plain(body: bytes, delimiter: str) -> bool:
    odd = (b'"', b"\r", b"\0", *([b","] if delimiter != "," else []))
    return 0 < len(body) <= MOST and not body.startswith(_MARK) and not any(sign in body for sign in odd)


def _read(body: memoryview, delimiter: str, width: int) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv as reader

    names = [str(i) for i in range(width)]
    return reader.read_csv(
        pa.BufferReader(pa.py_buffer(body)),
        reader.ReadOptions(column_names=names, block_size=BLOCK),
        reader.ParseOptions(
            delimiter=delimiter, quote_char=False, escape_char=False, newlines_in_values=False, ignore_empty_lines=True
        ),
        reader.ConvertOptions(
            check_utf8=True,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[],
            strings_can_be_null=False,
            auto_dict_encode=False,
        ),
    )


def _masked(column: pa.Array, mask: Callable[[list[str]], list[bool]]) -> pa.Array:
    """Return which rows of a column a filter keeps. The filter `mask` is applied once to each distinct text."""
    known = column.dictionary_encode()
    texts = known.dictionary.to_pylist()
    return arrow.truths(mask(texts) if texts else []).take(known.indices)


class Columns:
    """The texts of a table and their column names. It tracks the remaining rows and their order by row number; the
    table is read again when they are written."""

    def __init__(self, names: Sequence[str], table: pa.Table) -> None:
        self._names = list(names)
        self._columns = [arrow.plain(column) for column in table.columns]
        self._rows: Any = None  # None: all rows in source order

    def _column(self, name: str) -> pa.Array:
        column = self._columns[self._names.index(name)]
        return column if self._rows is None else column.take(self._rows)

    def keep(self, mask: pa.Array) -> None:
        import pyarrow.compute as pc

        self._rows = pc.indices_nonzero(mask) if self._rows is None else self._rows.filter(mask)

    @property
    def names(self) -> list[str]:
        return list(self._names)

    def at(self, rows: Any) -> Columns:
        """Return some rows of these columns, which share their texts."""
        found = copy(self)
        found._rows = rows
        return found

    def take(self, step: StepConfig) -> None:
        """Apply one step to these columns. The caller has checked that the columns of the step exist."""
        if step.select:
            self._columns = [self._columns[self._names.index(name)] for name in step.select]
            self._names = list(step.select)
        elif step.rename:
            self._names = after(self._names, step)
        elif step.filter is not None:
            self.keep(_masked(self._column(step.filter.column), mask_of(step.filter)))
        elif step.deduplicate is not None:
            self._deduplicate(step.deduplicate.by, last=step.deduplicate.keep == "last")
        else:
            self._sort(sort_keys(step))

    def _sort(self, keys: Sequence[SortConfig]) -> None:
        import pyarrow.compute as pc

        codes = _Codes()
        for key in keys:
            codes.add(self._column(key.column), ordered=True, descending=key.descending)
        order = pc.array_sort_indices(codes.found)  # stable
        self._rows = order if self._rows is None else self._rows.take(order)

    def _deduplicate(self, by: Sequence[str], *, last: bool) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        codes = _Codes()
        for name in by:
            codes.add(self._column(name))
        size = len(codes.found)
        if not size:
            return
        back = pc.array_sort_indices(arrow.numbers(size), order="descending") if last else None
        found = codes.found.take(back) if last else codes.found
        # Keys are numbered in order of first occurrence, so a key is new if its number exceeds all before it.
        counts = found.dictionary_encode().indices.cast(pa.int64())
        before = pa.concat_arrays([arrow.numbers(1, -1), pc.cumulative_max(counts).slice(0, size - 1)])
        fresh = pc.greater(counts, before)
        self.keep(pc.or_(fresh.take(back) if last else fresh, codes.blank))

    def lines(self) -> Iterator[bytes]:
        """Yield the remaining rows as lines, in the form that the text engine writes."""
        yield (line_of(self._names) + "\n").encode()
        size = len(self._columns[0]) if self._rows is None else len(self._rows)
        for start in range(0, size, arrow.BATCH):
            if self._rows is None:
                yield _text_of([column.slice(start, arrow.BATCH) for column in self._columns])
            else:
                some = self._rows.slice(start, arrow.BATCH)
                yield _text_of([column.take(some) for column in self._columns])


class Parted:
    """The columns of a table, and which rows each partition has."""

    def __init__(self, found: Columns, column: str) -> None:
        import pyarrow.compute as pc

        known = found._column(column).dictionary_encode()
        self._found = found
        self._order = pc.array_sort_indices(known.indices)  # stable
        self._places: dict[str, tuple[int, int]] = {}
        sizes = {each["values"]: each["counts"] for each in pc.value_counts(known.indices).to_pylist()}
        begin = 0
        for code, text in enumerate(known.dictionary.to_pylist()):
            self._places[text] = begin, sizes[code]
            begin += sizes[code]

    @classmethod
    def of(cls, open_body: Callable[[], BinaryIO], layout: Layout, column: str) -> Parted | None:
        """Return the columns of a CSV table by partition; None if the text engine must make the outputs."""
        found = read_columns(open_body, layout)
        return None if found is None else cls(found, column)

    def only(self, partition: str) -> Columns:
        """Return the columns with only the rows of one partition."""
        return self._found.at(self._order.slice(*self._places.get(partition, (0, 0))))


class _Codes:
    """One number per row for its keys: equal for equal keys, and in key order if requested. Blank texts are equal and
    last."""

    def __init__(self) -> None:
        self.found: Any = None
        self.blank: Any = None  # rows in which every key is blank
        self._count = 1

    def add(self, column: pa.Array, *, ordered: bool = False, descending: bool = False) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        known = column.dictionary_encode()
        texts = known.dictionary
        size = len(texts)
        codes = arrow.numbers(size)
        if ordered:
            order = pc.array_sort_indices(texts, order="descending" if descending else "ascending")
            codes = pc.array_sort_indices(order).cast(pa.int64())
        blank = _blanks(texts)
        codes = pc.if_else(blank, arrow.number(size), codes).take(known.indices)
        blank = blank.take(known.indices)
        if self.found is None:
            self.found, self.blank, self._count = codes, blank, size + 1
            return
        if self._count * (size + 1) >= _CODES:
            self._dense()
        self.found = pc.add(pc.multiply(self.found, arrow.number(size + 1)), codes)
        self.blank = pc.and_(self.blank, blank)
        self._count *= size + 1

    def _dense(self) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        values = pc.unique(self.found).sort()
        self.found = pc.index_in(self.found, value_set=values).cast(pa.int64())
        self._count = max(len(values), 1)


def _blanks(texts: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    doubtful = pc.invert(pc.match_substring_regex(texts, "[!-~]"))
    if not pc.any(doubtful).as_py():
        return doubtful
    asked = {text: is_blank(text) for text in texts.filter(doubtful).to_pylist()}
    some = pa.array([text for text, blank in asked.items() if blank], pa.string())
    return pc.is_in(texts, value_set=some)


def _text_of(columns: Sequence[pa.Array]) -> bytes:
    """Return columns as CSV lines; no field may hold a comma, a quote or a line end."""
    import pyarrow.compute as pc

    if len(columns) == 1:
        columns = [pc.if_else(pc.equal(columns[0], arrow.text("")), arrow.text('""'), columns[0])]
    *first, last = columns
    lines = pc.binary_join_element_wise(
        *first, pc.binary_join_element_wise(last, arrow.text(""), arrow.text("\n")), arrow.text(",")
    )
    _, offsets, values = lines.buffers()  # the values are contiguous
    (start,), (end,) = (_OFFSET.unpack_from(offsets, 4 * at) for at in (lines.offset, lines.offset + len(lines)))
    return bytes(values[start:end])
