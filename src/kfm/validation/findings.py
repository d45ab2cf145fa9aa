"""The findings of a check: all are counted, some are listed, and the bad rows go to quarantine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.records import ColumnMode, DataContract, Finding
from kfm.model.source_formats import GRIDS

MAX_FINDINGS = 200
MAX_NAMES = 1000
BUFFER = 1 << 16

# The effects of a finding, the gravest first: when the list is full, lighter findings are dropped.
SOURCE, ROW, NOTE = 0, 1, 2

_EFFECT: dict[str, int] = {"freeze": SOURCE, "discard-row": ROW, "discard-value": NOTE, "evolve": NOTE}
_CONSEQUENCE = {
    "freeze": "the source is held",
    "discard-row": "the row is held",
    "discard-value": "the value is blanked",
    "evolve": "noted only",
}

Violation = tuple[str, str, ColumnMode, str]  # column, rule, mode, message


class Unreadable(Exception):
    """Raised where the bytes of a source cannot be read any further, with the reason. The code that catches it adds the
    row."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message


class Outcome:
    """Collects the findings of the format readers. `held` is set if the whole source is quarantined; `held_rows` counts
    quarantined rows."""

    def __init__(self, source: str, hold: Callable[[bytes], None]) -> None:
        self.source = source
        self.rows = 0
        self.held_rows = 0
        self.held = False
        self.changed = False
        self.skipped = False  # only lines around the table were removed
        self.counts: dict[str, int] = {}
        self.partitions: set[str] = set()
        self._kept: dict[tuple[int, bool], list[Finding]] = {}
        self._hold = hold
        self._lines: list[bytes] = []
        self._waiting = 0
        self._names: set[str] = set()
        self._passing = 0

    def add(self, effect: int, rule: str, message: str, row: int = 0, column: str = "") -> None:
        self.counts[rule] = self.counts.get(rule, 0) + 1
        self.held = self.held or effect == SOURCE
        kept = self._kept.setdefault((effect, row > 0), [])
        if len(kept) < MAX_FINDINGS:
            kept.append(
                Finding(source=self.source, rule=rule, message=message, row=row, column=column, held=effect != NOTE)
            )

    def judge(self, row: int, violations: Iterable[Violation], data: Callable[[], dict[str, Any]]) -> bool:
        """Record the violations of a row. Return whether the row may not pass; only then `data` is called."""
        gravest = NOTE
        reasons: list[tuple[str, str]] = []
        for column, rule, mode, message in violations:
            effect = _EFFECT[mode]
            gravest = min(gravest, effect)
            reasons.append((column, rule))
            self.add(effect, rule, f"{message}; {_CONSEQUENCE[mode]}", row, column)
        if gravest == NOTE:
            return False
        self._hold_row(row, reasons, data())
        return True

    def other_column(self, name: str, shown: str, mode: ColumnMode, row: int) -> None:
        """Report a column that the contract does not name, once for each of the first thousand names. Where such
        columns may pass, they are counted and reported as one finding."""
        if name in self._names or len(self._names) == MAX_NAMES:
            return
        self._names.add(name)
        if mode == "evolve":
            self._passing += 1
            return
        consequence = "the column is dropped" if mode == "discard-value" else _CONSEQUENCE[mode]
        self.add(_EFFECT[mode], "column.unknown", f"the contract does not name this column; {consequence}", row, shown)

    def _hold_row(self, row: int, reasons: list[tuple[str, str]], data: dict[str, Any]) -> None:
        self.held_rows += 1
        told = [{"column": column, "rule": rule} for column, rule in reasons]
        try:
            line = canonical({"row": row, "reasons": told, "data": data}) + b"\n"
        except BadInput:  # the record is as deep as allowed, and the line around it adds a level
            line = canonical({"row": row, "reasons": told, "data": {"#": canonical(data).decode()}}) + b"\n"
        self._lines.append(line)
        self._waiting += len(line)
        if self._waiting >= BUFFER:
            self._flush()

    def finish(self, contract: DataContract, before: int) -> None:
        """Report the findings that are known only at the end, such as too few rows. `before` is the number of rows that
        passed for the current version; 0 if it is not known."""
        if self._passing:
            number = f"{self._passing:,}" if self._passing < MAX_NAMES else f"{MAX_NAMES:,} or more"
            self.add(NOTE, "column.unknown", f"the contract does not name {number} of the columns; noted only")
        if contract.format not in ("text", "bytes", *GRIDS):
            self._count(contract, before)
        self._flush()

    def _count(self, contract: DataContract, before: int) -> None:
        passed = self.rows - self.held_rows
        if passed < contract.min_rows:
            self.add(SOURCE, "rows.few", f"fewer than {contract.min_rows:,} rows passed; the source is held")
        if 0 <= contract.max_held_rows < self.held_rows:
            self.add(SOURCE, "rows.held", f"more than {contract.max_held_rows:,} rows are held; the source is held")
        if self.held:  # another finding quarantines the source already
            return
        if not passed and not contract.allow_empty:
            what = f"none of the {self.rows:,} rows passed" if self.rows else "there is no row in it"
            self.add(SOURCE, "rows.none", f"{what}; the source is held")
        elif self.held_rows and self.held_rows / self.rows > contract.max_held_share:
            what = f"{self.held_rows:,} of {self.rows:,} rows are held, more than max_held_share allows"
            self.add(SOURCE, "rows.share", f"{what}; the source is held")
        elif passed < before and contract.shrink_limit < 1 and (before - passed) / before >= contract.shrink_limit:
            what = f"{passed:,} rows passed, and {before:,} in the version before"
            self.add(SOURCE, "rows.shrunk", f"{what}; the source is held")

    def _flush(self) -> None:
        if self._lines:
            self._hold(b"".join(self._lines))
            self._lines.clear()
            self._waiting = 0

    def cause(self) -> Finding | None:
        """Return the first finding that quarantines the source."""
        causes = self._kept.get((SOURCE, False), []) + self._kept.get((SOURCE, True), [])
        return causes[0] if causes else None

    def listed(self) -> list[Finding]:
        """Return at most 200 findings: first those that quarantine the source, then those that quarantine a row, then
        notes; each by row and column."""
        order = sorted(self._kept)  # (effect, is about a row)
        chosen = [finding for key in order for finding in self._kept[key]][:MAX_FINDINGS]
        return sorted(chosen, key=lambda f: (f.row, f.column, f.rule))
