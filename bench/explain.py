"""How long an explanation takes: `python bench/explain.py [RUNS] [DEPTH]` (default: 100,000 runs, ten derivations).

Each dataset is made of the one before it, and then run over and over with nothing to do, until the ledger has so many
entries. Explained is the last of them: in this process, with the state open and without; and as a command, from the
interpreter's start to its end. Milliseconds of the processor, so that other work does not count.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from kfm import config
from kfm.app.provenance.explain import explain, written
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import open_session
from kfm.clock import parse_instant, rfc3339

UPDATER = """\
from kfm import Output, Plan, Step, Updater


class First(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        before = int(trigger.dataset[1:]) - 1
        return [sources.pin("words.txt")] if before < 0 else [sources.ref(f"processed/d{before}")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        return Output.text(f"{len(read.bytes(0))} {read.inputs[0].content_hash}")
"""
DATASET = "  d{}: {{updater: chain.py:First, title: Number {}, license: CC0-1.0, sensitivity: public}}\n"
TIMES = 15


def laid_out(folder: Path, depth: int) -> None:
    (folder / "chain.py").write_text(UPDATER)
    (folder / "words.txt").write_text("prairie\n")
    names = "".join(DATASET.format(n, n) for n in range(depth + 1))
    (folder / "kfm.yml").write_text(f"kfm: 1\naccept_weak_storage: true\ndatasets:\n{names}")


def filled(folder: Path, runs: int, depth: int) -> None:
    """The derivations first, then skipped runs of all of them, a second apart."""
    resolved = config.load(str(folder / "kfm.yml"), os.environ)
    with open_session(resolved) as session:
        for n in range(depth + 1):
            assert run_trigger(session, new_trigger(session, f"d{n}")).outcome == "done"
        skipped = [run_trigger(session, new_trigger(session, f"d{n}")) for n in range(depth + 1)]
        assert {receipt.outcome for receipt in skipped} == {"noop"}
        start = parse_instant(skipped[-1].finished_at, "a receipt")
        with session.state.transaction() as tx:
            for n in range(runs - 2 * (depth + 1)):
                one, at = skipped[n % (depth + 1)], rfc3339(start + 1000 * n)
                tx.ledger.append(
                    msgspec.structs.replace(one, run_id=f"{n:08x}-0000-8000-8000-000000000000", finished_at=at),
                    op="ingest",
                )


def spent() -> float:
    """By this process, and by those it waited for."""
    own, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + theirs.ru_utime + theirs.ru_stime


def median(work: Callable[[], object]) -> float:
    took = []
    for _ in range(TIMES):
        begun = spent()
        work()
        took.append((spent() - begun) * 1e3)
    return statistics.median(took)


def main() -> None:
    runs, depth = (int(word) for word in [*sys.argv[1:], "100000", "10"][:2])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        laid_out(folder, depth)
        filled(folder, runs, depth)
        resolved, last = config.load(str(folder / "kfm.yml"), os.environ), f"d{depth}"
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {runs} runs, {depth} derivations deep")
        with open_session(resolved, mode="read") as session:
            told, records = explain(session, last)
            assert len(told.chain) == depth + 2 and len(records) == depth + 1
            print(f"explain, the state open        {median(lambda: explain(session, last)):8.1f} ms")
            print(f"explain as a page              {median(lambda: written(*explain(session, last), 'html')):8.1f} ms")

        def opened() -> None:
            with open_session(resolved, mode="read") as session:
                explain(session, last)

        print(f"explain, opening the state too {median(opened):8.1f} ms")
        command = [sys.executable, "-m", "kfm", "explain", last, "--json"]
        typed = median(lambda: subprocess.run(command, cwd=folder, check=True, capture_output=True))
        bare = median(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
        print(
            f"explain as a command           {typed:8.1f} ms, of which {bare:.1f} are an interpreter that does nothing"
        )


if __name__ == "__main__":
    main()
