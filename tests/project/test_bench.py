"""The benchmark counts what it says it counts, and the same result always makes the same page."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.project.bans import ROOT
from tests.sampling import sampled

BENCH = ROOT / "bench"
sys.path.insert(0, str(BENCH))

import contest  # noqa: E402
import peers  # noqa: E402
import render  # noqa: E402
import shim  # noqa: E402
from works import TARGETS, WORKS, Target  # noqa: E402

needs_compiler = pytest.mark.skipif(
    sys.platform != "linux" or not any(shutil.which(c) for c in ("cc", "gcc", "clang")), reason="no C compiler"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim.build(tmp_path_factory.mktemp("shim"))


def words(library: Path, folder: Path, code: str, delay_us: int = 0) -> tuple[int, ...]:
    counts = folder / "counts"
    environ = {**os.environ, **shim.environment(library, counts, delay_us)}
    subprocess.run([sys.executable, "-c", code], env=environ, cwd=folder, check=False, timeout=60)
    return struct.unpack("=7Q", counts.read_bytes())


# -- the shim


@needs_compiler
def test_the_shim_stands_between_the_bundled_sqlite_and_the_disk(library: Path, tmp_path: Path) -> None:
    code = "import apsw\nd = apsw.Connection('d')\nd.execute('pragma journal_mode=wal')\n"
    code += "d.execute('pragma synchronous=full')\nd.execute('create table t(a)')\n"
    code += "for i in range(10): d.execute('insert into t values (1)')\n"
    counted = words(library, tmp_path, code, delay_us=10)
    assert sum(counted[1:6]) >= 10, "SQLite's syncs were not seen"
    assert counted[6] == 10 * sum(counted[1:6]), "not every sync was slowed"


# -- the contest


def setting(tmp_path: Path, **more: Any) -> contest.Setting:
    return contest.Setting(room=tmp_path, python_of=lambda c: None if c.peer else sys.executable, say=str, **more)


def contestant(name: str, peer: str = "", rounds: int = 99) -> contest.Contestant:
    return contest.Contestant(name, ("yardsticks.py", "append"), 10, peer=peer, rounds=rounds)


def test_a_ratio_is_taken_to_the_yardsticks_on_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([1.0, 2.0, 4.0, 3.0, 9.0])  # yardstick, a, yardstick, b, yardstick
    order: list[str] = []

    def sample(_setting: object, who: contest.Contestant, n: int, _delay: int, **_more: object) -> contest.Sample:
        order.append(who.name)
        return {"units": n, "seconds": next(seconds), "syncs": None}

    monkeypatch.setattr(contest, "run_child", sample)
    work = contest.Work("w", "W", "x/s", "rate", (contestant("a"), contestant("b")), contestant("ruler"))
    ruler, a, b = contest.contest(work, setting(tmp_path, rounds=1))
    assert order == ["ruler", "a", "ruler", "b", "ruler"]
    assert len(ruler.samples) == 3
    assert a.ratios == [pytest.approx((10 / 2) / ((10 / 1) * (10 / 4)) ** 0.5)]
    assert b.ratios == [pytest.approx((10 / 3) / ((10 / 4) * (10 / 9)) ** 0.5)]


def test_every_target_names_a_contestant_of_the_programme() -> None:
    known = {(work.id, c.name) for work in WORKS for c in (*work.contestants, *filter(None, [work.yardstick]))}
    for target in TARGETS:
        assert (target.work, target.contestant) in known
        assert not target.times or (target.work, target.times) in known
        assert (target.least is None) != (target.most is None)


def test_every_peer_is_pinned() -> None:
    for name in peers.NAMES:
        assert peers.version(name), name
        lines = [line for line in (peers.PINS / f"{name}.txt").read_text().splitlines() if not line.startswith("#")]
        assert lines and all("==" in line for line in lines)


# -- the page


def result() -> dict[str, Any]:
    work = contest.Work("chain", "Chain", "steps/s", "rate", (), contestant("ruler"), note="A note.")
    rows = [
        contest.Row(contestant("ruler"), 1000),
        contest.Row(contestant("KFM"), 1000),
        contest.Row(contestant("P"), 9),
    ]
    rows[0].samples = [{"units": 1000, "seconds": 0.1, "syncs": 1003, "cpu_seconds": 0.01}] * 3
    rows[0].ratios = [1.0]
    rows[1].samples = [{"units": 1000, "seconds": s, "syncs": 1002, "cpu_seconds": 0.05} for s in (0.2, 0.25, 0.5)]
    rows[1].ratios = [0.5, 0.4, 0.2]
    rows[2].absent = "not installed"
    works = [render.work_result(work, rows)]
    targets = (
        Target("chain", "KFM", "ratio", least=0.8),
        Target("chain", "KFM", "syncs", most=1.05),
        Target("chain", "P", "ratio", least=1),
        Target("wide", "KFM", "ratio", least=1),
    )
    machine = {
        "cpu": "C",
        "cores": 2,
        "system": "Linux 6",
        "filesystem": "ext4",
        "python": "3",
        "sqlite": "3",
        "load": 0,
    }
    return {
        "date": "2026-01-02", "kfm": "0.1.0", "machine": machine, "rounds": 3, "notices": ["Notice."],
        "peers": {"dbos": "1", "luigi": "2"}, "works": works, "targets": render.target_results(works, targets),
    }  # fmt: skip


GOLDEN = """\
Measured 2026-01-02 with KFM 0.1.0 on 2 cores (C), Linux 6, ext4, Python 3, SQLite 3; 3 rounds,
load 0 at the start. Peers: DBOS 1, Luigi 2.

