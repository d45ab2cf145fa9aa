"""What an inspection found: counted in full, listed in part, and the held rows on their way to quarantine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kfm.contract.canonical import canonical
from kfm.contract.records import ColumnMode, Finding

MAX_FINDINGS = 200
MAX_NAMES = 1000
BUFFER = 1 << 16

# What a finding does, the gravest first: when the list is full, the lighter ones give way.
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
    """The bytes cannot be read on from here. Says why; the reader knows in which row."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message


class Outcome:
    """Gathers what the format readers find. `held` is about the whole source, `held_rows` about single rows."""

    def __init__(self, source: str, hold: Callable[[bytes], None]) -> None:
        self.source = source
        self.rows = 0
        self.held_rows = 0
        self.held = False
        self.changed = False
        self.counts: dict[str, int] = {}
        self.partitions: set[str] = set()
        self._kept: dict[tuple[int, bool], list[Finding]] = {}
        self._hold = hold
        self._lines: list[bytes] = []
        self._waiting = 0
        self._names: set[str] = set()

    def add(self, effect: int, rule: str, message: str, row: int = 0, column: str = "") -> None:
        self.counts[rule] = self.counts.get(rule, 0) + 1
        if effect == SOURCE:
            self.held = True
        kept = self._kept.setdefault((effect, row > 0), [])
        if len(kept) < MAX_FINDINGS:
            kept.append(
                Finding(source=self.source, rule=rule, message=message, row=row, column=column, held=effect != NOTE)
            )

    def judge(self, row: int, violations: Iterable[Violation], data: Callable[[], dict[str, Any]]) -> bool:
        """Record a row's violations; True if the row may not pass. `data` is asked only then."""
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
        """A column the contract does not name: said once per name, and for the first thousand names."""
        if name in self._names or len(self._names) == MAX_NAMES:
            return
        self._names.add(name)
        consequence = "the column is dropped" if mode == "discard-value" else _CONSEQUENCE[mode]
        self.add(_EFFECT[mode], "column.unknown", f"the contract does not name this column; {consequence}", row, shown)

    def _hold_row(self, row: int, reasons: list[tuple[str, str]], data: dict[str, Any]) -> None:
        self.held_rows += 1
        told = [{"column": column, "rule": rule} for column, rule in reasons]
        line = canonical({"row": row, "reasons": told, "data": data}) + b"\n"
        self._lines.append(line)
        self._waiting += len(line)
        if self._waiting >= BUFFER:
            self.flush()

    def flush(self) -> None:
        if self._lines:
            self._hold(b"".join(self._lines))
            self._lines.clear()
            self._waiting = 0

    def listed(self) -> list[Finding]:
        """At most 200: those that hold the source before those that hold a row before notes; by row, then column."""
        order = sorted(self._kept)  # (effect, is about a row)
        chosen = [finding for key in order for finding in self._kept[key]][:MAX_FINDINGS]
        return sorted(chosen, key=lambda f: (f.row, f.column, f.rule))
