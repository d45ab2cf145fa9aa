"""Rows of a table as text: separated by commas, ended by `\\n`, quoted only where necessary.

A field is quoted if it holds a comma, a quote or a line ending; quotes inside are doubled. A row of one
empty field is `""`, so that it is not a blank line. Equal rows give equal bytes in every language.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

Columns = Sequence[Sequence[str]]


class Block:
    """Some rows of a table, as text, lines, rows or columns; each form is built from another on first use.

    All rows have `width` fields, and there is at least one row. Lines have the form above, without line endings.
    """

    __slots__ = ("_columns", "_lines", "_rows", "_text", "size", "width")

    def __init__(
        self,
        width: int,
        size: int,
        *,
        columns: Columns | None = None,
        rows: list[list[str]] | None = None,
        text: str | None = None,
    ) -> None:
        r"""`text` holds the lines joined by `\n`; none of them may have a quote."""
        self.width = width
        self.size = size
        self._columns = columns
        self._rows = rows
        self._text = text
        self._lines: list[str] | None = None

    @classmethod
    def of_lines(cls, lines: list[str], width: int) -> Block:
        """Return a block of lines that already have the canonical form: separated by commas, quoted only where
        necessary."""
        block = cls(width, len(lines))
        block._lines = lines
        return block

    def _read_lines(self) -> None:
        assert self._lines is not None
        text = "\n".join(self._lines)
        if '"' in text:
            self._rows = parsed(self._lines)
        else:
            self._text = text

    @property
    def columns(self) -> Columns:
        if self._columns is None:
            if self._text is None and self._rows is None:
                self._read_lines()
            if self._text is not None:
                flat = self._text.replace("\n", ",").split(",")
                self._columns = [flat[i :: self.width] for i in range(self.width)]
            else:
                assert self._rows is not None
                self._columns = list(zip(*self._rows, strict=True))
        return self._columns

    @property
    def rows(self) -> list[list[str]]:
        if self._rows is None:
            columns = self.columns  # may set `_rows`
            self._rows = self._rows or list(map(list, zip(*columns, strict=True)))
        return self._rows

    def given_text(self) -> str | None:
        r"""Return the rows as one text, lines joined by `\n`, if the block has it; else None. No line of it has a
        quote."""
        return self._text

    def given_lines(self) -> list[str] | None:
        """Return the rows as lines if that needs no formatting: the block has lines, or a text that only has to be
        split. Else None."""
        if self._lines is None and self._text is not None:
            self._lines = self._text.split("\n")
        return self._lines


class Table(NamedTuple):
    """The column names of a table, and its rows in blocks."""

    names: Sequence[str]
    blocks: Iterator[Block]


def holds_rows(media_type: str, body: bytes) -> bool:
    """Return whether the output of a declared updater has rows, rather than only a header or an empty list."""
    if media_type == "application/vnd.apache.parquet":
        from kfm.parsing.parquet_footer import footer_of  # only Parquet needs it

        footer = footer_of(body)
        return footer is None or footer.rows > 0
    if not media_type.startswith("text/csv"):
        return body not in (b"", b"[]", b'{"features":[],"type":"FeatureCollection"}')
    end = quotes = 0
    for line in body.split(b"\n"):
        end += len(line) + 1
        quotes += line.count(b'"')
        if not quotes % 2:  # the header ends here: a line end inside quotes belongs to a name
            break
    return end < len(body)


def separated(text: str, delimiter: str, width: int) -> Columns | None:
    """Return the columns of lines joined by `\\n` without quotes or blank lines; None if a line does not have
    `width` fields."""
    # The line endings become fields of their own: each must be at the end of a row.
    spread = text.replace("\n", f"{delimiter}\n{delimiter}")
    flat = spread.split(delimiter)
    stride = width + 1
    rows, rest = divmod(len(flat) + 1, stride)
    endings = (len(spread) - len(text)) // 2
    if rest or endings != rows - 1 or flat[width::stride] != ["\n"] * endings:
        return None
    return [flat[i::stride] for i in range(width)]


def parsed(lines: Iterable[str]) -> list[list[str]]:
    """Return the rows of lines in canonical form; a line ending inside quotes is part of its line."""
    import csv

    return list(csv.reader([line + "\n" for line in lines], strict=True))


def lines_of(columns: Columns, size: int) -> list[str]:
    """Return the lines of columns. Only columns that contain special characters are checked field by field."""
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
