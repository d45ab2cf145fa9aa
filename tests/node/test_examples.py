"""The examples that need no code, run by both runners: the same bytes, and each sees what the other has done."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.node.sites import command, contents
from tests.walk.installations import NOW, ROOT, environment

EXAMPLES = ("declared/kfm.yml", "config.example.yml", "sources.example.json")


def run(runner: str, folder: Path, config: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command(runner, "run", "--config", config), *words],
        cwd=folder,
        env={**environment(), "KFM_NOW": NOW, "KFM_ACCEPT_WEAK_STORAGE": "true"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def copied(folder: Path) -> Path:
    """The examples in a folder of the same name, so that nothing but the runner differs."""
    place = folder / "examples"
    shutil.copytree(ROOT / "examples", place, ignore=shutil.ignore_patterns(".kfm", "public", "kansas", "__pycache__"))
    return place


@pytest.mark.parametrize("config", EXAMPLES)
def test_an_example_is_done_alike_by_both_runners(tmp_path: Path, config: str) -> None:
    told, made = {}, {}
    for runner in ("python", "node"):
        place = copied(tmp_path / "one")
        done = run(runner, place, config)
        assert done.returncode == 0, (runner, done.stderr)
        told[runner] = done.stdout
        made[runner] = contents((place / config).parent / ".kfm/artifacts")
        shutil.rmtree(tmp_path / "one")
    assert set(made["python"]) == {"run.jsonl", "event_log.jsonl", "idempotency.json", "publisher_trace.jsonl"}
    assert told["node"] == told["python"]
    assert made["node"] == made["python"]


@pytest.mark.parametrize(("first", "second"), [("python", "node"), ("node", "python")])
@pytest.mark.parametrize("config", EXAMPLES)
def test_the_second_runner_answers_that_nothing_is_to_be_done(
    tmp_path: Path, config: str, first: str, second: str
) -> None:
    place = copied(tmp_path)
    assert run(first, place, config).returncode == 0
    again = run(second, place, config, "--exit-code")
    assert again.returncode == 10, again.stderr
    assert "noop" in again.stdout


def test_a_changed_declaration_is_refused_in_the_same_words_by_both(tmp_path: Path) -> None:
    place = copied(tmp_path)
    assert run("python", place, "config.example.yml").returncode == 0
    config = place / "config.example.yml"
    config.write_text(config.read_text().replace("above: 0", "above: 5"))
    told = {runner: run(runner, place, "config.example.yml") for runner in ("python", "node")}
    assert told["python"].returncode == told["node"].returncode == 3
    assert told["node"].stderr == told["python"].stderr
    assert "params.declared.steps[0].filter.above 0 → 5" in told["python"].stderr
