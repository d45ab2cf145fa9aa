"""A script over one kind of state: executed undisturbed, then disturbed, recovered and compared."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from tests.crash import counts
from tests.crash.harness import Ended, Voice, answer_of, clean_run, cut_run, recover, rows_as_read, session_in
from tests.crash.oracle import check, difference, everything, rows_of
from tests.crash.updaters import SMALLEST, Script, settle_in
from tests.servers import placement

STATES = ("sqlite", "jsonl")
SERVERS = "servers"  # in the place of a kind of state: everything is on servers


class Trial:
    """One script over one kind of state: how it ends undisturbed, and how it ends otherwise."""

    def __init__(self, scratch: str, state: str, script: Script, only: Callable[[str], bool] | None = None) -> None:
        self.folder = os.path.join(scratch, "house")
        self.saved = os.path.join(scratch, "saved")
        self.state, self.script, self.only = state, script, only
        self.threads = 1
        self.empty()
        self.labels = clean_run(self.folder, script, only)
        self.undisturbed = answer_of(self.look)

    def empty(self) -> None:
        placement.drop(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        settle_in(self.folder, self.script, self.state, threads=self.threads)

    def save(self) -> None:
        shutil.rmtree(self.saved, ignore_errors=True)
        shutil.copytree(self.folder, self.saved, symlinks=True)

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.saved, self.folder, symlinks=True)

    def cut(self, at: int) -> Ended:
        ended = cut_run(at, self.folder, self.script, self.only)
        assert ended.killed, f"nothing was killed at {at} {self.labels[at - 1]}: {ended.failure}"
        return ended

    def judge(self, story: str, acks: dict[str, str]) -> None:
        """Recover, and hold the end against the undisturbed one."""
        ended = answer_of(lambda voice: self._recover(voice, acks))
        told = difference(self.undisturbed, ended)
        counts.add("differences", bool(told))
        assert not told, f"{self.state} {self.script.name} {story}\n{told}"

    def _recover(self, voice: Voice, acks: dict[str, str]) -> dict[str, str]:
        as_read = rows_as_read(self.folder) if self.script is SMALLEST else None  # it takes its time
        with session_in(self.folder) as session:
            assert as_read in (None, rows_of(session.tables)), "who only looks sees another state than who writes"
            check(session, self.folder, acks)
        recover(self.folder, self.script, voice)
        return self.look(voice)

    def look(self, _voice: Voice) -> dict[str, str]:
        with session_in(self.folder) as session:
            check(session, self.folder, {})
            return everything(self.folder, session.tables)
