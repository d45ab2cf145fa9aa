"""What a rollback with all its read models and an unchanged backup cost: `bench/interventions.py [KEYS] [FILES]`.

A rollback of a dataset of 1,000 keys and of KEYS (default: 100,000) takes turns: the seconds until the refs have moved,
and until public files, catalog and pages have followed. A backup of an installation of FILES large objects (default:
10,000), of which nothing is new, takes turns with `find` over its folder.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kfm import config
from kfm.app.runs.run_control import run_operation
from kfm.app.runs.settlement import settle_session
from kfm.app.session.session import open_session
from kfm.cli.main import main as kfm
from kfm.model.ports import INLINE_MAX

ROUNDS = 7
CONFIG = """\
accept_weak_storage: true
publish: file:public
catalog: file:catalog
pages: true
datasets:
  wells:
    updater: updaters.py:Wells
    title: Wells
    license: CC0-1.0
    sensitivity: public
    sources: {rows: {uri: rows.csv, format: csv, contract: {columns: [{name: value}]}}}
"""
UPDATER = """\
from kfm import Output, Plan, Step, Updater

KEYS = %d


class Wells(Updater):
    id = "wells"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rows")]

    def plan(self, inputs):
        return Plan([Step(id=f"well-{n}", key=("well", str(n)), params={"n": n}) for n in range(KEYS)])

    def perform(self, step, read):
        n = step.params["n"]
        return Output.text(f"well {n}: {read.text('rows') if n == 0 else n}")
"""


def typed(folder: Path, *words: str) -> None:
    assert kfm([*words, "-q", "--config", str(folder / "kfm.yml")]) == 0, words


def laid_out(folder: Path, keys: int) -> None:
    """Two published versions, which differ in one key."""
    (folder / "kfm.yml").write_text(CONFIG)
    (folder / "updaters.py").write_text(UPDATER % keys)
    for value in ("1", "2"):
        (folder / "rows.csv").write_text(f"value\n{value}\n")
        typed(folder, "run")
        typed(folder, "publish", "wells", "--reason", "a bench")


def rolled_back(folder: Path, to: str) -> tuple[float, float]:
    """Return the seconds until the refs have moved, and until everything has followed."""
    with open_session(config.load(str(folder / "kfm.yml"), {})) as session:
        begun = time.perf_counter()
        receipt = run_operation(session, "rollback", "wells", {"to": to}, reason="a bench", actor="bench")
        moved = time.perf_counter() - begun
        assert receipt.outcome == "done", receipt
        settle_session(session)
        return moved, time.perf_counter() - begun


def rollbacks(keys: int) -> None:
    with tempfile.TemporaryDirectory() as few, tempfile.TemporaryDirectory() as many:
        places = {1000: Path(few), keys: Path(many)}
        versions = {}
        for count, folder in places.items():
            laid_out(folder, count)
            with open_session(config.load(str(folder / "kfm.yml"), {}), mode="read") as session:
                versions[count] = [move.after for move in session.state.refs.history("published/wells")]
        found: dict[int, list[tuple[float, float]]] = {count: [] for count in places}
        for number in range(ROUNDS):
            for count, folder in places.items():
                found[count].append(rolled_back(folder, versions[count][number % 2]))
        shown = {
            count: [statistics.median(column) for column in zip(*rows, strict=True)] for count, rows in found.items()
        }
        for count, (moved, followed) in shown.items():
            print(f"rollback of {count:>7,} keys: refs moved in {moved:.3f} s, all read models in {followed:.3f} s")
        print(f"ratio {shown[keys][1] / shown[1000][1]:.2f} (aim: at most 2), refs in {shown[keys][0]:.3f} s (aim: 1)")


def backups(files: int) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as place:
        folder = Path(one)
        laid_out(folder, 10)
        with open_session(config.load(str(folder / "kfm.yml"), {})) as session:
            pad = b"x" * INLINE_MAX
            for start in range(0, files, 500):
                names = [session.objects.put(b"%d %s" % (n, pad)) for n in range(start, min(files, start + 500))]
                with session.state.transaction(durable=False):
                    session.tables.put_many("plan_locks", ((name[7:], name.encode()) for name in names))
        typed(folder, "backup", place, "--reason", "the first")
        taken, walked = [], []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            typed(folder, "backup", place, "--reason", "again")
            taken.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            subprocess.run(["find", str(folder), "-type", "f", "-size", "+0"], check=True, stdout=subprocess.DEVNULL)
            walked.append(time.perf_counter() - begun)
        again, find = statistics.median(taken), statistics.median(walked)
        print(f"backup of {files:,} unchanged objects: {again:.3f} s, ratio to find {again / find:.1f} (aim: 2)")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    rollbacks(given[0] if given else 100_000)
    backups(given[1] if len(given) > 1 else 10_000)
