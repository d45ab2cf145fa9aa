"""Both runners take turns on one state, and some of them are killed: in the end it is as if Python had been alone.

A sequence is made of a seed: runs by either, runs begun by both at once, runs that are killed at a random moment
and then taken up by either, changes of the source, freezes, thaws, rollbacks and promotions. The same sequence by
Python alone, without a kill or a race, says what must be there in the end.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.engine.installations import environment
from tests.node.sites import Site, command, contents, rows_of
from tests.sampling import sampled

Count = Callable[..., None]
RUNNERS = ("python", "node")
COUNTIES = 60
CONFIG = """\
kfm: 1
accept_weak_storage: true
state: STATE
execute: {window: 4}
datasets:
  gauges:
    version: "1.0.0"
    title: Gauges
    license: CC0-1.0
    sensitivity: public
    sources:
      gauges:
        uri: data/gauges.csv
        format: csv
        contract: {shrink_limit: 1, partition_by: county, columns: [{name: rain_mm, type: integer, mode: discard-row}]}
    outputs:
      rain: {from: gauges, partition_by: county, steps: [{sort: [gauge]}]}
      totals: {from: gauges, format: ndjson, steps: [{cast: {rain_mm: integer}}, {deduplicate: {by: [county]}}]}
"""


def gauges(edition: int) -> str:
    """Some counties of many, with other rows in every edition, and now and then one that is held."""
    pick = random.Random(edition)
    lines = ["gauge,county,rain_mm"]
    for n in range(COUNTIES * 3):
        rain = "much" if pick.random() < 0.01 else str(pick.randrange(100))
        lines.append(f"g{pick.randrange(1000)},county-{pick.randrange(COUNTIES):02d},{rain}" + " " * (n % 2))
    return "\n".join(lines) + "\n"


class Act(NamedTuple):
    what: str
    runner: str = "python"
    after: str = "python"  # who takes up what was killed
    moment: float = 0.0  # of a kill, as a share of how long a run takes from its first line on
    words: tuple[str, ...] = ()


def sequence(seed: int) -> list[Act]:
    pick = random.Random(seed)
    acts = [Act("run", pick.choice(RUNNERS))]
    kinds = (
        ("run",) * 3
        + ("change",) * 2
        + ("kill",) * 6
        + ("race",) * 2
        + ("freeze", "thaw", "rollback", "promote", "resume")
    )
    for _ in range(pick.randrange(5, 10)):
        words = ("--force", "--reason", "again") if pick.random() < 0.1 else ()
        kind = pick.choice(kinds)
        if kind in ("kill", "race"):
            acts.append(Act("change"))
        acts.append(Act(kind, pick.choice(RUNNERS), pick.choice(RUNNERS), pick.random(), words))
    return [*acts, Act("thaw"), Act("resume"), Act("run", pick.choice(RUNNERS))]


class Stage:
    """Plays a sequence. Alone: by Python only, and nobody is killed."""

    def __init__(self, folder: Path, state: str, *, alone: bool, took: dict[str, float]) -> None:
        self.site = Site(folder, {"kfm.yml": CONFIG.replace("STATE", state)}, lambda _n: "python")
        self.site.put("data/gauges.csv", gauges(0))
        self._alone = alone
        self._took = took
        self._edition = 0
        self.tally: Counter[str] = Counter()

    def play(self, acts: list[Act]) -> None:
        for act in acts:
            getattr(self, "_" + act.what)(act)

    def _by(self, runner: str, *words: str) -> None:
        if self._alone or runner == "python":
            answer = self.site.python(*words)
        else:
            answer = self.site.node(*words)
            self.tally["commands by Node"] += 1
        assert answer.code in (0, 5), (runner, words, answer)
        assert "Traceback" not in answer.err and "internal" not in answer.err

    def _run(self, act: Act) -> None:
        self._by(act.runner, "run", *act.words)

    def _resume(self, _act: Act) -> None:
        self.site.kfm("resume", code=None)

    def _change(self, _act: Act) -> None:
        self._edition += 1
        self.site.put("data/gauges.csv", gauges(self._edition))

    def _freeze(self, _act: Act) -> None:
        self.site.kfm("freeze", "gauges", code=None)

    def _thaw(self, _act: Act) -> None:
        self.site.kfm("thaw", "gauges", code=None)

    def _rollback(self, _act: Act) -> None:
        self.site.kfm("rollback", "gauges", "--ref", "processed/gauges", code=None)

    def _promote(self, _act: Act) -> None:
        self.site.kfm("promote", "gauges", code=None)

    def _kill(self, act: Act) -> None:
        if not self._alone:
            self._killed(act)
        self._by(act.after, "run", *act.words[:0])

    def _race(self, act: Act) -> None:
        """Both begin at once: one does it, the other finds it busy or done. Then whatever is left is done."""
        if not self._alone:
            both = [
                subprocess.Popen(
                    command(runner, "run"),
                    cwd=self.site.folder,
                    env=environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                for runner in RUNNERS
            ]
            told = [process.communicate(timeout=120)[1] for process in both]
            codes = [process.returncode for process in both]
            assert set(codes) <= {0, 5, 6} and codes != [6, 6], (codes, told)
            self.tally["runs by both at once"] += 1
            self.tally["runs by both at once, of which one found it busy"] += 6 in codes
        self._by(act.after, "run")

    def _killed(self, act: Act) -> None:
        """At any moment from its start on: before it is admitted, between two windows, after the commit."""
        process = subprocess.Popen(
            command(act.runner, "run", "--verbose"),
            cwd=self.site.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        process.stderr.readline()  # it has pinned its source, or ended
        time.sleep(self._took[act.runner] * act.moment)
        process.kill()
        process.stderr.close()
        if process.wait(timeout=60) == -9:
            self.tally[f"kills of {act.runner}"] += 1
            unfinished = len(rows_of(self.site.folder)["open_runs"])
            assert unfinished <= 1
            self.tally[f"runs left unfinished by {act.runner}, taken up by {act.after}"] += unfinished

    def left(self) -> dict[str, Any]:
        """What a sequence comes to, however it was reached."""
        rows = rows_of(self.site.folder)
        assert not rows["open_runs"] and not rows["inbox"]
        runs = {key: json.loads(body) for key, body in rows["runs"].items()}
        receipts = {key: json.loads(body) for key, body in rows["receipts"].items()}
        entries = [json.loads(body)["run_id"] for body in rows["ledger"].values()]
        assert sorted(entries) == sorted(receipts), "one receipt a run, and one entry of the ledger"
        assert set(runs) <= set(receipts)
        for name, run in runs.items():
            assert run["status"] == {"SUCCESS": "COMMITTED", "FAILED": "FAILED"}[receipts[name]["status"]]
        manifest = json.loads(json.dumps(self._manifest(rows)))
        assert len({tuple(line["key"]) for line in manifest}) == len(manifest), "one output a key"
        return {
            "refs": rows["refs"],
            "history": rows["history"],
            "versions": rows["versions"],
            "plans": rows["plans"],
            "locks": rows["plan_locks"],
            "receipts of committed runs": {
                key: rows["receipts"][key] for key, receipt in receipts.items() if receipt["status"] == "SUCCESS"
            },
            "manifest": manifest,
            "published": contents(self.site.folder / "public"),
        }

    def _manifest(self, rows: dict[str, dict[str, bytes]]) -> list[Any]:
        body = rows["objects"][rows["refs"]["processed/gauges"].decode()]
        return [json.loads(line) for line in body.splitlines()]


@pytest.fixture(scope="module")
def took(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """How long a run of each takes here, from its first line on: kills fall within it."""
    found = {}
    for runner in RUNNERS:
        folder = tmp_path_factory.mktemp(runner) / "site"
        site = Site(folder, {"kfm.yml": CONFIG.replace("STATE", "sqlite:.kfm/state.db")}, lambda _n: "python")
        site.put("data/gauges.csv", gauges(0))
        process = subprocess.Popen(
            command(runner, "run", "--verbose"), cwd=folder, env=environment(), stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        process.stderr.readline()
        begun = time.monotonic()
        process.communicate(timeout=120)
        assert process.returncode == 0
        found[runner] = time.monotonic() - begun
    return found


def check(seed: int, folder: Path, took: dict[str, float], count: Count) -> Counter[str]:
    state = ("sqlite:.kfm/state.db", "jsonl:.kfm/state.jsonl")[seed % 2]
    acts = sequence(seed)
    alone = Stage(folder / "alone", state, alone=True, took=took)
    alone.play(acts)
    together = Stage(folder / "together", state, alone=False, took=took)
    together.play(acts)
    expected, found = alone.left(), together.left()
    for part, value in expected.items():
        assert found[part] == value, (seed, part, acts)
    deep = together.site.kfm("doctor", "--deep", code=None)
    assert "intact" in deep.out and "bad" not in deep.out, deep
    for what, number in together.tally.items():
        count(what, number)
    count("sequences ended alike")
    return together.tally


def check_all(seeds: range, folder: Path, took: dict[str, float], count: Count) -> Counter[str]:
    total: Counter[str] = Counter()
    for seed in seeds:
        total += check(seed, folder / str(seed), took, count)
    return total


@pytest.mark.parametrize("block", sampled(range(8)))
def test_in_turn_and_killed_they_end_as_python_alone(
    block: int, tmp_path: Path, took: dict[str, float], count: Count
) -> None:
    total = check_all(range(block, block + 1), tmp_path, took, count)
    assert any(total[f"kills of {one}"] for one in RUNNERS), "nobody was killed"


@pytest.mark.long
@pytest.mark.parametrize("block", range(4))
def test_two_hundred_sequences_end_as_python_alone(
    block: int, tmp_path: Path, took: dict[str, float], count: Count
) -> None:
    """In each of the blocks whatever either left unfinished was taken up by either."""
    total = check_all(range(100 + block * 50, 150 + block * 50), tmp_path, took, count)
    for killed in RUNNERS:
        assert total[f"kills of {killed}"], f"{killed} was never killed"
        for after in RUNNERS:
            assert total[f"runs left unfinished by {killed}, taken up by {after}"], (killed, after, total)
