"""The live lines of jobs on a terminal: one for each dataset at work."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

from kfm.cli.render import clean, fetched

Words = Callable[[str], None]


class JobLines:
    """The lines at the bottom of a terminal. They are drawn at most ten times a second, and erased before anything else
    is printed. One thread uses them."""

    def __init__(self, err: TextIO, words: Words, monotonic: Callable[[], float]) -> None:
        self._err = err
        self._words = words
        self._monotonic = monotonic
        self._lines: dict[str, str] = {}  # by dataset
        self._begun: dict[str, tuple[float, int]] = {}  # by dataset: since when it fetches, and from which byte
        self._drawn_at = 0.0
        self._drawn = 0  # lines on the terminal

    def show(self, subject: str, stage: str, done: int, total: int) -> None:
        """Show the progress of a dataset; an empty stage removes its line."""
        now = self._monotonic()
        if not stage:
            self._lines.pop(subject, None)
            self._begun.pop(subject, None)
        else:
            self._lines[subject] = self._text(subject, stage, done, total, now)
        if now - self._drawn_at >= 0.1 or (not stage and not self._lines):
            self._drawn_at = now
            self._draw()

    def _text(self, subject: str, stage: str, done: int, total: int, now: float) -> str:
        count = f" {done:,} of {total:,} ({100 * done // total} %)" if total else f" {done:,}" if done else ""
        if stage == "fetch" and done:
            since, first = self._begun.setdefault(subject, (now, done))
            count = " " + fetched(done, total, now - since, done - first)
        return f"{clean(subject)}: {clean(stage)}{count}"

    def _draw(self) -> None:
        try:
            columns, rows = os.get_terminal_size(self._err.fileno())
        except (OSError, ValueError):
            columns, rows = 80, 24
        room, lines = max((rows or 24) - 2, 1), list(self._lines.values())
        if len(lines) > room:
            lines = [*lines[: room - 1], f"and {len(lines) - room + 1} more at work"]
        self._words(self.erasure() + "\n".join(line[: (columns or 80) - 1] for line in lines))
        self._drawn = len(lines)

    def erasure(self) -> str:
        """Return the characters that erase the lines; after them, nothing is drawn."""
        drawn, self._drawn = self._drawn, 0
        return "\r\x1b[K" + "\x1b[1A\x1b[K" * (drawn - 1) if drawn else ""
