"""KFM, with nothing switched off. Each case runs alone in a child process.

python kfm_cases.py CASE N FOLDER
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import stations
import weather
from probe import Stopwatch, peak_mib, report

from kfm.app.authority.run_setup import context_of
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_updater

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = 10
CHANGES = 9


def installation(folder: str, datasets: str, extra: str = "") -> str:
    """A kfm.yml with these datasets and the updaters beside it; returns its path."""
    shutil.copy(os.path.join(HERE, "kfm_updaters.py"), os.path.join(folder, "updaters.py"))
    path = os.path.join(folder, "kfm.yml")
    if os.environ.get("BENCH_IN_MEMORY"):  # KFM refuses tmpfs unless told; the result says where it was measured
        extra += "accept_weak_storage: true\n"
    with open(path, "w") as file:
        file.write(f"kfm: 1\n{extra}datasets:\n{datasets}")
    return path


def dataset(name: str, kind: str, source: str = "") -> str:
    text = f"  {name}:\n    updater: updaters.py:{kind}\n"
    return text + (f"    sources:\n      body:\n        uri: {source}\n" if source else "")


def session(path: str) -> Any:
    from kfm.app.session.session import open_session
    from kfm.config import load

    return open_session(load(path, {}))


def kfm(folder: str, *arguments: str, **environ: str) -> None:
    """The command line, as a user would call it."""
    command = [sys.executable, "-m", "kfm.cli.main", *arguments]
    subprocess.run(command, cwd=folder, env={**os.environ, **environ}, check=True, stdout=subprocess.DEVNULL)


# -- steps


def whole_run(kind: str, n: int, folder: str) -> None:
    """One run of n steps, from the trigger to the receipt, durable when it returns."""
    os.environ["BENCH_STEPS"] = str(n)
    with session(installation(folder, dataset("data", kind))) as home:
        trigger = new_trigger(home, "data")
        with Stopwatch() as watch:
            receipt = run_trigger(home, trigger)
        assert receipt.status == "SUCCESS" and receipt.steps == n, receipt
        assert run_trigger(home, trigger).outcome == "noop"
        watch.report(n, settings=home.tables.settings())


def chain(n: int, folder: str) -> None:
    whole_run("Chain", n, folder)


def empty_chain(n: int, folder: str) -> None:
    whole_run("EmptyChain", n, folder)


def wide(n: int, folder: str) -> None:
    whole_run("Wide", n, folder)


# -- runs


def one(n: int, folder: str) -> None:
    """Runs of one step, one after another, each committed with its receipt before the next begins."""
    os.environ["BENCH_STEPS"] = "1"
    with session(installation(folder, dataset("data", "Wide"))) as home:
        triggers = [new_trigger(home, "data", window=f"P{i + 1}D") for i in range(n)]
        run_trigger(home, new_trigger(home, "data", window="P5000D"))
        with Stopwatch() as watch:
            for trigger in triggers:
                receipt = run_trigger(home, trigger)
        assert receipt.status == "SUCCESS", receipt
        watch.report(n)


DECLARED = """\
  data:
    version: "1.0.0"
    sources: {body: {uri: body.csv, format: csv}}
    outputs: {all: {from: body}}
