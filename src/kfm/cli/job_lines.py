"""The live lines of jobs on a terminal: one for each dataset at work, and one that counts them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import TextIO

from kfm.cli.render import clean, fetched

Words = Callable[[str], None]


class JobLines:
    """The lines at the bottom of a terminal. They are drawn at most ten times a second, and erased before anything else
    is printed. One thread uses them."""

    def __init__(self, err: TextIO, words: Words, monotonic: Callable[[], float], total: int) -> None:
        self._err = err
        self._total = total  # datasets in all
        self._ended = 0
        self._words = words
        self._monotonic = monotonic
        self._lines: dict[str, str] = {}  # by dataset
        self._begun: dict[str, tuple[float, int]] = {}  # by dataset: since when it fetches, and from which byte
        self._drawn_at = 0.0
        self._drawn = 0  # lines on the terminal
        self._is_current = True  # the terminal shows the lines as they are

    def show(self, subject: str, stage: str, done: int, total: int) -> None:
        """Show the progress of a dataset; an empty stage removes its line."""
        now = self._monotonic()
        if not stage:
            self._ended += 1
            self._lines.pop(subject, None)
            self._begun.pop(subject, None)
        else:
            self._lines[subject] = self._text(subject, stage, done, total, now)
        self._is_current = False
        if now - self._drawn_at >= 0.1 or self._ended == self._total:
            self.refresh()

    def refresh(self) -> None:
        """Draw the lines if the terminal does not show them as they are."""
        if not self._is_current:
            self._drawn_at = self._monotonic()
            self._draw()
            self._is_current = True

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
        lines = list(self._lines.values())[: max((rows or 24) - 3, 0)]
        if self._ended < self._total:
            lines.append(f"{self._ended} of {self._total} ended, {len(self._lines)} at work")
        text = "\n".join(line[: (columns or 80) - 1] for line in lines)
        with interrupted_later():
            self._words(self._erasure() + text)
            self._drawn = len(lines)

    def erase(self) -> None:
        """Remove the lines from the terminal; the next refresh draws them again."""
        if self._drawn:
            with interrupted_later():
                self._words(self._erasure())
                self._drawn, self._is_current = 0, False

    def _erasure(self) -> str:
        return "\r\x1b[K" + "\x1b[1A\x1b[K" * (self._drawn - 1) if self._drawn else ""


@contextlib.contextmanager
def interrupted_later() -> Iterator[None]:
    """Let SIGINT and SIGTERM wait until the block has ended. What they raise between the write of lines and the note of
    how many there are would leave these lines on the terminal."""
    heard: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with contextlib.suppress(ValueError):  # not the main thread, which alone is interrupted
            for number in before:
                signal.signal(number, lambda number, _frame: heard.append(number))
        yield
    finally:
        with contextlib.suppress(ValueError):
            for number, handler in before.items():
                signal.signal(number, handler)
        for first in heard[:1]:
            signal.raise_signal(first)
