"""Makes a golden state: `python -m tests.golden.make FOLDER`, once for each released format, and never again.

Each holds a published dataset with its history, a skipped and a failed run, and one run that was
interrupted in the middle. Every later version of the program must read it and finish that run.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from kfm.clock import FixedClock
from kfm.config import load
from kfm.contract.records import Step
from kfm.contract.updater import Output, Reader
from kfm.runtime import House, open_house

HERE = Path(__file__).parent
BACKENDS = {"sqlite": "sqlite:state/state.db", "jsonl": "jsonl:state/journal.jsonl"}


def lay_out(folder: Path, backend: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "updaters.py", folder / "updaters.py")
    (folder / "kfm.yml").write_text(
        f"accept_weak_storage: true\nstate: {BACKENDS[backend]}\nobjects: file:objects\n"
        "execute: {threads: 1, window: 1}\n"
        "datasets:\n  golden:\n    updater: updaters.py:U\n    title: Golden\n    license: CC0-1.0\n"
        "    sensitivity: public\n    sources:\n      source: {uri: source.csv, format: csv, "
        "contract: {columns: [{name: n, type: integer, mode: discard-row}]}}\n"
    )
    return folder / "kfm.yml"


def opened(config: Path, mode: Any = "write") -> House:
    return open_house(load(str(config), {}), mode=mode, clock=FixedClock())


def write_source(folder: Path, edition: int) -> None:
    rows = "".join(f"{n},station {n} of edition {edition}\n" for n in range(24))
    (folder / "source.csv").write_text(f"n,name\n{rows}{'x,not a number' if edition == 2 else ''}\n")


def facts(house: House) -> dict[str, Any]:
    """What must read the same forever."""
    return {
        "refs": dict(house.state.refs()),
        "history": {name: [e.after for e in house.state.history(name)] for name, _ in house.state.refs()},
        "ledger": [[e.index, e.op_type, e.outcome, e.run_id, e.receipt_digest, e.prev] for e in house.state.ledger()],
        "open_runs": [run.run_id for run in house.state.open_runs()],
    }


def interrupted(house: House, at: str) -> None:
    """Begin a run and stop it in the middle, as Ctrl-C does: what is done is in the journal, and the rest is open."""
    updater = house.updater("golden")
    perform = updater.perform

    def stop(step: Step, read: Reader) -> Output:
        if step.id == at:
            raise KeyboardInterrupt
        return perform(step, read)

    updater.perform = stop  # type: ignore[method-assign]
    with contextlib.suppress(KeyboardInterrupt):
        house.run(house.trigger("golden"))
    updater.perform = perform  # type: ignore[method-assign]
    (run,) = house.state.open_runs()
    assert run.plan_hash and any(house.state.segments(run.run_id)), "it was not interrupted in the middle"


def make(folder: Path, backend: str) -> None:
    config = lay_out(folder, backend)
    with opened(config) as house:
        for edition in (1, 2):
            write_source(folder, edition)
            house.run(house.trigger("golden"))
            house.operation("promote", "golden", reason=f"edition {edition}", actor="golden")
        house.run(house.trigger("golden"))
        house.operation("rollback", "golden", reason="on second thought", actor="golden")
        house.operation("rollback", "nothing", reason="to fail", actor="golden")
        write_source(folder, 3)
        interrupted(house, "part-4")
        house.state.sync()
        (folder / "facts.json").write_text(json.dumps(facts(house), indent=1) + "\n")


if __name__ == "__main__":
    for kind in BACKENDS:
        make(Path(sys.argv[1]) / kind, kind)
