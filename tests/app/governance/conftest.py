from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.app.governance.people import Site
from tests.kept import once


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("KFM_") or name in ("NO_COLOR", "SOURCE_DATE_EPOCH"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KFM_ACTOR", "tester")
    monkeypatch.setenv("KFM_REASON", "a test")
    monkeypatch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")


@pytest.fixture
def site(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Site:
    found = Site(tmp_path, capfdbinary)

    def make() -> None:
        assert found.kfm("init").code == 0

    once("governed", [found.folder], make)
    return found
