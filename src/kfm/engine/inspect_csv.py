"""CSV against its contract: whole batches in C loops, single rows only where a batch looks wrong.

- Blank lines are no rows. Quotes must close and be doubled inside quotes; otherwise the source is held.
- The header must name every column once; otherwise the source is held.
- A row with too few or too many fields is held as a row (`csv.ragged`); if any column is `freeze`, or
  other columns are, it holds the source, because nobody can say which field it lacks.
- A column that is required and absent holds the source, unless its mode is `evolve`; one that is merely
  absent, or unknown under `evolve`, is noted.
- What passes is written only once something was discarded: same columns, delimiter and encoding, `\\n`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import BinaryIO, NamedTuple

from kfm.contract.encodings import writing
from kfm.contract.records import DataContract, Layout
from kfm.contract.tables import Block, Table
from kfm.engine.inspect_columns import ColumnCheck
from kfm.engine.inspect_findings import MAX_FINDINGS, NOTE, SOURCE, Outcome, Unreadable, Violation
from kfm.engine.inspect_partitions import Partitions
from kfm.engine.inspect_text import MAX_LINE, line_blocks
from kfm.errors import BadInput

Rows = list[list[str]]


def allow_long_fields() -> None:
    """Let the csv module read fields as long as an inspection admits; its own limit is for the whole process."""
    if csv.field_size_limit() < MAX_LINE:
        csv.field_size_limit(MAX_LINE)


def inspect_csv(
    open_body: Callable[[], BinaryIO], contract: DataContract, out: Outcome, accept: Callable[[bytes], None]
) -> None:
    allow_long_fields()
    with closing(open_body()) as body:
        table = _Table(body, contract)
        names = _header(table, contract, out)
        if names is not None:
            inspector = _Inspector(names, contract, out, _Accepted(open_body, contract, names, accept))
            for rows in table.batches():
                inspector.take(rows)
            inspector.accepted.end()
            out.changed = inspector.accepted.begun
    if table.flaw is not None:
        # Row 0 if not even the header could be read.
        row = out.rows + 1 if names is not None else 0
        out.add(SOURCE, table.flaw.rule, table.flaw.message, row)


def read_table(body: BinaryIO, layout: Layout, name: str) -> Table:
    """A table that was inspected before, for whoever makes something of it."""
    allow_long_fields()
    table = _Table(body, layout)
    names = list(layout.columns) or table.first() or []

    def blocks() -> Iterator[Block]:
        with closing(body):
            for rows in table.batches():
                if set(map(len, rows)) != {len(names)}:
                    raise BadInput(f"{name} has a row with more or fewer fields than there are columns")
                yield Block(len(names), len(rows), rows=rows)
            if table.flaw is not None:
                raise BadInput(f"{name}: {table.flaw.message}")

    return Table(names, blocks())


class _Table:
    """Parsed rows in batches of about a block. Stops at what it cannot read and keeps it in `flaw`."""

    def __init__(self, body: BinaryIO, contract: DataContract | Layout) -> None:
        self.flaw: Unreadable | None = None
        self._turned = False  # a new block was begun since the last batch
        self._open = 0  # characters handed to the parser since it last gave a row
        lines = chain.from_iterable(self._lines(body, contract.encoding))
        self._reader = csv.reader(lines, delimiter=contract.delimiter, strict=True)

    def _lines(self, body: BinaryIO, encoding: str) -> Iterator[Iterator[str]]:
        for block in line_blocks(body, encoding):
            if self._open > MAX_LINE:
                raise Unreadable("too-long", f"a row is longer than {MAX_LINE:,} characters; the source is held")
            self._open += len(block)
            self._turned = True
            yield io.StringIO(block, newline="")

    def first(self) -> list[str] | None:
        for rows in self._read(1):
            return rows[0]
        return None

    def batches(self) -> Iterator[Rows]:
        for rows in self._read(0):
            filled = rows if all(rows) else [row for row in rows if row]
            if filled:
                yield filled

    def _read(self, limit: int) -> Iterator[Rows]:
        rows: Rows = []
        try:
            for row in self._reader:
                if row or not limit:
                    rows.append(row)
                if self._turned or limit:
                    self._open = 0
                    self._turned = False
                    if rows:
                        yield rows
                        rows = []
        except Unreadable as flaw:
            self.flaw = flaw
        except csv.Error as error:
            if "limit" in str(error):
                self.flaw = Unreadable("too-long", f"a field is over {MAX_LINE:,} characters long; the source is held")
            else:
                self.flaw = Unreadable("csv.quotes", "quotes are not closed or not doubled; the source is held")
        if rows:
            yield rows


def _header(table: _Table, contract: DataContract, out: Outcome) -> list[str] | None:
    """The names of the columns, or None if the source cannot be read by columns."""
    if not contract.header:
        return [column.name for column in contract.columns]
    names = table.first()
    if names is None:
        if table.flaw is None:
            out.add(SOURCE, "csv.header", "there is no header; the source is held")
        return None
    first: dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if out.counts.get("csv.header", 0) == MAX_FINDINGS:
            break
        if not name.strip():
            out.add(SOURCE, "csv.header", f"column {position} of the header has no name; the source is held")
        elif name in first:
            message = f"columns {first[name]} and {position} of the header have one name; the source is held"
            out.add(SOURCE, "csv.header", message)
        first.setdefault(name, position)
    return None if out.held else names


class _Sink(NamedTuple):
    write: Callable[[str], object]


class _Accepted:
    """Writes what passed, from the moment that differs from what came."""

    def __init__(
        self,
        open_body: Callable[[], BinaryIO],
        contract: DataContract,
        names: list[str],
        accept: Callable[[bytes], None],
    ) -> None:
        known = {column.name for column in contract.columns}
        drops = contract.other_columns == "discard-value"
        self.kept = [i for i, name in enumerate(names) if not drops or name in known]
        self.drops = len(self.kept) < len(names)
        self.begun = False
        self._open_body = open_body
        self._contract = contract
        self._names = names
        self._accept = accept
        self._lines: list[str] = []
        # Until Python 3.13 a lone \r is quoted only if the line ending has one.
        self._writer = csv.writer(_Sink(self._lines.append), delimiter=contract.delimiter, lineterminator="\r\n")
        self._codec, self._mark = writing(contract.encoding)

    def begin(self, passed: int) -> None:
        """Start with the first `passed` rows, read once more: none of them was changed."""
        self.begun = True
        if self._contract.header:
            self.write([self._names])
        if not passed:
            return
        with closing(self._open_body()) as body:
            table = _Table(body, self._contract)
            if self._contract.header:
                table.first()
            for rows in table.batches():
                self.write(rows[:passed])
                passed -= len(rows)
                if passed <= 0:
                    return

    def write(self, rows: Rows) -> None:
        if self.drops:
            kept = self.kept
            rows = [[row[i] for i in kept] for row in rows]
        self._writer.writerows(rows)
        text = "".join([line[:-2] + "\n" for line in self._lines])
        self._lines.clear()
        if text:
            try:
                chunk = self._mark + text.encode(self._codec)
            except UnicodeEncodeError:
                raise BadInput(
                    f"what passed cannot be written in {self._contract.encoding} again", hint="declare another encoding"
                ) from None
            self._mark = b""
            self._accept(chunk)

    def end(self) -> None:
        if self.begun and self._mark:
            self._accept(self._mark)


class _Inspector:
    def __init__(self, names: list[str], contract: DataContract, out: Outcome, accepted: _Accepted) -> None:
        self.accepted = accepted
        self._names = names
        self._width = len(names)
        self._out = out
        place = {name: position for position, name in enumerate(names)}
        checks = [(place[c.name], ColumnCheck(c)) for c in contract.columns if c.name in place]
        self._checks = [(position, check) for position, check in checks if not check.trivial]
        self._unique = [(position, check) for position, check in self._checks if check.unique]
        frozen = "freeze" in (contract.other_columns, *(column.mode for column in contract.columns))
        message = "the row has more or fewer fields than there are columns"
        self._ragged: Violation = ("", "csv.ragged", "freeze" if frozen else "discard-row", message)
        self._partitions = Partitions(contract, out)
        self._partition = place.get(contract.partition_by, -1)
        self._compare(names, contract)
        if accepted.drops and not out.held:
            accepted.begin(0)

    def _compare(self, names: Sequence[str], contract: DataContract) -> None:
        """The header against the contract. Unknown names are told only if it is a header beyond doubt."""
        present = set(names)
        known = {column.name for column in contract.columns}
        for column in contract.columns:
            if column.name in present:
                continue
            if column.required and column.mode != "evolve":
                message = "the column is required and is not there; the source is held"
                self._out.add(SOURCE, "column.missing", message, column=column.name)
            else:
                self._out.add(NOTE, "column.missing", "the column is not there; noted only", column=column.name)
        if contract.partition_by and contract.partition_by not in present:
            message = "the column to partition by is not there; the source is held"
            self._out.add(SOURCE, "column.missing", message, column=contract.partition_by)
        if known:
            sure = not known.isdisjoint(present)
            for position, name in enumerate(names, 1):
                if name not in known:
                    shown = name if sure else f"#{position}"
                    self._out.other_column(name, shown, contract.other_columns, 0)

    def take(self, rows: Rows) -> None:
        if not rows:
            return
        out = self._out
        passed = out.rows
        out.rows += len(rows)
        whole = set(map(len, rows)) == {self._width}
        columns = list(zip(*(rows if whole else [row for row in rows if len(row) == self._width]), strict=True))
        suspects = [pair for pair in self._checks if columns and not pair[1].all_fine(columns[pair[0]])]
        if whole and not suspects:
            for position, check in self._unique:
                check.saw_all(columns[position])
            if self._partition >= 0:
                self._partitions.add(columns[self._partition])
            if self.accepted.begun and not out.held:
                self.accepted.write(rows)
            return
        doubts = [(place, check, check.doubtful(columns[place])) for place, check in suspects]
        kept, changed = self._sift(rows, doubts)
        if self._partition >= 0:
            self._partitions.add([row[self._partition] for row in kept])
        if out.held or not (changed or self.accepted.begun):
            return
        if not self.accepted.begun:
            self.accepted.begin(passed)
        self.accepted.write(kept)

    def _sift(self, rows: Rows, doubts: list[tuple[int, ColumnCheck, set[str]]]) -> tuple[Rows, bool]:
        """The rows that pass, and whether anything was discarded."""
        out = self._out
        kept: Rows = []
        changed = False
        for number, row in enumerate(rows, out.rows - len(rows) + 1):
            if len(row) != self._width:
                out.judge(number, [self._ragged], partial(_unnamed, row))
                changed = True
                continue
            broken = [
                (place, check, rule)
                for place, check, doubt in doubts
                if row[place] in doubt and (rule := check.broken_rule(row[place]))
            ]
            if broken:
                violations = [check.violation(rule) for _, check, rule in broken]
                if out.judge(number, violations, partial(_named, self._names, row)):
                    changed = True
                    continue
                for place, check, _ in broken:
                    if check.mode == "discard-value":
                        row[place] = ""
                        changed = True
            for place, check in self._unique:
                check.saw(row[place])
            kept.append(row)
        return kept, changed


def _unnamed(row: list[str]) -> dict[str, list[str]]:
    return {"#": row}


def _named(names: list[str], row: list[str]) -> dict[str, str]:
    return dict(zip(names, row, strict=True))
