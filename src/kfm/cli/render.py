"""Tables, colours and progress. Text from outside is escaped before it reaches a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NoReturn, Protocol, TextIO

from kfm.errors import StorageFailed
from kfm.parsing.characters import escaped

Cells = Sequence[Sequence[str]]
MOST_SHOWN = 100  # mistakes of one configuration that are printed
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
_WORDS = {
    "SUCCESS": "green", "COMMITTED": "green", "DONE": "green", "done": "green", "ok": "green", "open": "green",
    "FAILED": "red", "failed": "red", "corrupt": "red", "bad": "red", "denied": "red", "refused": "red",
    "SKIPPED": "dim", "noop": "dim", "default": "dim",
    "RUNNING": "yellow", "PARTIAL": "yellow", "IN_PROGRESS": "yellow", "held": "yellow", "weak": "yellow",
    "frozen": "blue", "PENDING": "dim",
}  # fmt: skip


def clean(value: object) -> str:
    """Return a value as one line of text. Characters that could control a terminal are shown as escapes."""
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return escaped(text)


def wants_color(stream: TextIO, env: Mapping[str, str], *, no_color: bool) -> bool:
    """Return whether to print in colour: --no-color decides first, then NO_COLOR, then KFM_COLOR (always or never),
    then whether the stream is a terminal."""
    if no_color or env.get("NO_COLOR"):
        return False
    choice = env.get("KFM_COLOR", "")
    if choice in ("always", "never"):
        return choice == "always"
    return stream.isatty() and env.get("TERM") != "dumb"


class Live(Protocol):
    """Lines at the bottom of a terminal, which are erased before anything else is printed."""

    def erase(self) -> None: ...


class Screen:
    """The output of a command: data to stdout, messages to stderr."""

    def __init__(self, *, json: bool, quiet: bool, verbose: bool, no_color: bool, env: Mapping[str, str]) -> None:
        self.json = json
        self.quiet = quiet
        self.verbose = verbose
        self.out: TextIO = sys.stdout
        self.err: TextIO = sys.stderr
        self._env = env
        self._logged = verbose and env.get("KFM_LOG") == "jsonl"
        self._out_color = not json and wants_color(self.out, env, no_color=no_color)
        self._err_color = wants_color(self.err, env, no_color=no_color)
        self._progress_shown = False
        self._told: tuple[str, str, float] = ("", "", 0.0)  # subject and stage of the last progress, and when
        self._begun: tuple[str, float, int] = ("", 0.0, 0)  # the fetch that is shown: whose, since when, from where
        self.subject = ""  # the dataset at work, for the progress line
        self.is_kfm = True  # false for `python -m updater`, which answers like the Node runner
        self._kept: list[str] | None = None  # output that is written only if the command fails
        self._said: set[str] = set()
        self.live: Live | None = None  # the lines of several datasets at work

    # -- stdout

    def data(self, value: Any) -> None:
        """Write one JSON document."""
        import msgspec

        try:
            body = msgspec.json.encode(value)
        except UnicodeEncodeError:  # a file name that is not UTF-8
            body = msgspec.json.encode(_scrubbed(msgspec.to_builtins(value)))
        body = msgspec.json.format(body, indent=2)
        self.line(body.decode().replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x7f", "\\u007f"))

    def line(self, text: str = "") -> None:
        self.text(text + "\n")

    def text(self, text: str) -> None:
        """Write text as it is."""
        if self._kept is not None:
            self._kept.append(text)
            return
        self._clear()
        try:
            self.out.write(text)
        except OSError as problem:
            _unwritten(problem)

    def keep(self) -> None:
        """Keep what is written to stdout. `release` later writes it, or drops it if all went well."""
        self._kept = []

    def release(self, *, well: bool) -> None:
        kept, self._kept = self._kept, None
        if kept and not well:
            self.text("".join(kept))

    @contextlib.contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """Open stdout for bytes. A failure to write is reported as a failure of stdout, not of the store."""
        self._clear()
        try:
            self.out.flush()
            yield self.out.buffer
            self.out.buffer.flush()
        except OSError as problem:
            _unwritten(problem)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, width: int = 0) -> None:
        """Print aligned columns under a header. An empty table has only its header, so that scripts see the same shape.

        On a terminal, or with a `width`, the table fits: digests and instants are shortened, empty columns dropped,
        cells continue in the next line, or each row is stacked as lines of name and value. No word and no digest is
        ever broken. Elsewhere a row is a line.
        """
        cells: Cells = [[clean(cell) or "-" for cell in row] for row in rows]
        names: Sequence[str] = [name.upper() for name in columns]
        room = self.width() or width
        fitted = _fitted(names, cells, room) if room and cells else (names, cells, _widths(names, cells))
        if fitted is None:
            self._stacked(names, cells, room)
            return
        names, cells, widths = fitted
        heads = "  ".join(name.ljust(w) for name, w in zip(names, widths, strict=True)).rstrip()
        self.line(self._paint(heads, "bold"))
        for row in cells:
            parts = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
            for n in range(max(map(len, parts), default=0)):
                line = [part[n] if n < len(part) else "" for part in parts]
                padded = [
                    self._word(cell, piece.ljust(width)) for cell, piece, width in zip(row, line, widths, strict=True)
                ]
                self.line("  ".join(padded).rstrip())

    def _stacked(self, names: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> None:
        """Print each row as lines of name and value, with an empty line between two rows."""
        longest = max(map(len, names))
        for n, row in enumerate(cells):
            if n:
                self.line()
            for name, cell in zip(names, row, strict=True):
                if cell == "-":
                    continue
                first, *rest = _wrapped(cell, max(room - longest - 2, 20))
                self.line(f"{self._paint(name.ljust(longest), 'bold')}  {self._word(cell, first)}")
                for piece in rest:
                    self.line(" " * (longest + 2) + piece)

    def width(self) -> int:
        """Return how many columns a table may have; 0: as many as it needs."""
        said = self._env.get("COLUMNS", "")
        if said.isascii() and said.isdigit() and int(said[:4]) >= 40:
            return int(said[:4])
        return _columns(self.out) if self.out.isatty() else 0

    def fields(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Print `name  value`, a line each; empty values are left out."""
        kept = [(name, clean(value)) for name, value in pairs if value not in (None, "", [], ())]
        width = max((len(name) for name, _ in kept), default=0)
        for name, value in kept:
            self.line(f"{self._paint(name.ljust(width), 'dim')}  {self._word(value, value)}")

    def raw(self, chunks: Iterable[bytes]) -> None:
        """Write bytes as they are."""
        self.finish()
        for chunk in chunks:
            try:
                self.out.buffer.write(chunk)
            except OSError as problem:
                _unwritten(problem)
        self.finish()

    def _word(self, word: str, padded: str) -> str:
        color = _WORDS.get(word)
        return self._paint(padded, color) if color else padded

    def _paint(self, text: str, color: str) -> str:
        return f"\x1b[{_CODES[color]}m{text}\x1b[0m" if self._out_color else text

    # -- stderr

    def say(self, text: str) -> None:
        """Print a line for people. It is silent with --quiet, and where stderr is a log that programs read."""
        if not self.quiet and not self._logged:
            self._clear()
            self._in_order()
            self.words(clean(text) + "\n")

    def say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(text)

    def fail(self, text: str) -> None:
        self._clear()
        self._in_order()
        prefix = "\x1b[31mkfm:\x1b[0m " if self._err_color else "kfm: "
        self.words(prefix + clean(text) + "\n")

    def words(self, text: str) -> None:
        """Print text to stderr if that can be written. A failure is ignored: no work stops because it cannot be
        reported."""
        with contextlib.suppress(OSError, ValueError):
            self.err.write(text)
            self.err.flush()

    def _in_order(self) -> None:
        """Flush stdout first, so that lines keep their order where both streams go into one file."""
        with contextlib.suppress(OSError, ValueError):  # reported when the command ends
            self.out.flush()

    def progress(self, stage: str, done: int, total: int) -> None:
        """Show progress as one line on a terminal, at most ten times a second. With --verbose the events report the
        same."""
        if not self.is_live:
            return
        from kfm.clock import SystemClock

        now = SystemClock().monotonic()
        if self._told[:2] == (self.subject, stage) and now - self._told[2] < 0.1 and done != total:
            return
        self._told = (self.subject, stage, now)
        if stage == "fetch" and (done == 0 or self._begun[0] != self.subject):
            self._begun = (self.subject, now, done)
        what = f"{clean(self.subject)}: {clean(stage)}" if self.subject else clean(stage)
        count = f" {done:,} of {total:,} ({100 * done // total} %)" if total else f" {done:,}" if done else ""
        if stage == "fetch" and done:
            count = " " + fetched(done, total, now - self._begun[1], done - self._begun[2])
        self._progress_shown = True  # before it is: an interruption may come in between
        self.words(f"\r\x1b[K{(what + count)[: _columns(self.err) - 1]}")

    @property
    def is_live(self) -> bool:
        """Whether progress is shown: on a terminal, unless --quiet or --verbose is given."""
        return not (self.quiet or self.verbose) and self.err.isatty()

    def _clear(self) -> None:
        if self.live is not None:
            self.live.erase()
        if self._progress_shown:
            self.words("\r\x1b[K")
            self._progress_shown = False

    def finish(self) -> None:
        """Flush both streams. An error is raised here, while it can still be reported."""
        self._clear()
        try:
            self.out.flush()
        except OSError as problem:
            _unwritten(problem)


