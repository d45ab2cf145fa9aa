"""A test whose program is missing is skipped on a laptop and fails in CI, where it must never pass unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policy.servers import tool


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def broken_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a `go` that fails before all others."""
    go = folder / "bin" / "go"
    go.parent.mkdir()
    go.write_text("#!/bin/sh\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")


@pytest.mark.usefixtures("cache")
def test_a_missing_program_is_a_skip_on_a_laptop_and_a_failure_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_go(tmp_path, monkeypatch)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="opa could not be built"):
        tool("opa")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="this is CI"):
        tool("opa")
