"""The examples that need no code, run by both runners: the same bytes, and each sees what the other has done."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.installations import NOW, ROOT, Installation, environment, stamps
from tests.node.sites import command, contents
from tests.sampling import sampled

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
@pytest.mark.parametrize("config", sampled(EXAMPLES))
def test_the_second_runner_answers_that_nothing_is_to_be_done(
    tmp_path: Path, config: str, first: str, second: str
) -> None:
    place = copied(tmp_path)
    assert run(first, place, config).returncode == 0
    again = run(second, place, config, "--exit-code")
    assert again.returncode == 10, again.stderr
    assert "noop" in again.stdout


def test_a_changed_declaration_is_refused_by_both(tmp_path: Path) -> None:
    place = copied(tmp_path)
    assert run("python", place, "config.example.yml").returncode == 0
    config = place / "config.example.yml"
    config.write_text(config.read_text().replace("above: 0", "above: 5"))
    told = {runner: run(runner, place, "config.example.yml") for runner in ("python", "node")}
    assert told["python"].returncode == told["node"].returncode == 3
    assert "params.declared.steps[0].filter.above 0 → 5" in told["python"].stderr
    assert all("bump its version in the configuration" in answer.stderr for answer in told.values())


Count = Callable[..., None]
Heard = tuple[str, dict[str, bytes]]  # what was said, and the artifacts

# Of each example a source that changes, and its datasets.
CHANGING = {
    "declared/kfm.yml": ("kgs-arroyo-cuttings.csv", ("kgs-cuttings", "sentinel-1", "usgs-earthquakes")),
    "config.example.yml": ("usdm-riley-county.csv", ("riley-drought",)),
    "sources.example.json": ("networks.csv", ("sources",)),
}


class Foreteller:
    """Does everything dry and then really, and holds what was predicted to what was done, byte for byte."""

    def __init__(self, runner: str, place: Path, config: str) -> None:
        self.runner = runner
        self.place = place
        self.config = config
        self.heard: list[Heard] = []

    def run(self, *words: str) -> dict[str, Any]:
        def once(*flags: str) -> Heard:
            folder = self.place.parent / "told"
            shutil.rmtree(folder, ignore_errors=True)
            done = run(self.runner, self.place, self.config, "--json", "--artifacts", str(folder), *words, *flags)
            assert done.returncode == 0, done.stderr
            return done.stdout, contents(folder)

        return self._twice(once)

    def kfm(self, *words: str) -> dict[str, Any]:
        return self._twice(lambda *flags: (self._say("--json", *words, *flags), {}))

    def _say(self, *words: str) -> str:
        accepted = {"KFM_ACCEPT_WEAK_STORAGE": "true"}
        return Installation(self.place).kfm("--config", self.config, *words, env=accepted).out

    def _twice(self, once: Callable[..., Heard]) -> dict[str, Any]:
        before = stamps(self.place)
        foretold, artifacts = once("--dry-run")
        assert stamps(self.place) == before
        said, made = once()
        assert foretold.replace('"dry_run": true', '"dry_run": false') == said != foretold
        assert {n: b.replace(b'"dry_run":true', b'"dry_run":false') for n, b in artifacts.items()} == made
        self.heard.append((said, made))
        done: dict[str, Any] = json.loads(said)
        self._check(done)
        return done

    def _check(self, done: dict[str, Any]) -> None:
        """The refs are where the moves say, and every file that was to be written has just those bytes."""
        root = (self.place / self.config).parent
        refs = {row["ref"]: row["version"] for row in json.loads(self._say("refs", "list", "--json"))}
        last = {move["ref"]: move["after"] for receipt in done["receipts"] for move in receipt["moves"]}
        assert {ref: refs.get(ref, "") for ref in last} == last
        files = contents(root / ".kfm") | contents(root / "public")
        for effect in done["effects"]:
            if effect["method"] == "write_file":
                assert "sha256:" + hashlib.sha256(files[effect["target"]]).hexdigest() == effect["digest"], effect


@pytest.mark.long
@pytest.mark.parametrize("config", EXAMPLES)
def test_the_predicted_effects_are_the_effects_made_by_either_runner(tmp_path: Path, config: str, count: Count) -> None:
    source, names = CHANGING[config]
    heard = {}
    for runner in ("python", "node"):
        place = copied(tmp_path / "one")
        teller = Foreteller(runner, place, config)
        outcomes = [{receipt["dataset"]: receipt["outcome"] for receipt in teller.run()["receipts"]}]
        for name in names:
            published = teller.kfm("promote", name, "--reason", "an edition")
            assert "write_file" in {effect["method"] for effect in published["effects"]}
        outcomes += [{r["dataset"]: r["outcome"] for r in teller.run()["receipts"]}]
        path = place / "declared/data" / source
        path.write_bytes(path.read_bytes().rstrip().rpartition(b"\n")[0] + b"\n")
        outcomes += [{r["dataset"]: r["outcome"] for r in teller.run("--verbose")["receipts"]}]
        assert outcomes == [
            dict.fromkeys(names, "done"),
            dict.fromkeys(names, "noop"),
            {**outcomes[1], names[0]: "done"},
        ]
        teller.run("--force", "--reason", "once more")
        teller.kfm("promote", names[0])
        teller.kfm("rollback", names[0], "--reason", "back")
        count("commands on the examples done as foretold", len(teller.heard))
        heard[runner] = teller.heard
        shutil.rmtree(tmp_path / "one")
    assert len(heard["node"]) == len(heard["python"]) >= 7
    assert heard["node"] == heard["python"]
