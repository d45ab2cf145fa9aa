"""Turns text into rows of fields, a block at a time.

A block without quotes is split at its delimiters, which gives the same result as the csv module. The csv module reads a
block with quotes: in one go if a row ends with the block, row by row if not.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import BinaryIO

from kfm.errors import BadInput
from kfm.model.csv_format import Block, Table, separated
from kfm.model.records import DataContract, Layout
from kfm.validation import text_blocks as inspect_text
from kfm.validation.findings import Unreadable
from kfm.validation.table_preamble import skips_of

Rows = list[list[str]]


def allow_long_fields() -> None:
    """Raise the field limit of the csv module, which holds for the whole process, to the length that a check admits."""
    if csv.field_size_limit() < inspect_text.MAX_LINE:
        csv.field_size_limit(inspect_text.MAX_LINE)


def read_table(body: BinaryIO, layout: Layout, name: str) -> Table:
    """Return a table that was checked before, as rows in blocks."""
    table = TableReader(body, layout)
    names = list(layout.columns) or table.first() or []

    def blocks() -> Iterator[Block]:
        with closing(body):
            for batch in table.batches(len(names)):
                if not isinstance(batch, Block):
                    raise BadInput(f"{name} has a row with more or fewer fields than there are columns")
                yield batch
            if table.flaw is not None:
                raise BadInput(f"{name}: {table.flaw.message}")

    return Table(names, blocks())


class TableReader:
    """Reads rows from text in batches of about a block. It stops at the first flaw that it cannot read, and keeps it in
    `flaw`."""

    def __init__(self, body: BinaryIO, layout: DataContract | Layout) -> None:
        allow_long_fields()
        self.flaw: Unreadable | None = None
        self._delimiter = layout.delimiter
        self._blocks = inspect_text.line_blocks(body, layout.encoding)
        self._skips = skips_of(layout) if isinstance(layout, DataContract) else None
        if self._skips is not None:
            self._blocks = self._skips.table(self._blocks, layout.delimiter)
        self._rest = ""  # of the block with the header
        self._open = 0  # characters of the blocks since the last one that gave a row
        self._gave = False  # the block gave a row
        self._current = io.StringIO()
        self._end = 0

    def first(self) -> list[str] | None:
        """Return the first row that is not blank, None if there is none, and skip the blank lines below it."""
        found: list[str] | None = None
        after = self._skips.after_header if self._skips is not None else 0
        try:
            while (block := self._next()) is not None:
                for row in self._one_by_one(block):
                    if row and found is not None:
                        after -= 1
                    found = found or row or None
                    if found is not None and after <= 0:
                        self._rest = self._current.read()
                        return found
        except (Unreadable, csv.Error) as problem:
            self.flaw = _flaw(problem)
            return None
        return found

    def batches(self, width: int) -> Iterator[Block | Rows]:
        """Yield the rows after the first one, without blank lines, in batches; a batch is a block if all its rows have
        `width` fields."""
        if self.flaw is not None:
            return
        try:
            block: str | None = self._rest or self._next()
            while block is not None:
                yield from self._batch(block, width)
                block = self._next()
        except (Unreadable, csv.Error) as problem:
            self.flaw = _flaw(problem)

    def _next(self) -> str | None:
        if self._gave:
            self._open, self._gave = 0, False
        block = next(self._blocks, None)
        if block is None:
            return None
        if self._open > inspect_text.MAX_LINE:
            limit = f"{inspect_text.MAX_LINE:,}"
            raise Unreadable("too-long", f"a row is longer than {limit} characters; the source is held")
        self._open += len(block)
        return block

    def _batch(self, block: str, width: int) -> Iterator[Block | Rows]:
        if '"' not in block and len(block) <= inspect_text.MAX_LINE:
            self._gave = True
            batch = self._split(block, width)
            if batch is not None:
                yield batch
            return
        rows: Rows | None = None
        if not block.count('"') % 2:  # else a quote is open at its end, or stands where it means nothing
            rows = self._at_once(block)
        if rows is not None:
            yield from _filled(rows, width)
            return
        rows = []
        try:
            for row in self._one_by_one(block):
                rows.append(row)
        except (Unreadable, csv.Error):
            yield from _filled(rows, width)
            raise
        yield from _filled(rows, width)

    def _split(self, block: str, width: int) -> Block | Rows | None:
        text = block.replace("\r\n", "\n").replace("\r", "\n") if "\r" in block else block
        text = text.removesuffix("\n")
        # A blank line is a row of the wrong width, unless there is one column.
        columns = separated(text, self._delimiter, width) if width > 1 else None
        if columns is None:
            text = "\n".join([line for line in text.split("\n") if line])
            if not text:
                return None
            columns = separated(text, self._delimiter, width)
        if columns is None:
            return [line.split(self._delimiter) for line in text.split("\n")]
        plain: str | None = text
        if self._delimiter != ",":
            plain = None if "," in text else text.replace(self._delimiter, ",")
        return Block(width, len(columns[0]), columns=columns, text=plain)

    def _at_once(self, block: str) -> Rows | None:
        """Return the rows of a block whose last row is complete. None if the csv module refuses the block: it must then
        be read row by row."""
        try:
            rows = list(csv.reader(io.StringIO(block, newline=""), delimiter=self._delimiter, strict=True))
        except csv.Error:
            return None
        self._gave = True
        return rows

    def _one_by_one(self, block: str) -> Iterator[list[str]]:
        """Return the rows of a block. If its last row continues in the next blocks, return the rows of those too."""
        self._begin(block)
        lines = chain.from_iterable(self._opened())
        reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
        while self._current.tell() < self._end:
            row = next(reader)
            self._gave = True
            yield row

    def _opened(self) -> Iterator[io.StringIO]:
        yield self._current
        while (block := self._next()) is not None:  # asked for in the middle of a row only
            self._begin(block)
            yield self._current

    def _begin(self, block: str) -> None:
        self._current = io.StringIO(block, newline="")
        self._end = len(block)


def _filled(rows: Rows, width: int) -> Iterator[Block | Rows]:
    filled = rows if all(rows) else [row for row in rows if row]
    if filled:
        yield Block(width, len(filled), rows=filled) if set(map(len, filled)) == {width} else filled


def _flaw(problem: Unreadable | csv.Error) -> Unreadable:
    if isinstance(problem, Unreadable):
        return problem
    if "limit" in str(problem):
        limit = f"{inspect_text.MAX_LINE:,}"
        return Unreadable("too-long", f"a field is over {limit} characters long; the source is held")
    return Unreadable("csv.quotes", "quotes are not closed or not doubled; the source is held")
