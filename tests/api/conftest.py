from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm.cli.start.init import FILES
from tests.api.listed import Listed, make
from tests.kept import once


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listed]:
    """An installation with a published dataset and a key list of three people, and a token of each."""
    for name in list(os.environ):
        if name.startswith("KFM_") or name == "SOURCE_DATE_EPOCH":
            monkeypatch.delenv(name)
    monkeypatch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")
    monkeypatch.setenv("KFM_NOW", "2026-01-01T00:00:00Z")
    site = Listed(tmp_path / "installation")
    once("listed", [site.folder], lambda: make(site, FILES))
    yield site
    site.close()
