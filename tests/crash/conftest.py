"""A warm process to fork from, a fast folder to crash in, and the counts."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import counts
from tests.crash.harness import play
from tests.crash.updaters import SCRIPTS, settle_in

_MEMORY = "/dev/shm"  # kills do not care for the disk, only power cuts do


class _Nobody:
    def ack(self, receipt: object) -> None:
        """No process listens."""


@pytest.fixture(scope="session")
def warm() -> None:
    """Everything loaded once, so that a child that is forked begins at once; and no database left open."""
    folder = tempfile.mkdtemp()
    try:
        for state in ("sqlite", "jsonl"):
            for script in SCRIPTS.values():
                place = os.path.join(folder, state + script.name)
                settle_in(place, script, state)
                play(place, script, _Nobody())  # type: ignore[arg-type]
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def scratch(warm: None, tmp_path: Path) -> Iterator[str]:
    """A folder of its own, in memory where there is some."""
    base = _MEMORY if os.access(_MEMORY, os.W_OK) else str(tmp_path)
    folder = tempfile.mkdtemp(prefix="kfm-crash-", dir=base)
    yield folder
    shutil.rmtree(folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Numbers that a test counted go with its report, from any worker."""
    before = counts.so_far()
    try:
        return (yield)
    finally:
        counts.record(before)
