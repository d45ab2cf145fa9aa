"""Rows of a table as text: comma-separated, `\\n` at the end of each, quotes only where they are needed.

A field is quoted if it holds a comma, a quote or a line ending; quotes inside are doubled. A row of one
empty field is `""`, so that it is not a blank line. Equal rows are equal bytes, in any language.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

Columns = Sequence[Sequence[str]]


class Block:
    """Some rows of a table, as lines, as rows or as columns: each is made from another when it is asked for.

    All rows have `width` fields. Lines are in the form above, without their endings.
    """

    __slots__ = ("_columns", "_lines", "_rows", "_separated", "size", "width")

    def __init__(
        self,
        width: int,
        size: int,
        *,
        columns: Columns | None = None,
        rows: list[list[str]] | None = None,
        lines: list[str] | None = None,
        separated: list[str] | None = None,
    ) -> None:
        """`separated`: lines without a quote, whose fields are all there is between the commas."""
        self.width = width
        self.size = size
        self._columns = columns
        self._rows = rows
        self._lines = lines if lines is not None else separated
        self._separated = separated

    @property
    def columns(self) -> Columns:
        if self._columns is None:
            if self._separated is not None:
                flat = ",".join(self._separated).split(",")
                self._columns = [flat[i :: self.width] for i in range(self.width)]
            else:
                self._columns = list(zip(*self.rows, strict=True)) or [()] * self.width
        return self._columns

    @property
    def rows(self) -> Iterable[Sequence[str]]:
        if self._rows is not None:
            return self._rows
        if self._columns is None and self._lines is not None and self._separated is None:
            self._rows = parsed(self._lines)
            return self._rows
        return zip(*self.columns, strict=True)

    @property
    def given_lines(self) -> list[str] | None:
        """The lines, if nobody has to make them."""
        return self._lines

    @property
    def lines(self) -> list[str]:
        if self._lines is None:
            self._lines = lines_of(self.columns, self.size)
        return self._lines


class Table(NamedTuple):
    """A table as it is read: the names of its columns, and its rows block by block."""

    names: Sequence[str]
    blocks: Iterator[Block]


def parsed(lines: list[str]) -> list[list[str]]:
    """Lines in the form above as rows; a line ending inside quotes is within one line."""
    import csv

    if not any('"' in line for line in lines):
        return [line.split(",") for line in lines]
    return list(csv.reader([line + "\n" for line in lines], strict=True))


def lines_of(columns: Columns, size: int) -> list[str]:
    """Columns as lines. Only columns that hold a sign are looked at field by field."""
    shown = [_quoted(column) for column in columns]
    if len(shown) == 1:
        return [field or '""' for field in shown[0]]
    return list(map(",".join, zip(*shown, strict=True))) if shown else [""] * size


def line_of(row: Sequence[str]) -> str:
    return ",".join(map(_field, row)) if len(row) != 1 or row[0] else '""'


def _quoted(column: Sequence[str]) -> Sequence[str]:
    joined = "".join(column)
    if "," in joined or '"' in joined or "\n" in joined or "\r" in joined:
        return list(map(_field, column))
    return column


def _field(text: str) -> str:
    if "," in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text