def _unwritten(problem: OSError) -> NoReturn:
    """Return the error for a stdout that cannot be written. A reader that stopped reading is no failure."""
    if isinstance(problem, BrokenPipeError):
        raise problem
    why = (problem.strerror or type(problem).__name__).lower()
    hint = "make room or send it elsewhere; what the command changed stays changed"
    raise StorageFailed(f"cannot write to stdout: {why}", hint=hint) from problem


def _fitted(names: Sequence[str], cells: Cells, room: int) -> tuple[Sequence[str], Cells, list[int]] | None:
    """Return columns, cells and widths of the table that fits and loses least; None if none fits."""
    ways = [(names, cells), *_shorter(names, cells)]
    for some, rows in ways:
        widths = _widths(some, rows)
        if _total(widths) <= room:
            return some, rows, widths
    for some, rows in ways:
        widths = _widths(some, rows)
        floors = [
            max([len(name), *(len(piece) for row in rows for piece in _pieces(row[i]))]) for i, name in enumerate(some)
        ]
        if _total(floors) <= room:
            while _total(widths) > room:
                widest = max((i for i in range(len(widths)) if widths[i] > floors[i]), key=lambda i: widths[i])
                widths[widest] -= 1
            return some, rows, widths
    return None


def _widths(names: Sequence[str], cells: Cells) -> list[int]:
    return [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(names)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _shorter(names: Sequence[str], cells: Cells) -> Iterator[tuple[Sequence[str], Cells]]:
    """Yield the table with short digests and instants, then without the name of the algorithm, then without empty
    columns."""
    import re

    def changed(pattern: str, by: str, table: Cells) -> Cells:
        compiled = re.compile(pattern)
        return [[compiled.sub(by, cell) for cell in row] for row in table]

    brief = changed(r"\b(sha256:[0-9a-f]{12})[0-9a-f]{52}\b", r"\1", cells)
    brief = changed(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d):\d\d(?:\.\d+)?Z", r"\1Z", brief)
    yield names, brief
    brief = changed(r"\bsha256:(?=[0-9a-f]{12}\b)", "", brief)
    yield names, brief
    kept = [i for i in range(len(names)) if any(row[i] != "-" for row in brief)]
    yield [names[i] for i in kept], [[row[i] for i in kept] for row in brief]


def _pieces(text: str) -> list[str]:
    """Return the pieces between which a cell may be broken: words, and the parts of a list, a path or an address."""
    pieces, start = [], 0
    for at, mark in enumerate(text):
        if mark == " " or (mark in ",/;&?" and at + 1 < len(text) and text[at + 1] != " "):
            pieces.append(text[start : at + 1])
            start = at + 1
    return [piece.rstrip() if piece.strip() else piece for piece in [*pieces, text[start:]]]


def _wrapped(text: str, width: int) -> list[str]:
    """Return the text in lines of at most this width; a longer piece stays whole."""
    if len(text) <= width:
        return [text]
    lines, at, end = [""], 0, 0
    for piece in _pieces(text):
        at = text.index(piece, end) if piece else end
        gap, end = text[end:at], at + len(piece)
        if lines[-1] and len(lines[-1]) + len(gap) + len(piece) > width:
            lines.append(piece)
        else:
            lines[-1] += gap + piece
    return lines


def _columns(stream: TextIO) -> int:
    """Return the width of the terminal. A progress line that wraps could not be erased."""
    import os

    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _scrubbed(value: Any) -> Any:
    if isinstance(value, dict):
        return {clean(key): _scrubbed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_scrubbed(item) for item in value]
    return clean(value) if isinstance(value, str) else value


def size(count: int) -> str:
    """Return a number of bytes as people read it: 999 B, 1.2 MiB."""
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1024 or unit == "TiB":
            return f"{value:.1f} {unit}"
    return str(count)


def span(minutes: int | None) -> str:
    """Return a number of minutes as people say it: 45m, 3h 20m, 2d 4h."""
    if minutes is None:
        return ""
    days, hours, rest = minutes // 1440, minutes // 60 % 24, minutes % 60
    said = [f"{n}{unit}" for n, unit in ((days, "d"), (hours, "h"), (rest, "m")) if n]
    return " ".join(said[:2]) or "0m"


def fetched(done: int, total: int, seconds: float, since: int) -> str:
    """Return bytes, rate and time left, as far as they are known: `since` bytes came in so many seconds."""
    said = f"{size(done)} of {size(total)} ({100 * done // total} %)" if total else size(done)
    if seconds < 0.5 or since <= 0:
        return said
    rate = since / seconds
    said += f", {size(round(rate))}/s"
    left = round((total - done) / rate) if total else 0
    if left <= 0:
        return said
    return said + (f", {left} s left" if left < 120 else f", {span(left // 60)} left")


def short(digest: str) -> str:
    """Return the start of a digest or id, long enough to distinguish two."""
    return digest[:19] if digest.startswith("sha256:") else digest[:8]
