"""The Node publisher sends GitHub the same, and survives the same failures."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import open_session
from tests.node.twin import node
from tests.sampling import sampled
from tests.sinks.github.standin import REPOSITORY, TOKEN, GitHub, github

ROOT = Path(__file__).resolve().parents[3]
CONFIG = """
accept_weak_storage: true
publish: github:{repository}
github: {{api: "{url}", uploads: "{url}"}}
datasets:
  wells:
    version: "1.0.0"
    title: Wells
    license: CC-PDM-1.0
    sensitivity: public
    sources: {{wells: {{uri: wells.csv, format: csv, contract: {{columns: [{{name: side}}]}}}}}}
    outputs:
      east: {{from: wells, steps: [{{filter: {{column: side, equals: east}}}}]}}
      west: {{from: wells, steps: [{{filter: {{column: side, equals: west}}}}]}}
"""


def promoted(folder: Path, hub: GitHub) -> None:
    """Run and promoted by Python; nobody has told GitHub yet."""
    folder.mkdir()
    (folder / "wells.csv").write_text("side,depth\neast,100\nwest,150\n")
    (folder / "kfm.yml").write_text(CONFIG.format(repository=REPOSITORY, url=hub.url))
    with open_session(config.load(str(folder / "kfm.yml"), {})) as session:
        assert run_trigger(session, new_trigger(session, "wells")).status == "SUCCESS"
        assert run_operation(session, "promote", "wells", reason="a test").status == "SUCCESS"
        session.state.sync()


def by_node(folder: Path, more: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "GITHUB_TOKEN": TOKEN, "KFM_ACTOR": "you", **(more or {})}
    command = [node(), str(ROOT / "updater.mjs"), "run", "--config", str(folder / "kfm.yml")]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


def by_python(folder: Path) -> dict[str, Any]:
    with github() as hub:
        promoted(folder, hub)
        with open_session(config.load(str(folder / "kfm.yml"), {})) as session:
            settle_session(session)
        return hub.contents()


@pytest.mark.parametrize("every", sampled([12, 2]))
def test_both_runners_send_github_the_same(every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    expected = by_python(tmp_path / "python")
    with github() as hub:
        promoted(tmp_path / "node", hub)
        summary = tmp_path / "summary.md"
        told = by_node(tmp_path / "node", {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)})
        assert told.returncode == 0, told.stderr
        calls = len(hub.calls)
        assert _without_runs(hub.contents()) == _without_runs(expected)
        assert len(hub.dispatches) == 1
        assert "| `wells` | SKIPPED | noop |" in summary.read_text()
    for trouble in ("lost", "500", "cut", "429"):
        for n in range(1, calls + 1, every if trouble == "lost" else 2 * every):
            with github() as hub:
                hub.bad_day = {n: trouble}
                folder = tmp_path / f"{trouble}-{n}"
                promoted(folder, hub)
                first = by_node(folder)
                assert hub.fired == [trouble]
                assert first.returncode in (0, 69), first.stderr
                assert TOKEN not in first.stdout + first.stderr
                second = by_node(folder)
                assert second.returncode == 0, second.stderr
                assert _without_runs(hub.contents()) == _without_runs(expected), f"{trouble} at call {n}"


def _without_runs(contents: dict[str, Any]) -> dict[str, Any]:
    """The pointer names the run that moved it, and its place in the outbox."""
    return {tag: rest if not tag.endswith("-current") else rest[1:] for tag, rest in contents.items()}
