"""A folder of its own, in memory where there is some: kills do not care for the disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.move.carried import laid_out


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("KFM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KFM_ACTOR", "tester")
    monkeypatch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[str]:
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else str(tmp_path)
    folder = tempfile.mkdtemp(prefix="kfm-move-", dir=base)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def house(scratch: str, environment: None) -> str:
    return laid_out(os.path.join(scratch, "house"))


@pytest.fixture
def large(scratch: str, environment: None) -> str:
    return laid_out(os.path.join(scratch, "house"), large=True)
