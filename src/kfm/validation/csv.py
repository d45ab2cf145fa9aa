r"""Checks a CSV source against its contract: whole batches in C loops, single rows only where a batch looks wrong.

- Blank lines are no rows. Quotes must be closed, and doubled inside quotes; otherwise the source is quarantined.
- The header must name every column once; otherwise the source is quarantined.
- A row with too few or too many fields is quarantined (`csv.ragged`). If a column, or `other_columns`, has the mode
  `freeze`, it quarantines the source, because the reader cannot know which field is missing.
- A missing required column quarantines the source, unless its mode is `evolve`. A missing optional column, and an
  unknown column under `evolve`, are noted.
- The accepted rows are written only if something was discarded: with the same columns, delimiter and encoding, and
  `\n`. Skipped lines and comments count as discarded, so that the next reader finds only the table.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import compress
from typing import BinaryIO, NamedTuple

from kfm.errors import BadInput
from kfm.model.csv_format import Block, Columns
from kfm.model.records import DataContract
from kfm.parsing.encodings import output_codec
from kfm.validation.column_rules import REMEMBERED, ColumnCheck
from kfm.validation.findings import MAX_FINDINGS, NOTE, SOURCE, Outcome, Violation
from kfm.validation.partition_values import Partitions
from kfm.validation.table_preamble import skips_of
from kfm.validation.text_rows import Rows, TableReader

Doubts = list[tuple[int, ColumnCheck, set[str]]]  # column, check, values that must be checked one by one
Broken = list[tuple[int, ColumnCheck, str]]  # column, check, the rule a value breaks


def inspect_csv(
    open_body: Callable[[], BinaryIO], contract: DataContract, out: Outcome, accept: Callable[[bytes], None]
) -> None:
    with closing(open_body()) as body:
        table = TableReader(body, contract)
        names = _header(table, contract, out)
        if names is not None:
            inspector = _Inspector(names, contract, out, _Accepted(open_body, contract, names, accept))
            for batch in table.batches(len(names)):
                if isinstance(batch, Block):
                    inspector.take(batch)
                else:
                    inspector.take_ragged(batch)
            inspector.accepted.end()
            out.changed = inspector.accepted.begun
    if table.flaw is not None:
        # Row 0 means that the header could not be read.
        row = out.rows + 1 if names is not None else 0
        out.add(SOURCE, table.flaw.rule, table.flaw.message, row)


def _header(table: TableReader, contract: DataContract, out: Outcome) -> list[str] | None:
    """Return the column names of a table, from its header or from the contract; None if the header is missing
    or wrong."""
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
    """Writes the rows that passed, once they differ from the source."""

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
        self._codec, self._mark = output_codec(contract.encoding)

    def begin(self, passed: int) -> None:
        """Begin to write the accepted rows: first the `passed` rows before the current one, which are read again,
        because none of them was changed."""
        self.begun = True
        if self._contract.header:
            self.write([self._names])
        if not passed:
            return
        with closing(self._open_body()) as body:
            table = TableReader(body, self._contract)
            if self._contract.header:
                table.first()
            for batch in table.batches(len(self._names)):
                rows = batch.rows if isinstance(batch, Block) else batch
                if isinstance(batch, Block) and batch.size <= passed:
                    self.write_block(batch)
                else:
                    self.write(rows[:passed])
                passed -= len(rows)
                if passed <= 0:
                    return

    def write_block(self, block: Block, mask: Sequence[bool] | None = None) -> None:
        """Write the rows of a block; with `mask`, only those for which it is true."""
        text = block.given_text() if self._contract.delimiter == "," and not self.drops else None
        if text is None:
            self.write(block.rows if mask is None else list(compress(block.rows, mask)))
        elif mask is None:
            self._put(text + "\n")
        elif any(mask):
            self._put("\n".join(compress(text.split("\n"), mask)) + "\n")

    def write(self, rows: Rows) -> None:
        if self.drops:
            kept = self.kept
            rows = [[row[i] for i in kept] for row in rows]
        self._writer.writerows(rows)
        text = "".join([line[:-2] + "\n" for line in self._lines])
        self._lines.clear()
        self._put(text)

    def _put(self, text: str) -> None:
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
        each = min(1 << 16, REMEMBERED // max(len(contract.columns), 1))
        checks = [(place[c.name], ColumnCheck(c, each)) for c in contract.columns if c.name in place]
        self._checks = [(position, check) for position, check in checks if not check.trivial]
        self._unique = [(position, check) for position, check in self._checks if check.unique]
        frozen = "freeze" in (contract.other_columns, *(column.mode for column in contract.columns))
        message = "the row has more or fewer fields than there are columns"
        self._ragged: Violation = ("", "csv.ragged", "freeze" if frozen else "discard-row", message)
        self._partitions = Partitions(contract, out)
        self._partition = place.get(contract.partition_by, -1)
        self._compare(names, contract)
        if (accepted.drops or skips_of(contract)) and not out.held:
            out.skipped = not accepted.drops
            accepted.begin(0)

    def _compare(self, names: Sequence[str], contract: DataContract) -> None:
        """Compare the header with the contract. Unknown names are reported only if the line is a header beyond
        doubt."""
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

    def take(self, block: Block) -> None:
        """Check rows that have a field for every column."""
        out = self._out
        passed = out.rows
        out.rows += block.size
        columns = block.columns
        suspects = [(place, check) for place, check in self._checks if not check.all_fine(columns[place])]
        if suspects and self._unique:  # a row decides about the rows after it, so they are checked one by one
            self._take_singly(block.rows, suspects, columns, passed)
            return
        mask = None
        if suspects:
            block, mask = self._judge(block, suspects, passed)
        for position, check in self._unique:
            check.saw_all(columns[position])
        if self._partition >= 0:
            values = block.columns[self._partition]
            self._partitions.add(values if mask is None else compress(values, mask))
        changed = mask is not None or block.columns is not columns
        out.skipped = out.skipped and not changed
        if out.held or not (changed or self.accepted.begun):
            return
        if not self.accepted.begun:
            self.accepted.begin(passed)
        self.accepted.write_block(block, mask)

    def _judge(
        self, block: Block, suspects: list[tuple[int, ColumnCheck]], passed: int
    ) -> tuple[Block, list[bool] | None]:
        """Return the block (another one if a value was blanked) and which rows pass, None if all do. Only rows with a
        doubtful value are checked one by one."""
        doubts = [(place, check, check.doubtful(block.columns[place])) for place, check in suspects]
        doubtful: set[int] = set()
        for place, _, doubt in doubts:
            doubtful.update(compress(range(block.size), map(doubt.__contains__, block.columns[place])))
        passes = [True] * block.size
        blanked: dict[int, list[str]] = {}
        for at in sorted(doubtful):
            row = [column[at] for column in block.columns]
            broken = self._broken(row, doubts)
            if broken and self._out.judge(passed + at + 1, _violations(broken), partial(_named, self._names, row)):
                passes[at] = False
            elif _blanked(row, broken):
                blanked[at] = row
        if blanked:
            rows = [blanked.get(at, row) for at, row in enumerate(block.rows)]
            block = Block(block.width, block.size, rows=rows)
        return block, None if all(passes) else passes

    def take_ragged(self, rows: Rows) -> None:
        """Check rows of which some have more or fewer fields."""
        passed = self._out.rows
        self._out.rows += len(rows)
        columns = list(zip(*[row for row in rows if len(row) == self._width], strict=True))
        suspects = [pair for pair in self._checks if columns and not pair[1].all_fine(columns[pair[0]])]
        self._take_singly(rows, suspects, columns, passed)

    def _take_singly(self, rows: Rows, suspects: list[tuple[int, ColumnCheck]], columns: Columns, passed: int) -> None:
        out = self._out
        doubts = [(place, check, check.doubtful(columns[place])) for place, check in suspects]
        kept, changed = self._sift(rows, doubts)
        out.skipped = out.skipped and not changed
        if self._partition >= 0:
            self._partitions.add([row[self._partition] for row in kept])
        if out.held or not (changed or self.accepted.begun):
            return
        if not self.accepted.begun:
            self.accepted.begin(passed)
        self.accepted.write(kept)

    def _sift(self, rows: Rows, doubts: Doubts) -> tuple[Rows, bool]:
        """Return the rows that pass, and whether anything was discarded."""
        out = self._out
        kept: Rows = []
        changed = False
        for number, row in enumerate(rows, out.rows - len(rows) + 1):
            if len(row) != self._width:
                out.judge(number, [self._ragged], partial(_unnamed, row))
                changed = True
                continue
            broken = self._broken(row, doubts)
            if broken and out.judge(number, _violations(broken), partial(_named, self._names, row)):
                changed = True
                continue
            changed = _blanked(row, broken) or changed
            for place, check in self._unique:
                check.saw(row[place])
            kept.append(row)
        return kept, changed

    @staticmethod
    def _broken(row: list[str], doubts: Doubts) -> Broken:
        return [
            (place, check, rule)
            for place, check, doubt in doubts
            if row[place] in doubt and (rule := check.broken_rule(row[place]))
        ]


def _violations(broken: Broken) -> list[Violation]:
    return [check.violation(rule) for _, check, rule in broken]


def _blanked(row: list[str], broken: Broken) -> bool:
    """Blank the values of a row that are to be discarded. Return whether there were any."""
    changed = False
    for place, check, _ in broken:
        if check.mode == "discard-value":
            row[place] = ""
            changed = True
    return changed


def _unnamed(row: list[str]) -> dict[str, list[str]]:
    return {"#": row}


def _named(names: list[str], row: list[str]) -> dict[str, str]:
    return dict(zip(names, row, strict=True))
