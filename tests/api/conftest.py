from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kfm.api import application
from kfm.cli.start.init import FILES
from tests.api.listed import Listed, make
from tests.api.serving_site import Site, served_site
from tests.kept import once

SETTINGS = {"KFM_ACTOR": "tester", "KFM_REASON": "a test", "KFM_ACCEPT_WEAK_STORAGE": "true"}


@contextmanager
def environment() -> Iterator[None]:
    """The settings of a test, and no others."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("KFM_")}
    for name in kept:
        del os.environ[name]
    os.environ.update(SETTINGS)
    try:
        yield
    finally:
        for name in SETTINGS:
            os.environ.pop(name, None)
        os.environ.update(kept)


@pytest.fixture
def clean() -> Iterator[None]:
    """The settings of a test that makes an installation of its own."""
    with environment():
        yield


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for all tests that change nothing. Its answers about what is absent do not wait long."""
    shipped, application.SECONDS_OF_ABSENCE = application.SECONDS_OF_ABSENCE, 0.001
    with environment():
        opened = served_site(tmp_path_factory.mktemp("served"))
        site = opened.__enter__()
    try:
        yield site
    finally:
        opened.__exit__(None, None, None)
        application.SECONDS_OF_ABSENCE = shipped


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