- Notice.

### Targets

| work | contestant | target | measured | |
|---|---|---|---|---|
| Chain | KFM | at least 0.8 X ruler | 0.4 | **missed by 2X** |
| Chain | KFM | at most 1.05 syncs a step | 1 | reached |

### Chain

|  | steps/s | spread | X ruler | spread | syncs a step | CPU µs | samples of |
|---|---|---|---|---|---|---|---|
| ruler | 10,000 | 10,000-10,000 | 1 | 1-1 | 1 | 10 | 3 X 1,000 |
| KFM | 4,000 | 2,000-5,000 | 0.4 | 0.2-0.5 | 1 | 50 | 3 X 1,000 |

A note. Absent: P (not installed).
"""


def test_a_missed_target_and_an_absent_peer_are_shown() -> None:
    text = render.render(result())
    assert text.replace(render.TIMES, "X").replace(render.DASH, "-") == GOLDEN


def test_the_page_shows_a_recorded_result() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    recorded = [json.loads(path.read_text()) for path in sorted((BENCH / "results").glob("*.json"))]
    assert any(render.into_page(page, render.render(found)) == page for found in recorded)


def test_a_recorded_result_names_no_machine() -> None:
    for path in (BENCH / "results").glob("*.json"):
        found = json.loads(path.read_text())
        assert set(found["machine"]) == {
            "cpu", "cores", "machine", "system", "filesystem", "python", "sqlite", "load",
        }  # fmt: skip
        assert str(ROOT) not in path.read_text()


# -- the cases themselves: each does its work, whatever the time it takes

SMALL = {
    "chain": 20, "empty_chain": 20, "wide": 600, "one": 3, "one_declared": 2, "moved": 2,
    "one_of_many": 300, "admission": 5, "skip": 5,
    "skip_files": 5, "resume": 3000, "canonical": 2, "canonical_odd": 2, "canonical_receipt": 2, "fetch": 2,
    "version": 1, "noop_files": 1, "noop_http": 1, "big_plan": 2000, "table": 2000, "parquet": 2000, "seal": 2,
    "unseal": 2, "backfill_plan": 50, "backfill_pause": 50, "backfill_runs": 3, "partition_runs": 3,
    "by_column": 20, "promote_one": 20,
}  # fmt: skip


def case_names() -> set[str]:
    return {c.argv[1] for work in WORKS for c in work.contestants if c.argv[0] == "kfm_cases.py"}


def test_every_case_of_the_programme_is_tried_here() -> None:
    assert case_names() == set(SMALL)


@pytest.mark.parametrize("case", sampled(sorted(SMALL), every=3))
def test_the_case_does_its_work(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_IN_MEMORY", "1")  # wherever the tests may write
    sample = contest.run_child(setting(tmp_path), contest.Contestant(case, ("kfm_cases.py", case), 1), SMALL[case])
    assert sample["units"] > 0
    assert sample["seconds"] > 0
    if case == "resume":
        assert 0 < sample["finished_steps"] <= SMALL[case] // 2


@pytest.mark.parametrize("keys", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_changed_key_of_many_hands_less_than_a_hundred_kibibytes_to_the_disk(
    keys: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_IN_MEMORY", "1")
    case = contest.Contestant("one_of_many", ("kfm_cases.py", "one_of_many"), 1)
    assert 10_000 < contest.run_child(setting(tmp_path), case, keys)["written"] < 100 * 1024


@pytest.mark.parametrize("case, n", [("due", 100), ("freshness", 5)])  # an idle process takes its time
def test_what_is_measured_of_schedules_does_its_work(
    case: str, n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_IN_MEMORY", "1")
    sample = contest.run_child(setting(tmp_path), contest.Contestant(case, ("schedules.py", case), 1), n)
    assert sample["units"] == 1 and sample["seconds"] > 0
