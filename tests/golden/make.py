"""Makes a golden state: `python -m tests.golden.make FOLDER`, once for each released format, and never again; with
`backup` behind it, a golden backup of the newest golden state.

Each holds a published dataset with its history, a skipped and a failed run, deliveries that nobody made yet, and
what was unfinished when it was left: a run that is planned and no more, two that were interrupted in the middle
(one of them forced), one of Python code, and a trigger that a freeze kept. Every later version of the program
must read it and finish all of it. Format 1 has the run of Python code alone: declared datasets, and a runner in Node
that could have begun or finished one, came only after format 2, so no such run was ever left in it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from kfm.app.backup.backup import back_up
from kfm.app.backup.backup_place import open_place
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.config import load
from kfm.model.records import Step
from kfm.model.updater import Output, Reader

HERE = Path(__file__).parent
BACKENDS = {"sqlite": "sqlite:state/state.db", "jsonl": "jsonl:state/journal.jsonl"}
DECLARED = ("forced", "halfway", "kept", "planned")  # by what was left unfinished in each


def lay_out(folder: Path, backend: str, datasets: tuple[str, ...]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "updaters.py", folder / "updaters.py")
    contract = "format: csv, contract: {columns: [{name: n, type: integer, mode: discard-row}]}"
    said = "    license: CC0-1.0\n    sensitivity: public\n    sources:\n      source: {uri: source.csv, "
    declared = "".join(
        f"  {name}:\n    title: {name.capitalize()}\n    version: 1.0.0\n{said}{contract}}}\n    outputs:\n"
        + "".join(
            f"      part-{n}: {{from: source, steps: [{{filter: {{column: n, at_least: {n * 6}, below: {n * 6 + 6}}}}}]"
            "}\n"
            for n in range(4)
        )
        for name in datasets
    )
    (folder / "kfm.yml").write_text(
        f"accept_weak_storage: true\nstate: {BACKENDS[backend]}\nobjects: file:objects\n"
        "execute: {threads: 1, window: 1}\n"
        f"datasets:\n  golden:\n    updater: updaters.py:U\n    title: Golden\n{said}{contract}}}\n{declared}"
    )
    return folder / "kfm.yml"


def opened(config: Path, mode: Any = "write") -> Session:
    return open_session(load(str(config), {}), mode=mode, clock=FixedClock())


def write_source(folder: Path, edition: int) -> None:
    rows = "".join(f"{n},station {n} of edition {edition}\n" for n in range(24))
    (folder / "source.csv").write_text(f"n,name\n{rows}{'x,not a number' if edition == 2 else ''}\n")


def told(session: Session, ref: str) -> int:
    """How many moves of a published ref the outside was told of."""
    known = session.state.outbox.told("publish", ref.partition("/")[2])
    return known.moves if known is not None else 0


def facts(session: Session) -> dict[str, Any]:
    """What must read the same forever."""
    return {
        "refs": dict(session.state.refs.all()),
        "history": {name: [e.after for e in session.state.refs.history(name)] for name, _ in session.state.refs.all()},
        "ledger": [
            [e.index, e.op_type, e.outcome, e.run_id, e.receipt_digest, e.prev] for e in session.state.ledger.entries()
        ],
        "open_runs": [run.run_id for run in session.state.runs.unfinished()],
        "kept": [[trigger.trigger_id, trigger.dataset] for trigger in session.state.inbox.waiting()],
        "undelivered": [
            f"{move.ref}/{move.run_id}"
            for move in session.state.refs.histories()
            if move.ref.startswith("published/") and move.n > told(session, move.ref)
        ],
    }


def interrupted(session: Session, dataset: str, at: str, *, force: bool = False) -> None:
    """Begin a run and stop it in the middle, as Ctrl-C does: what is done is in the journal, and the rest is open."""
    updater = dataset_updater(session, dataset)
    perform = updater.perform

    def stop(step: Step, read: Reader) -> Output:
        if step.id == at:
            raise KeyboardInterrupt
        return perform(step, read)

    updater.perform = stop  # type: ignore[method-assign]
    with contextlib.suppress(KeyboardInterrupt):
        run_trigger(session, new_trigger(session, dataset, force=force, reason="once more" if force else ""))
    updater.perform = perform  # type: ignore[method-assign]
    (run,) = (run for run in session.state.runs.unfinished() if run.dataset == dataset)
    assert run.plan_hash and any(session.state.journal.segments(run.run_id)), "it was not interrupted in the middle"
    assert run.trigger.force is force


def make(folder: Path, backend: str, datasets: tuple[str, ...] = DECLARED) -> None:
    config = lay_out(folder, backend, datasets)
    with opened(config) as session:
        for edition in (1, 2):
            write_source(folder, edition)
            run_trigger(session, new_trigger(session, "golden"))
            run_operation(session, "promote", "golden", reason=f"edition {edition}", actor="golden")
        run_trigger(session, new_trigger(session, "golden"))
        run_operation(session, "rollback", "golden", reason="on second thought", actor="golden")
        run_operation(session, "rollback", "nothing", reason="to fail", actor="golden")
        write_source(folder, 3)
        interrupted(session, "golden", "part-4")
        if datasets:
            leave_unfinished(session)
        session.state.sync()
        (folder / "facts.json").write_text(json.dumps(facts(session), indent=1) + "\n")


def leave_unfinished(session: Session) -> None:
    interrupted(session, "planned", "part-0")
    interrupted(session, "halfway", "part-2")
    assert run_trigger(session, new_trigger(session, "forced")).status == "SUCCESS"
    interrupted(session, "forced", "part-2", force=True)
    run_operation(session, "freeze", "kept", reason="to keep a trigger", actor="golden")
    assert run_trigger(session, new_trigger(session, "kept")).status == "SKIPPED"
    run_operation(session, "thaw", "kept", reason="for whoever comes next", actor="golden")
    assert [trigger.dataset for trigger in session.state.inbox.waiting()] == ["kept"]


def make_backup(folder: Path) -> None:
    """A backup of the newest golden state: once for each format of a backup, and never again."""
    newest = max(HERE.glob("format-*"), key=lambda path: int(path.name.partition("-")[2]))
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(newest / "sqlite", scratch, dirs_exist_ok=True)
        config = Path(scratch, "kfm.yml")
        with opened(config) as session:
            found = facts(session)
        resolved = load(str(config), {})
        back_up(resolved, open_place(resolved, f"file:{folder}"), FixedClock(), lambda *_: None)
        (folder / "facts.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[2:] == ["backup"]:
        make_backup(Path(sys.argv[1]).absolute())
        sys.exit()
    for kind in BACKENDS:
        make(Path(sys.argv[1]) / kind, kind)
