"""Both runners accept the words of the specification, and answer with the same exit code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.engine.installations import environment
from tests.node.sites import Site, command, contents
from tests.node.test_alternating import CONFIG, gauges

USAGE = 2


@pytest.mark.parametrize(
    "words",
    [
        ["--dry-run"],
        ["--window", "2026-01-01/2026-01-31"],
        ["--force", "--reason", "the source was mended"],
        ["--verbose"],
    ],
    ids=lambda words: words[0],
)
def test_both_runners_take_the_word_and_end_with_the_same_code(tmp_path: Path, words: list[str]) -> None:
    codes, left, told = {}, {}, {}
    for runner in ("python", "node"):
        folder = tmp_path / runner
        site = Site(folder, {"house.yml": CONFIG.replace("STATE", "jsonl:.kfm/state.jsonl")}, lambda _n: "python")
        site.put("data/gauges.csv", gauges(0))
        line = command(runner, "run", "--config", "house.yml", *words)
        done = subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
        codes[runner], left[runner] = done.returncode, sorted(contents(folder))
        told[runner] = [line.split()[1] for line in done.stderr.splitlines() if len(line.split()) > 1]
        assert done.returncode != USAGE, done.stderr
    assert codes["python"] == codes["node"] and left["python"] == left["node"]
    if words == ["--dry-run"]:
        assert left["python"] == ["data/gauges.csv", "house.yml"], "a dry run leaves what was there"
    if words == ["--verbose"]:
        assert len(told["python"]) == len(told["node"]) > 3, "a line for every event"
