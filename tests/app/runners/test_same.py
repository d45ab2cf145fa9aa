"""On every runner, the same inputs under one clock and one actor give the same versions and receipts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.runs.queries import triggers
from kfm.app.session.session import open_session
from kfm.model.canonical import canonical
from tests.app.runners import steps
from tests.sampling import sampled

SIGNING = "5a" * 32
CONFIG = """\
catalog: file:catalog
runners:
  image: example.org/kansas/kfm:1.0.0
  kubectl_image: example.org/kansas/kubectl:1.0.0
  folder: {folder}
  program: {program}
  environment_file: {environment}
attest: {{sign_with: 'env:KFM_SECRET_SIGNING'}}
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    schedule: {{cadence: daily, at: "02:30", timezone: America/Chicago}}
    sources:
      rain:
        uri: rain.csv
        format: csv
        contract: {{max_held_share: 0.5, columns: [{{name: inches, type: number, mode: discard-row}}]}}
    outputs:
      rain: {{from: rain}}
  counties:
    version: "1.0.0"
    title: Counties
    license: CC0-1.0
    sensitivity: public
    schedule: {{after: [rain]}}
    sources: {{counties: {{uri: counties.csv, format: csv}}}}
    outputs:
      counties: {{from: counties}}
  polled:
    version: "1.0.0"
    sources: {{polled: {{uri: polled.csv, format: csv}}}}
    outputs:
      polled: {{from: polled}}
