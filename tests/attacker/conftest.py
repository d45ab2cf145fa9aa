"""The command line called in this process, with a custodian's key."""

from __future__ import annotations

import pytest

from tests.cli.conftest import kfm, place, plain_environment  # noqa: F401

KEY = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@pytest.fixture(autouse=True)
def custodian(plain_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)
