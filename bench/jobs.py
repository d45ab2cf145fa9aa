"""KFM with servers, next to what does less: `python bench/jobs.py [--rounds N] [PART …]`.

Parts: jobs (no-op jobs through Redis with receipts in Postgres, next to plain Celery and to DBOS on the same servers),
workers (four next to one), trips (how often a run waits for Postgres), cluster (a step on Dask next to `client.map`).

The servers are those of the tests, on this machine alone, and Postgres syncs. Contestants take turns.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import peers
from contest import ChildFailed, Contestant, Setting, run_child
from run import describe, kfm_version

HERE = Path(__file__).resolve().parent
WORK = HERE / ".work"
sys.path.insert(0, str(HERE.parent))

WRITTEN = "a row for each job"


def ours(name: str, case: str, n: int, *tail: str, durable: str = "") -> Contestant:
    return Contestant(name, ("server_cases.py", case), n, durable, tail=tail)


PARTS: dict[str, tuple[Contestant, ...]] = {
    "jobs": (
        Contestant("Celery, 1 process", ("peer_celery.py", "jobs"), 300, WRITTEN, tail=("1",)),
        ours("KFM, 1 worker", "jobs", 100, "1", durable="claim, receipt, ledger entry and end of each job"),
        Contestant("DBOS (Postgres)", ("peer_dbos.py", "jobs"), 300, "status and result", "dbos", tail=("postgres",)),
    ),
    "workers": (
        ours("KFM, 1 worker, no-op jobs", "jobs", 100, "1"),
        ours("KFM, 4 workers, no-op jobs", "jobs", 100, "4"),
        ours("KFM, 1 worker, jobs of 50 ms", "slow_jobs", 40, "1"),
        ours("KFM, 4 workers, jobs of 50 ms", "slow_jobs", 40, "4"),
    ),
    "trips": (
        ours("KFM, one step", "trips_one", 100),
        ours("KFM, a declared step over a changed file", "trips_declared", 100),
        ours("KFM, nothing to do", "trips_noop", 100),
        ours("KFM, a step of a chain", "trips_chain", 300),
        Contestant("DBOS (Postgres), one step", ("peer_dbos.py", "one"), 100, "", "dbos", tail=("postgres",)),
    ),
    "cluster": (
        ours("`client.map`", "dask_map", 1000),
        ours("KFM, ready steps", "dask_steps", 1000),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/jobs.py", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"default: {' '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the result to this file, too")
    asked = parser.parse_args()
    from tests.servers import postgres, redis

    WORK.mkdir(exist_ok=True)
    result: dict[str, Any] = {"date": datetime.date.today().isoformat(), "kfm": kfm_version(), "parts": {}}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name, tempfile.TemporaryDirectory(dir=WORK) as room:
        os.chmod(name, 0o755)
        with (
            postgres.private(fsync=True) as server,
            redis.redis_server(Path(name, "redis")) as broker,
        ):
            os.environ["BENCH_POSTGRES_PORT"] = str(server.port)
            os.environ["BENCH_POSTGRES_PASSWORD"] = postgres.PASSWORD
            os.environ["BENCH_REDIS"] = broker.url
            secret = postgres.PASSWORD.replace(" ", "%20")
            os.environ["BENCH_POSTGRES"] = f"postgresql://kfm:{secret}@127.0.0.1:{server.port}/dbos"
            server.execute("CREATE DATABASE dbos")
            result |= {"machine": describe(Path(room)), "rounds": asked.rounds}
            print(f"load {os.getloadavg()[0]:.1f} at the start, {os.cpu_count()} cores, {asked.rounds} rounds")
            setting = Setting(room=Path(room), python_of=python_of)
            for part in asked.parts or PARTS:
                result["parts"][part] = measured(setting, PARTS[part], asked.rounds)
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    if asked.json:
        Path(asked.json).write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return 0


def python_of(one: Contestant) -> str | None:
    if not one.peer:
        return sys.executable
    return str(peers.python_of(one.peer)) if peers.present(one.peer) else None


def measured(setting: Setting, contestants: tuple[Contestant, ...], rounds: int) -> list[dict[str, Any]]:
    """Take the samples of one part in turn, and print them; ratios are to the first contestant of the same round."""
    taken: dict[str, list[dict[str, Any] | None]] = {one.name: [] for one in contestants}
    absent: dict[str, str] = {}
    for _ in range(rounds):
        for one in contestants:
            try:
                taken[one.name].append(None if one.name in absent else run_child(setting, one, one.n))
            except ChildFailed as problem:
                taken[one.name].append(None)
                absent[one.name] = str(problem)
    rows = []
    first = taken[contestants[0].name]
    for one in contestants:
        samples = [sample for sample in taken[one.name] if sample is not None]
        if not samples:
            print(f"{one.name:44} absent: {absent[one.name]}", flush=True)
            rows.append({"name": one.name, "absent": absent[one.name]})
            continue
        rates = [sample["units"] / sample["seconds"] for sample in samples]
        ratios = [
            (mine["units"] / mine["seconds"]) / (base["units"] / base["seconds"])
            for mine, base in zip(taken[one.name], first, strict=True)
            if mine is not None and base is not None
        ]
        row = {
            "name": one.name, "n": one.n, "samples": len(samples), "durable": one.durable,
            "rate": spread(rates), "ratio": spread(ratios),
            "cpu_us": spread([1e6 * sample.get("cpu_seconds", 0) / sample["units"] for sample in samples]),
            "trips": spread([sample["trips"] for sample in samples if "trips" in sample]),
        }  # fmt: skip
        rows.append(row)
        print(f"{one.name:44} {shown(row)}", flush=True)
    return rows


def spread(values: list[float]) -> list[float] | None:
    if not values:
        return None
    return [float(f"{value:.4g}") for value in (statistics.median(values), min(values), max(values))]


def shown(row: dict[str, Any]) -> str:
    rate, ratio, trips = row["rate"], row["ratio"], row["trips"]
    text = f"{rate[0]:8.4g}/s ({rate[1]:.3g}-{rate[2]:.3g})"
    text += f"  {ratio[0]:.3g} x ({ratio[1]:.3g}-{ratio[2]:.3g})" if ratio else ""
    return text + (f"  {trips[0]:.3g} round trips" if trips else "")


if __name__ == "__main__":
    sys.exit(main())