"""


def one_declared(n: int, folder: str) -> None:
    """Runs of one declared step over a source of one row, which is another one each time."""
    with session(installation(folder, DECLARED)) as home:
        change(folder, "a,b\n0,0\n", "body.csv")
        run_trigger(home, new_trigger(home, "data"))
        with Stopwatch() as watch:
            for i in range(n):
                change(folder, f"a,b\n{i},1\n", "body.csv")
                receipt = run_trigger(home, new_trigger(home, "data"))
        assert receipt.outcome == "done", receipt
        watch.report(n)


def moved(n: int, folder: str) -> None:
    """Operations that move one ref: frozen and thawed in turn."""
    with session(installation(folder, dataset("data", "Wide"))) as home:
        run_operation(home, "thaw", "data", {"scope": "data"}, reason="go", actor="bench")
        with Stopwatch() as watch:
            for i in range(n):
                verb = "thaw" if i % 2 else "freeze"
                receipt = run_operation(home, verb, "data", {"scope": "data"}, reason="stop", actor="bench")
        assert receipt.outcome == "done", receipt
        watch.report(n)


def one_of_many(n: int, folder: str) -> None:
    """A dataset of n keys, one of which changes: the median of whole runs, and the bytes each hands to the disk."""
    os.environ["BENCH_STEPS"] = str(n)
    times, written = [], []
    change(folder, "0")
    with session(installation(folder, dataset("data", "Changing", "body"))) as home:
        assert run_trigger(home, new_trigger(home, "data")).steps == n
        settle_session(home)
        for i in range(CHANGES):
            change(folder, f"{i:09d}")
            trigger, before = new_trigger(home, "data"), bytes_written()
            with Stopwatch() as watch:
                receipt = run_trigger(home, trigger)
            assert receipt.changes == {"added": 0, "changed": 1, "removed": 0, "keys": n}, receipt
            times.append(watch.seconds)
            written.append(bytes_written() - before)
    report(1, statistics.median(times), None, least=min(times), written=statistics.median(written))


def change(folder: str, text: str, name: str = "body") -> None:
    with open(os.path.join(folder, name), "w") as file:
        file.write(text)


def bytes_written() -> int:
    """That this process handed to the system so far."""
    with open("/proc/self/io") as file:
        return int(dict(line.split(": ") for line in file)["wchar"])


def by_column(n: int, folder: str) -> None:
    """A declared output with one file for each of n values of a column: the first run."""
    with session(installation(folder, stations.DATASET)) as home:
        stations.first_run(n, folder, home)


def promote_one(n: int, folder: str) -> None:
    """One changed key of n, promoted into the public folder and the catalog: the bytes that it hands to the disk."""
    with session(installation(folder, stations.DATASET, stations.PUBLIC)) as home:
        stations.promote_one(n, folder, home, bytes_written)


def admission(n: int, folder: str) -> None:
    """Is this work done already? Inputs hashed, keys made, claim and ref looked up; nothing is written."""
    from kfm.engine.acquire import acquire
    from kfm.engine.admit import admit
    from kfm.engine.run_context import RunContext
    from kfm.engine.stage_results import Duplicate

    os.environ["BENCH_STEPS"] = "1"
    with session(installation(folder, dataset("data", "Wide"))) as home:
        trigger = new_trigger(home, "data")
        run_trigger(home, trigger)
        made = context_of(home, trigger, dataset_updater(home, "data"))
        changes = home.tables._db.total_changes()
        with Stopwatch() as watch:
            for _ in range(n):
                context = RunContext(made.work, made.world, made.guards)
                answer = admit(context, acquire(context))
        assert isinstance(answer, Duplicate)
        assert home.tables._db.total_changes() == changes and not watch.syncs, "an admission check wrote something"
        watch.report(n)


def skip(n: int, folder: str) -> None:
    """Whole skipped runs: each leaves its receipt, ledger entry and telemetry; one sync makes them all durable."""
    os.environ["BENCH_STEPS"] = "1"
    with session(installation(folder, dataset("data", "Wide"))) as home:
        trigger = new_trigger(home, "data")
        run_trigger(home, trigger)
        with Stopwatch() as watch:
            for _ in range(n):
                receipt = run_trigger(home, trigger)
            home.state.sync()
        assert receipt.outcome == "noop" and home.state.ledger.receipt(receipt.run_id) == receipt
        watch.report(n)


def skip_files(n: int, folder: str) -> None:
    """The same, and every receipt also exported as a file of its own, synced, with its folder."""
    os.environ["BENCH_STEPS"] = "1"
    with session(installation(folder, dataset("data", "Wide"))) as home:
        trigger = new_trigger(home, "data")
        run_trigger(home, trigger)
        settle_session(home)
        with Stopwatch() as watch:
            for _ in range(n):
                run_trigger(home, trigger)
            settle_session(home)
        watch.report(n)


def resume(n: int, folder: str) -> None:
    """`kfm run` killed by SIGKILL in its middle step; then `kfm resume`, timed to its first step."""
    installation(folder, dataset("data", "Halfway"))
    mark = os.path.join(folder, "mark")
    environ = {**os.environ, "BENCH_STEPS": str(n)}
    command = [sys.executable, "-m", "kfm.cli.main"]
    killed = subprocess.run([*command, "run"], cwd=folder, env=environ, check=False, capture_output=True)
    assert killed.returncode == -9, killed
    environ["BENCH_MARK"] = mark
    start = time.time()
    subprocess.run([*command, "resume"], cwd=folder, env=environ, check=True, capture_output=True)
    with open(mark) as file:
        first, begun = file.readline().split()
    report(1, float(begun) - start, None, plan_steps=n, finished_steps=int(first))


# -- bytes


def encoded(value: Any, n: int) -> None:
    """Byte-exact, checked against the reference before it is timed."""
    import msgspec
    import rfc8785

    from kfm.model.canonical import canonical as encode

    assert encode(value) == rfc8785.dumps(msgspec.to_builtins(value))
    with Stopwatch() as watch:
        for _ in range(n):
            encode(value)
    watch.report(n, bytes=len(encode(value)))


def canonical(n: int, folder: str) -> None:
    from yardsticks import record

    encoded(record(), n)


def canonical_odd(n: int, folder: str) -> None:
    """The same with 1e21, which the fast encoder writes otherwise than ECMAScript does."""
    from yardsticks import record

    encoded({**record(), "coverage": 1e21}, n)


def canonical_receipt(n: int, folder: str) -> None:
    """What KFM itself encodes most: a receipt, with inputs enough to make it 2 KB."""
    import msgspec

    from kfm.model.keys import digest
    from kfm.model.records import Item

    os.environ["BENCH_STEPS"] = "1"
    with session(installation(folder, dataset("data", "Wide"))) as home:
        receipt = run_trigger(home, new_trigger(home, "data"))
    inputs = [Item(kind="uri", id=f"https://example.org/{i}", checksum=digest(b"%d" % i), zone="raw") for i in range(4)]
    encoded(msgspec.structs.replace(receipt, inputs=inputs), n)


@contextmanager
def body_server(mib: int) -> Iterator[str]:
    """A server of our own, in its own process, that answers every GET with so many MiB."""
    command = [sys.executable, os.path.join(HERE, "body_server.py"), str(mib)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def fetch(n: int, folder: str) -> None:
    """n MiB over HTTP from this machine: fetched, hashed, stored durably, planned, committed."""
    with body_server(n) as address:
        extra = f'network:\n  allow: ["{address}"]\n'
        path = installation(folder, dataset("data", "Source", f"http://{address}/body"), extra)
        with session(path) as home:
            trigger = new_trigger(home, "data")
            before = peak_mib()
            with Stopwatch() as watch:
                receipt = run_trigger(home, trigger)
            assert receipt.status == "SUCCESS", receipt
            watch.report(n / 1024, peak_mib=peak_mib(), peak_before_mib=before)


# -- processes


def median_start(command: Sequence[str], n: int, folder: str) -> None:
    """Median time of n whole processes."""
    environ = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    times = []
    for _ in range(n + 1):
        start = time.perf_counter()
        subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    report(1, statistics.median(times[1:]), None)


def version(n: int, folder: str) -> None:
    median_start([kfm_script(folder), "--version"], n, folder)


def kfm_script(folder: str) -> str:
    """`kfm` in an environment that has what it needs and nothing else, as a user has it. Development tools bring
    packages along that others import if they are there."""
    home = os.path.join(folder, "environment")
    venv.create(home, with_pip=False, symlinks=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = os.path.join(home, "lib", version, "site-packages")
    for name in ("apsw", "msgspec"):
        found = importlib.util.find_spec(name)
        assert found is not None and found.origin is not None
        os.symlink(os.path.dirname(found.origin), os.path.join(packages, name))
    with open(os.path.join(packages, "kfm.pth"), "w") as file:
        file.write(os.path.join(os.path.dirname(HERE), "src"))
    with open(os.path.join(os.path.dirname(HERE), "pyproject.toml"), "rb") as file:
        module, _, name = tomllib.load(file)["project"]["scripts"]["kfm"].partition(":")
    body = f"import sys\nfrom {module} import {name}\nif __name__ == '__main__':\n    sys.exit({name}())\n"
    script = os.path.join(home, "bin", "kfm")
    with open(script, "w") as file:
        file.write(f"#!{os.path.join(home, 'bin', 'python')}\n{body}")
    os.chmod(script, 0o755)
    return script


def noop_files(n: int, folder: str) -> None:
    """`kfm run` over ten datasets with a file each, all unchanged."""
    os.mkdir(os.path.join(folder, "in"))
    datasets = ""
    for i in range(SOURCES):
        with open(os.path.join(folder, "in", f"{i}.csv"), "w") as file:
            file.write("a,b\n" + f"{i},1\n" * 100)
        datasets += dataset(f"data-{i}", "Source", f"in/{i}.csv")
    installation(folder, datasets)
    kfm(folder, "run")
    median_start([kfm_script(folder), "run"], n, folder)


def noop_http(n: int, folder: str) -> None:
    """The same over HTTP: every source answers 304."""
    with body_server(0) as address:
        extra = f'network:\n  allow: ["{address}"]\n'
        datasets = "".join(dataset(f"data-{i}", "Source", f"http://{address}/{i}") for i in range(SOURCES))
        installation(folder, datasets, extra)
        kfm(folder, "run")
        median_start([kfm_script(folder), "run"], n, folder)


# -- tables

DAILY = """\
  weather:
    version: "1.0.0"
    sources:
      daily:
        uri: daily.csv
        format: csv
        contract:
          columns:
            - {name: id, type: integer, required: true, mode: discard-row}
            - {name: station, required: true, pattern: "K[A-Z]{3}", mode: discard-row}
            - {name: day, type: date, required: true, mode: discard-row}
            - {name: t_max, type: number, minimum: -60, maximum: 60, mode: discard-row}
            - {name: rain, type: number, minimum: 0, mode: discard-row}
    outputs:
      warm:
        from: daily
        steps:
          - filter: {column: t_max, at_least: 10}
          - sort: [station, day, id]
          - deduplicate: {by: [id]}
