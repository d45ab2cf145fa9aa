"""The lines of several datasets at work, on a real terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from kfm.cli.job_lines import JobLines
from kfm.cli.render import Screen
from tests.app.jobs.hosts import Hosts, dataset, environment, hosts, installation, rows
from tests.cli.terminal_screen import TerminalScreen
from tests.sampling import sampled

ROWS = 24
GONE = "the source is gone"


def site_of(folder: Path, server: Hosts, count: int) -> Path:
    """So many datasets that wait for their servers, and one whose source is gone."""
    at = f"http://127.0.0.%d:{server.port}"
    server.bodies = {f"/{n}.csv": rows(n) for n in range(count)}
    server.held = set(server.bodies)
    text = "".join(dataset(f"data-{n:02}", f"{at % (n + 1)}/{n}.csv") for n in range(count))
    return installation(folder, server, dataset("broken", f"{at % 1}/gone.csv") + text, "publish: noop")


class Terminal:
    """A command at a terminal of so many columns."""

    def __init__(self, site: Path, columns: int, *words: str, **env: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        said = {key: value for key, value in environment(**env).items() if key != "COLUMNS"}
        self.process = subprocess.Popen([sys.executable, "-m", "kfm", *words], cwd=site, env=said, **streams)  # type: ignore[call-overload]
        os.close(theirs)
        self.screen = TerminalScreen(columns, ROWS)
        self.raw = ""

    def until(self, pattern: str) -> None:
        """Read until the screen shows this."""
        while not any(re.search(pattern, line) for line in self.screen.visible()):
            assert self._read(), self.raw

    def end(self) -> int:
        while self._read():
            pass
        os.close(self._ours)
        return int(self.process.wait())

    def _read(self) -> bool:
        try:
            piece = os.read(self._ours, 65536).decode()
        except OSError:  # the command has closed the terminal
            return False
        self.raw += piece
        for frame in re.split(r"(?=\r\x1b\[K)", piece):
            self.screen.write(frame)
        return bool(piece)


@pytest.mark.parametrize(("columns", "color"), sampled([(80, {}), (40, {"NO_COLOR": "1"})]))
def test_thirty_datasets_at_work_fit_the_screen_and_leave_only_results(
    tmp_path: Path, columns: int, color: dict[str, str]
) -> None:
    with hosts(30) as server:
        terminal = Terminal(site_of(tmp_path, server, 30), columns, "run", "--jobs", "32", **color)
        terminal.until(r"^1 of 31 ended, 30 at work$")
        shown = terminal.screen.visible()
        at_work = [line for line in shown if re.fullmatch(r"data-\d\d: fetch.*", line)]
        assert len(at_work) == ROWS - 3 and len(shown) <= ROWS
        server.release()
        assert terminal.end() == 3
        assert terminal.screen.unknown == []
        left = terminal.screen.everything()
        assert not [line for line in left if re.search(r"(fetch|check|plan|execute|commit)( |$)|at work|ended", line)]
        assert sum(GONE in line for line in "".join(left).split("kfm: ")) == 1
        assert sum("data-" in line for line in left) == 30
        assert not re.search(r"\x1b\[[0-9]+m", terminal.raw) if color else "\x1b[3" in terminal.raw


def test_ctrl_c_leaves_two_lines_and_the_failures_before_it(tmp_path: Path) -> None:
    with hosts(5) as server:
        terminal = Terminal(site_of(tmp_path, server, 5), 80, "run", "--jobs", "8")
        terminal.until(r"^1 of 6 ended, 5 at work$")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
        left = [line for line in terminal.screen.everything() if line]
        assert GONE in "".join(left[:2]) and len(left) == 4
        assert left[2:] == [
            "stopping at the next step of each run; once more ends at once",
            "kfm: interrupted; a run that was begun is left resumable: `kfm resume`",
        ]


class Interrupting(io.StringIO):
    """A terminal on which somebody presses Ctrl-C right before or right after the n-th piece that is written."""

    def __init__(self, at: int, *, after: bool) -> None:
        super().__init__()
        self.screen = TerminalScreen(80, ROWS)
        self.pieces = 0
        self._at, self._after = at, after

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.pieces += 1
        if self.pieces == self._at and not self._after:
            signal.raise_signal(signal.SIGINT)
        self.screen.write(text.replace("\n", "\r\n"))
        if self.pieces == self._at and self._after:
            signal.raise_signal(signal.SIGINT)
        return len(text)


def work_on(terminal: Interrupting) -> None:
    """Show two datasets at work with a message in between, until Ctrl-C, and then what is said at the end."""
    screen = Screen(json=False, quiet=False, verbose=False, no_color=True, env={})
    screen.err = terminal
    try:
        screen.live = lines = JobLines(terminal, screen.words, iter(range(1000)).__next__, 5)
        for done in range(4):
            lines.show("one", "fetch", done, 0)
            lines.show("two", "fetch", done, 0)
            if done == 1:
                screen.say("a message before")
    except KeyboardInterrupt:
        pass
    screen.say("stopping")
    screen.fail("interrupted")


def test_an_interruption_at_any_write_leaves_no_line_of_jobs() -> None:
    work_on(calm := Interrupting(0, after=False))
    assert calm.pieces > 10
    for at in range(1, calm.pieces - 3):  # not in the last lines, of which nothing is left to be interrupted
        for after in (False, True):
            work_on(terminal := Interrupting(at, after=after))
            left = [line for line in terminal.screen.everything() if line]
            assert left[-2:] == ["stopping", "kfm: interrupted"], (at, after)
            assert left[:-2] in ([], ["a message before"]), (at, after)
            assert terminal.screen.unknown == []
