"""A terminal that shows what a command wrote: lines, the cursor, erasures and scrolling."""

from __future__ import annotations

import re

_PIECE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|[^\x1b]|\x1b")


class TerminalScreen:
    """A screen of so many columns and rows. A line that is too long continues on the next one, as on most terminals."""

    def __init__(self, columns: int, rows: int) -> None:
        self._columns, self._rows = columns, rows
        self._lines: list[str] = [""]  # everything since the start; the last rows are on the screen
        self._row = self._column = 0
        self.seen: list[list[str]] = []  # what the screen showed after each piece that was written
        self.unknown: list[str] = []  # sequences that it does not know

    def write(self, text: str) -> None:
        for piece in _PIECE.finditer(text):
            self._one(piece.group(), piece.group(1), piece.group(2))
        self.seen.append(self.visible())

    def visible(self) -> list[str]:
        return [line.rstrip() for line in self._lines[-self._rows :]]

    def everything(self) -> list[str]:
        return [line.rstrip() for line in self._lines]

    def _one(self, piece: str, number: str | None, command: str | None) -> None:
        if command == "K" and not number:
            self._lines[self._row] = self._lines[self._row][: self._column]
        elif command == "A":
            self._row = max(self._row - int(number or 1), len(self._lines) - self._rows, 0)
        elif command == "m":
            return
        elif command or piece == "\x1b":
            self.unknown.append(piece)
        elif piece == "\r":
            self._column = 0
        elif piece == "\n":
            self._next_line()
        else:
            if self._column == self._columns:
                self._next_line()
                self._column = 0
            line = self._lines[self._row].ljust(self._column)
            self._lines[self._row] = line[: self._column] + piece + line[self._column + 1 :]
            self._column += 1

    def _next_line(self) -> None:
        self._row += 1
        if self._row == len(self._lines):
            self._lines.append("")
