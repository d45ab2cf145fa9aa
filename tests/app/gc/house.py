"""An installation that gc looks after: what it holds, and objects that nothing names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock, parse_instant, rfc3339
from kfm.config import Resolved
from tests.app.move.carried import Answer, kfm, resolved_in
from tests.crash.harness import play
from tests.crash.updaters import FAN, settle_in

SMALL, LARGE = b"a small orphan", b"a large orphan " * 6000
HOUR, DAY = 3_600_000, 86_400_000
GRACE = 7 * DAY


class Years:
    """The time, which every command of the installation reads and a test moves on."""

    def __init__(self, start: str = "2026-01-01T00:00:00Z") -> None:
        self.clock = FixedClock(parse_instant(start, "start"))
        self._tell()

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)
        self._tell()

    def _tell(self) -> None:
        os.environ["KFM_NOW"] = rfc3339(self.clock.now_ms())


@contextmanager
def opened(folder: str, resolved: Resolved | None = None) -> Iterator[Session]:
    with open_session(resolved or resolved_in(folder)) as session:
        yield session


def orphans(folder: str, *more: bytes) -> list[str]:
    """Objects that nothing names: what a killed run leaves."""
    with opened(folder) as session:
        return [session.objects.put(body) for body in (SMALL, LARGE, *more)]


def everywhere(folder: str) -> set[str]:
    """The digests of all objects that were not set aside."""
    with opened(folder) as session:
        return {name for name, _ in session.state.inline_objects()} | {name for name, _ in session.objects.in_folders()}


def set_aside(folder: str) -> set[str]:
    with opened(folder) as session:
        return {name for name, _ in session.state.aside_objects()}


def name_in_state(folder: str, names: list[str]) -> None:
    """Let rows of the state name these objects."""
    with opened(folder) as session, session.state.transaction():
        for name in names:
            session.tables.put("plan_locks", f"a test {name[7:23]}", name.encode())


def gc(folder: str, *words: str) -> Answer:
    return kfm(folder, "gc", *words)


def is_well(folder: str) -> None:
    """Everything that the installation promises of what it holds: every byte, the ledger, the live versions."""
    doctor = kfm(folder, "doctor", "--deep")
    assert doctor.code == 0, [line for line in doctor.out.splitlines() if " ok " not in line]
    audit = kfm(folder, "audit", "verify", "--json")
    assert audit.code in (0, 68) and '"tampered"' not in audit.out, audit
    reconcile = kfm(folder, "reconcile")
    assert reconcile.code == 0, (reconcile.out, reconcile.err)


def laid_out(folder: str, kind: str = "sqlite") -> str:
    """An installation that has run, with small and large objects."""
    settle_in(folder, FAN, kind)
    play(folder, FAN, _Nobody())  # type: ignore[arg-type]
    return folder


class _Nobody:
    def ack(self, receipt: object) -> None:
        """No process listens."""


def readable(folder: str, wanted: dict[str, bytes]) -> None:
    with opened(folder) as session:
        for name, body in wanted.items():
            assert session.objects.read(name) == body and session.objects.size(name) == len(body)
            with session.objects.open(name) as file:
                assert file.read() == body
