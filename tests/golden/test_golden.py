"""States written by every released format are read, and their unfinished runs are finished, forever."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kfm.app.backup.backup_place import open_place
from kfm.app.backup.backup_record import FORMAT as BACKUP_FORMAT
from kfm.app.backup.backup_record import read_record
from kfm.app.backup.restore import restore
from kfm.app.runs.run_control import resume_runs, run_operation
from kfm.app.runs.run_exports import wal
from kfm.app.runs.settlement import settle_session
from kfm.clock import FixedClock
from kfm.config import load
from kfm.engine.verify import verify
from kfm.store.index_check import differences
from kfm.store.state_formats import FORMAT
from tests.golden.make import DECLARED, facts, make, opened
from tests.node.twin import ROOT, node
from tests.sampling import sampled

STATES = sorted(path.parent for path in Path(__file__).parent.glob("format-*/*/facts.json"))
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("KFM_")}
each_state = pytest.mark.parametrize("kept", STATES, ids=lambda path: "/".join(path.parts[-2:]))


@pytest.fixture
def golden(kept: Path, tmp_path: Path) -> Path:
    shutil.copytree(kept, tmp_path / "golden")
    return tmp_path / "golden"


def declared_in(golden: Path) -> tuple[str, ...]:
    """Format 1 knew no declared datasets."""
    return DECLARED if "planned:" in (golden / "kfm.yml").read_text() else ()


def finish(folder: Path) -> dict[str, str]:
    """Whatever is unfinished: taken up, and told to the outside. What is processed and public then."""
    with opened(folder / "kfm.yml") as session:
        told = [receipt.status for receipt in resume_runs(session)]
        assert "SUCCESS" in told and set(told) <= {
            "SUCCESS",
            "SKIPPED",
        }  # skipped: another had run a kept trigger's work
        settle_session(session)
        verify(session.state, session.objects)
        assert differences(session.state) == []
        left = facts(session)
        assert (left["open_runs"], left["kept"], left["undelivered"]) == ([], [], [])
        return {name: at for name, at in session.state.refs.all() if name.startswith(("processed/", "published/"))}


def public(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in (folder / "public").rglob("*.*")}


@pytest.mark.parametrize("backend", ["sqlite:.kfm/state.db", "jsonl:.kfm/state.jsonl"])
def test_a_golden_backup_is_restored_and_its_work_is_finished(tmp_path: Path, backend: str) -> None:
    (kept,) = Path(__file__).parent.glob("backup-*")
    assert kept.name == f"backup-{BACKUP_FORMAT}", "make one of the new format, and keep this one"
    for name in ("kfm.yml", "updaters.py", "source.csv"):  # of the state that was backed up
        shutil.copy(kept.parent / "format-9" / "sqlite" / name, tmp_path / name)
    config = tmp_path / "kfm.yml"
    config.write_text(re.sub("^state: .*", f"state: {backend}", config.read_text(), flags=re.M))
    resolved = load(str(config), {})
    place = open_place(resolved, f"file:{kept}")
    (name,) = place.records.names()
    done = restore(resolved, place, name, read_record(place, name), FixedClock(), lambda *_: None)
    then = json.loads((kept / "facts.json").read_text())
    assert done.done and done.withdrawn == ()
    with opened(config) as session:
        now = json.loads(json.dumps(facts(session)))
        assert now["refs"].pop("switch/global") == "frozen" and now["refs"].pop("maintenance/restore")
        assert now["refs"] == then["refs"]
        assert now["ledger"][: len(then["ledger"])] == then["ledger"]
        assert (now["open_runs"], now["kept"]) == (then["open_runs"], then["kept"]) and now["kept"]
        run_operation(session, "thaw", "global", reason="looked", actor="golden")
    finish(tmp_path)


def test_there_is_a_golden_state_of_every_format_for_each_backend() -> None:
    kept = {"/".join(path.parts[-2:]) for path in STATES}
    assert kept == {f"format-{n}/{backend}" for n in range(1, FORMAT + 1) for backend in ("sqlite", "jsonl")}


@each_state
def test_a_golden_state_reads_as_it_was_written(golden: Path) -> None:
    with opened(golden / "kfm.yml", "read") as session:
        assert differences(session.state) == []
        written = json.loads((golden / "facts.json").read_text())
        assert {name: fact for name, fact in facts(session).items() if name in written} == written
        assert verify(session.state, session.objects).entries == len(written["ledger"]) >= 7
        for entry in session.state.ledger.entries():
            if entry.wal_ids:
                assert list(wal(session, entry.run_id))


@each_state
def test_what_was_unfinished_in_it_is_finished_as_if_it_never_was(golden: Path, kept: Path, tmp_path: Path) -> None:
    finished = finish(golden)
    assert {f"processed/{name}" for name in ("golden", *declared_in(golden))} <= set(finished)
    make(tmp_path / "anew", kept.name, declared_in(golden))
    assert finish(tmp_path / "anew") == finished
    assert public(tmp_path / "anew") == public(golden)


@pytest.mark.parametrize("kept", sampled(STATES, every=10), ids=lambda path: "/".join(path.parts[-2:]))
def test_node_finishes_what_it_can_run_and_leaves_the_rest_to_python(golden: Path, kept: Path, tmp_path: Path) -> None:
    shutil.copytree(kept, tmp_path / "python")
    wanted = finish(tmp_path / "python")
    for name in declared_in(golden) or ("golden",):
        ran = subprocess.run(
            [node(), str(ROOT / "updater.mjs"), "run", name],
            cwd=golden, env=PLAIN, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (ran.returncode == 0) is bool(declared_in(golden)), ran.stderr
    with opened(golden / "kfm.yml") as session:
        assert {run.dataset for run in session.state.runs.unfinished()} == {"golden"}
        for name in declared_in(golden):
            assert session.state.refs.at(f"processed/{name}") == wanted[f"processed/{name}"]
    assert finish(golden) == wanted
    assert public(golden) == public(tmp_path / "python")