"""


def table(n: int, folder: str) -> None:
    """n rows through contract, filter, sort and deduplication, as declared; from the trigger to the receipt."""
    weather.write(os.path.join(folder, "daily.csv"), n)
    with session(installation(folder, DAILY)) as home:
        trigger = new_trigger(home, "weather")
        with Stopwatch() as watch:
            receipt = run_trigger(home, trigger)
            settle_session(home)
        assert receipt.status == "SUCCESS", receipt
        manifest = json.loads(home.objects.read(home.state.refs.at("processed/weather")))
        watch.report(n, made=manifest["digest"].removeprefix("sha256:"), peak_mib=peak_mib())


def parquet(n: int, folder: str) -> None:
    """The same over Parquet. It was made by another process, whose memory is not counted here."""
    source = os.path.join(folder, "daily.parquet")
    make = f"import sys; sys.path.insert(0, {HERE!r}); import weather; weather.write_parquet({source!r}, {n})"
    subprocess.run([sys.executable, "-c", make], check=True)
    declared = DAILY.replace("daily.csv", "daily.parquet").replace("format: csv", "format: parquet")
    with session(installation(folder, declared)) as home:
        trigger = new_trigger(home, "weather")
        with Stopwatch() as watch:
            receipt = run_trigger(home, trigger)
            settle_session(home)
        assert receipt.status == "SUCCESS", receipt
        peak = peak_mib()
        manifest = json.loads(home.objects.read(home.state.refs.at("processed/weather")))
        made = os.path.join(folder, "made.parquet")
        with home.objects.open(manifest["digest"]) as body, open(made, "wb") as file:
            shutil.copyfileobj(body, file)
    watch.report(n, made=weather.told(made), peak_mib=peak)


# -- keys


def custodian() -> Any:
    from kfm.crypto.custodian_key import CustodianKey
    from kfm.model.secret import Secret

    return CustodianKey(Secret(os.urandom(64)))


def seal(n: int, folder: str) -> None:
    """Seals n MiB already in memory."""
    from kfm.crypto.encryption import encrypted, encrypted_size

    key, chunk = custodian(), os.urandom(1 << 20)
    with Stopwatch() as watch:
        size = sum(map(len, encrypted((chunk for _ in range(n)), key)))
    assert size == encrypted_size(n << 20)
    watch.report(n / 1024)


def unseal(n: int, folder: str) -> None:
    """Opens n MiB that were sealed; they are in memory."""
    from kfm.crypto.encryption import decrypted, encrypted

    key, chunk = custodian(), os.urandom(1 << 20)
    made = list(encrypted((chunk for _ in range(n)), key))
    with Stopwatch() as watch:
        size = sum(map(len, decrypted(made, {key.key_id: key}.get)))
    assert size == n << 20
    watch.report(n / 1024)


# -- backfills


def partitioned(n: int, folder: str) -> Any:
    """An open installation with a backfill of n partitions, listed in a file."""
    change(folder, "0")
    path = installation(folder, dataset("data", "Parts", "body"))
    os.makedirs(os.path.join(folder, "pipelines", "backfills"))
    with open(os.path.join(folder, "pipelines", "backfills", "all.yml"), "w") as file:
        file.write("backfills: {all: {dataset: data, partitions: {kind: station, file: keys.txt}}}\n")
    with open(os.path.join(folder, "keys.txt"), "w") as file:
        file.writelines(f"s{i:07d}\n" for i in range(n))
    return session(path)


def backfill_plan(n: int, folder: str) -> None:
    """From the declaration to the plan and its digest: every partition read, looked up and stored. And how much more
    memory that takes than a tenth of them."""
    from kfm.app.backfills.backfill_control import plan
    from kfm.config.backfill_files import one

    peaks = []
    for count in (n // 10, n):
        place = os.path.join(folder, str(count))
        os.makedirs(place)
        with partitioned(count, place) as home:
            with Stopwatch() as watch:
                made = plan(home, one(home.resolved, "all"))
            assert made.runs == count, made
        peaks.append(peak_mib())
    report(1, watch.seconds, watch.syncs, peak_mib=peaks[1], more_mib=round(peaks[1] - peaks[0], 1))


def backfill_pause(n: int, folder: str) -> None:
    """One of n partitions that was started is paused and resumed, over and over: the median of both together."""
    from kfm.app.backfills.backfill_control import again, start
    from kfm.config.backfill_files import one

    times = []
    with partitioned(n, folder) as home:
        start(home, one(home.resolved, "all"), "", actor="bench", reason="")
        for _ in range(CHANGES):
            with Stopwatch() as watch:
                run_operation(home, "freeze", "data", {"scope": "backfill/all"}, reason="stop", actor="bench")
                settle_session(home)
                run_operation(home, "thaw", "data", {"scope": "backfill/all"}, reason="go", actor="bench")
                again(home, "all", None)
                settle_session(home)
            times.append(watch.seconds)
    report(1, statistics.median(times), None, least=min(times))


def backfill_runs(n: int, folder: str) -> None:
    """Partitions by a backfill, one after another; and the bytes that lie on the disk for each."""
    from kfm.app.backfills.backfill_control import start, under_way
    from kfm.app.backfills.backfill_worker import Worker
    from kfm.config.backfill_files import one

    with partitioned(n, folder) as home:
        start(home, one(home.resolved, "all"), "", actor="bench", reason="")
        worker = Worker(home, under_way(home, "all"), lambda _about, problem: print(problem))
        with Stopwatch() as watch:
            made = sum(1 for receipt in worker.work() if receipt.outcome == "done")
            settle_session(home)
        assert made == n and not worker.stopped, (made, worker.stopped)
        watch.report(n, disk_kib=on_disk(folder) / n)


def partition_runs(n: int, folder: str) -> None:
    """The same partitions as runs by hand."""
    with partitioned(n, folder) as home:
        with Stopwatch() as watch:
            made = sum(
                run_trigger(home, new_trigger(home, "data", partition=f"s{i:07d}")).outcome == "done" for i in range(n)
            )
            settle_session(home)
        assert made == n
        watch.report(n, disk_kib=on_disk(folder) / n)


def on_disk(folder: str) -> float:
    """KiB of the state and what lies beside it."""
    return sum(
        os.lstat(os.path.join(place, name)).st_blocks / 2
        for place, _, names in os.walk(os.path.join(folder, ".kfm"))
        for name in names
    )


# -- memory


def big_plan(n: int, folder: str) -> None:
    """A plan of n steps with empty outputs: the peak of resident memory, and how long it takes."""
    os.environ["BENCH_STEPS"] = str(n)
    with session(installation(folder, dataset("data", "Empty"))) as home:
        trigger = new_trigger(home, "data")
        before = peak_mib()
        with Stopwatch() as watch:
            receipt = run_trigger(home, trigger)
        assert receipt.status == "SUCCESS" and receipt.steps == n, receipt
        watch.report(n, peak_mib=peak_mib(), peak_before_mib=before)


CASES: dict[str, Callable[[int, str], None]] = {
    case.__name__: case
    for case in (
        chain, empty_chain, wide, one, one_declared, moved, one_of_many, admission, skip, skip_files, resume, canonical,
        canonical_odd,
        canonical_receipt, fetch, version, noop_files, noop_http, big_plan, table, parquet, seal, unseal,
        backfill_plan, backfill_pause, backfill_runs, partition_runs, by_column, promote_one,
    )
}  # fmt: skip

if __name__ == "__main__":
    CASES[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
