"""The programs that others test policies with are built once per machine and version, or are missing with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policy import tools
from tests.policy.servers import tool


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kfm" / "tools"


def pretend_go(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """A `go` that writes down each call and then does this."""
    go, calls = folder / "bin" / "go", folder / "calls"
    go.parent.mkdir()
    go.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{script}\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    return calls


def test_a_program_is_built_once_and_again_for_another_version(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = pretend_go(tmp_path, monkeypatch, 'echo "$@" > "$GOBIN/opa"')
    assert tools.built("opa") == tools.built("opa") == cache / f"opa-{tools.VERSIONS['opa']}"
    assert len(calls.read_text().splitlines()) == 1
    monkeypatch.setitem(tools.VERSIONS, "opa", "v9.0.0")
    assert "opa@v9.0.0" in tools.built("opa").read_text()
    assert len(calls.read_text().splitlines()) == 2


@pytest.mark.parametrize("script", ['echo half > "$GOBIN/opa"; echo "no such module" >&2; exit 1', "exit 0"])
def test_what_could_not_be_built_is_not_there_and_says_why(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    calls = pretend_go(tmp_path, monkeypatch, script)
    for _ in range(2):
        with pytest.raises(tools.Absent, match="no such module" if "half" in script else "it said nothing"):
            tools.built("opa")
    assert len(calls.read_text().splitlines()) == 2
    assert [path.name for path in cache.iterdir()] == [".opa.lock"]


@pytest.mark.usefixtures("cache")
def test_a_missing_program_is_a_skip_on_a_laptop_and_a_failure_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_go(tmp_path, monkeypatch, "exit 1")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="opa could not be built"):
        tool("opa")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="this is CI"):
        tool("opa")