"""
# When each is woken, and what became of the sources before: news, nothing, a row that is held, a source that is gone.
DAYS = (
    ("2026-06-01T12:00:00Z", {"rain.csv": "station,inches\nKS-01,1.20\n", "counties.csv": "name\nEllis\n",
                              "polled.csv": "well\na\n"}),
    ("2026-06-02T07:30:00Z", {}),
    ("2026-06-02T08:30:00Z", {}),
    ("2026-06-03T07:30:00Z", {"rain.csv": "station,inches\nKS-01,1.20\nKS-02,none\nKS-03,2\n"}),
    ("2026-06-04T07:30:05Z", {"rain.csv": None, "polled.csv": "well\na\nb\n"}),
    ("2026-06-05T09:30:00Z", {"rain.csv": "station,inches\nKS-09,3\nKS-08,1\n", "counties.csv": "name\nRiley\n"}),
)  # fmt: skip


class Site:
    """An installation in a folder of its own, as one runner finds it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "site"
        self.folder.mkdir(parents=True)
        program = steps.kfm_at(folder / "bin")
        environment = folder / "environment"
        environment.write_text(f"KFM_SECRET_SIGNING={SIGNING}\n")
        text = CONFIG.format(folder=self.folder, program=program, environment=environment)
        (self.folder / "kfm.yml").write_text(text)
        self.env = {
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KFM_ACTOR": "tester",
            "KFM_REASON": "a test",
            "KFM_ACCEPT_WEAK_STORAGE": "true",
        }

    def kfm(self, *words: str, **env: str) -> str:
        done = steps.done([sys.executable, "-m", "kfm", *words], self.folder, {**self.env, **env})
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    def change(self, files: Mapping[str, str | None]) -> None:
        for name, body in files.items():
            if body is None:
                (self.folder / name).unlink()
            else:
                (self.folder / name).write_text(body)

    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.kfm("runs", "list", "--json"))
        return found

    def results(self) -> dict[str, Any]:
        """Everything that a reader can look at afterwards, byte for byte."""
        files = {
            str(path.relative_to(self.folder)): path.read_bytes()
            for name in ("catalog", "public")
            for path in sorted((self.folder / name).rglob("*"))
            if path.is_file()
        }
        resolved = config.load(str(self.folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"})
        with open_session(resolved, mode="read") as session:
            runs = [entry.run_id for entry in session.state.ledger.entries()]
            return {
                "receipts": [session.state.ledger.receipt_body(run) for run in runs],
                "refs": list(session.state.refs.all()),
                "ticks": [canonical(tick) for tick in session.state.ticks.of("rain", limit=100)],
                "triggers": list(triggers(session, ended=True, limit=100)),
                "files": files,
            }


def lived(site: Site, way: str) -> list[int]:
    """The days, woken by this runner; the codes it ended with."""
    codes = []
    for now, files in DAYS:
        site.change(files)
        env = {**site.env, "KFM_NOW": now}
        if way == "up":
            done = steps.done(["kfm", "up", "--once"], site.folder, {**env, "KFM_SECRET_SIGNING": SIGNING})
        else:
            try:
                done = steps.WAYS[way](site.folder, env, {"KFM_SECRET_SIGNING": SIGNING})
            except AssertionError:
                codes.append(3)  # a step of a job that fails ends the job
                continue
        codes.append(done.returncode)
    site.kfm("promote", "rain", KFM_NOW="2026-06-06T00:00:00Z", KFM_SECRET_SIGNING=SIGNING)
    return codes


@pytest.fixture(scope="module")
def by_up(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[int], dict[str, Any]]:
    site = Site(tmp_path_factory.mktemp("up"))
    codes = lived(site, "up")
    return codes, site.results()


def test_what_they_are_compared_with_is_worth_it(by_up: tuple[list[int], dict[str, Any]]) -> None:
    codes, results = by_up
    assert codes == [0, 0, 0, 0, 3, 0]
    receipts = [json.loads(each) for each in results["receipts"]]
    outcomes = {(each["dataset"], each["status"], each["outcome"]) for each in receipts}
    assert ("rain", "SUCCESS", "done") in outcomes and ("rain", "FAILED", "failed") in outcomes
    assert {each["dataset"] for each in receipts} == {"rain", "counties", "polled"}
    assert any(each.get("held_rows") for each in receipts)
    assert {each["kind"] for each in results["triggers"]} == {"schedule", "event", "poll"}
    assert any(name.startswith("catalog/") for name in results["files"])


@pytest.mark.parametrize("way", sampled(sorted(steps.WAYS), every=2))
def test_each_runner_gives_the_same_versions_and_receipts(
    way: str, tmp_path: Path, by_up: tuple[list[int], dict[str, Any]]
) -> None:
    site = Site(tmp_path)
    site.change(DAYS[0][1])
    site.kfm("runners", "write", way)
    codes, expected = by_up
    assert lived(site, way) == codes
    results = site.results()
    for what, said in expected.items():
        assert results[what] == said, what


@pytest.mark.long
def test_two_runners_over_one_state_do_each_thing_once(tmp_path: Path, by_up: tuple[list[int], dict[str, Any]]) -> None:
    """At the same instant, by turns and at once: what one did, the other finds done."""
    site = Site(tmp_path)
    site.change(DAYS[0][1])
    for way in ("argo", "cron"):
        site.kfm("runners", "write", way)
    for now, files in DAYS:
        site.change(files)
        env = {**site.env, "KFM_NOW": now}
        secrets = {"KFM_SECRET_SIGNING": SIGNING}
        beside = subprocess.Popen(
            [sys.executable, "-m", "kfm", "up", "--once"], cwd=site.folder, env={**env, **secrets},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        steps.argo(site.folder, env, secrets)
        beside.wait(60)
        steps.cron(site.folder, env, secrets)
    site.kfm("promote", "rain", KFM_NOW="2026-06-06T00:00:00Z", KFM_SECRET_SIGNING=SIGNING)
    _, expected = by_up
    results = site.results()
    for what in ("ticks", "refs"):
        assert results[what] == expected[what]
    assert done_in(results) == done_in(expected)


def done_in(results: dict[str, Any]) -> list[str]:
    receipts = [json.loads(each) for each in results["receipts"]]
    return sorted(each["run_id"] for each in receipts if each["outcome"] == "done")
