"""An installation to be moved, the command line on it, and what it holds."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kfm.app.move.table_copy import TableSum, sums_of
from kfm.app.session.backends import open_tables_at
from kfm.app.session.session import open_session
from kfm.cli.main import main
from kfm.config import Resolved, load
from kfm.errors import KfmError
from tests.crash.harness import Voice, in_child, play
from tests.crash.points import Points, die, install
from tests.crash.updaters import FAN, SMALLEST, settle_in
from tests.project.bans import ROOT

HERE, THERE = "sqlite:.kfm/state.db", "jsonl:there/state.jsonl"
FILES, STORE = "file:.kfm/objects", "file:store"


class Answer(NamedTuple):
    code: int
    out: str
    err: str


class _Nobody:
    def ack(self, receipt: object) -> None:
        """No process listens."""


def laid_out(folder: str, *, large: bool = False) -> str:
    """An installation that has run; with `large` some of its objects are files."""
    script = FAN if large else SMALLEST
    settle_in(folder, script, "sqlite")
    play(folder, script, _Nobody())  # type: ignore[arg-type]
    return folder


def kfm(folder: str, *words: str) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*words, "--config", os.path.join(folder, "kfm.yml")])
    return Answer(code, out.getvalue(), err.getvalue())


def resolved_in(folder: str, **settings: str) -> Resolved:
    env = {f"KFM_{name.upper()}": value for name, value in settings.items()}
    return load(os.path.join(folder, "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true", **env})


def sums(folder: str, url: str) -> list[TableSum]:
    tables = open_tables_at(resolved_in(folder), url, "read")
    try:
        return sums_of(tables)
    finally:
        tables.close()


def refusal(folder: str, **settings: str) -> KfmError | None:
    """Why a writer is refused with these settings; None if it may write, which is tried."""
    try:
        with open_session(resolved_in(folder, **settings)) as session, session.state.transaction() as tx:
            tx.touch()
    except KfmError as problem:
        return problem
    return None


@contextmanager
def saved(folder: str) -> Iterator[str]:
    """A copy of the installation, to be spoilt."""
    copy = folder + "-copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, symlinks=True)
    yield copy
    shutil.rmtree(copy)


def places_of(folder: str, *words: str, only: Callable[[str], bool] | None = None) -> list[str]:
    """The places of a command: every call that leaves a trace on the disk."""
    with saved(folder) as copy:

        def work(voice: Voice) -> None:
            points = Points(only=only)
            install(points)
            code = kfm(copy, *words).code
            voice.say("labels", [code, *points.labels])

        ended = in_child(work)
    assert ended.code == 0, ended.failure
    code, *labels = next(line[1] for line in ended.said if line[0] == "labels")
    assert code == 0
    return list(labels)


def killed_at(folder: str, at: int, *words: str, only: Callable[[str], bool] | None = None) -> bool:
    """Run a command that dies at its place number `at`; return False if it had fewer places and ended well."""

    def work(_voice: Voice) -> int:
        install(Points(at, die, only=only))
        return kfm(folder, *words).code

    ended = in_child(work)
    assert ended.killed or (ended.code == 0 and ended.answer == 0), ended.failure or ended.said
    return ended.killed


def killed_process(folder: str, at: int, *words: str) -> bool:
    """The same in a process that is started and not forked, because the client of S3 has threads of its own."""
    code = (
        "import sys; from tests.crash.points import *; from tests.app.move.carried import kfm\n"
        "install(Points(int(sys.argv[1]), die, only=boundary)); answer = kfm(sys.argv[2], *sys.argv[3:])\n"
        "sys.stderr.write(answer.err); sys.exit(answer.code)"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-c", code, str(at), folder, *words],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode in (0, -9), done.stderr
    return done.returncode == -9
