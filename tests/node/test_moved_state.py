"""The Node runner writes nothing into a state that `kfm move` takes or took elsewhere, and says so as Python does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kfm.app.move.move_claim import brake
from kfm.app.session.backends import open_tables_at
from kfm.app.session.state_place import Place, put_place, read_place, transaction_of
from kfm.clock import SystemClock
from kfm.config import load
from kfm.model.ports import Tables
from tests.node.twin import ROOT, node

CONFIG = """\
state: {state}
pages: false
catalog: ""
accept_weak_storage: true
datasets:
  rain:
    version: "1.0.0"
    sensitivity: public
    sources: {{rain: {{uri: rain.csv, format: csv}}}}
    outputs: {{rain: {{from: rain}}}}
"""
PYTHON = [sys.executable, "-m", "updater"]


def runs(runner: list[str], site: Path, *words: str) -> tuple[int, str]:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run([*runner, "run", *words], cwd=site, capture_output=True, text=True, check=False, env=env)
    return done.returncode, done.stderr


def tables_of(site: Path) -> Tables:
    resolved = load(str(site / "kfm.yml"), {})
    return open_tables_at(resolved, resolved.config.state, "write")


@pytest.fixture(params=["sqlite:state.db", "jsonl:state.jsonl"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "kfm.yml").write_text(CONFIG.format(state=request.param))
    (tmp_path / "rain.csv").write_text("station,inches\nKS-01,1.2\n")
    return tmp_path


def test_node_says_what_python_says_of_a_state_that_moved(site: Path) -> None:
    script = [node(), str(ROOT / "updater.mjs")]
    assert runs(script, site)[0] == 0
    for place in (
        Place(status="moved", other="sqlite:elsewhere.db", move="m"),
        Place(status="arriving", other="sqlite:elsewhere.db", move="m"),
        Place(objects="file:elsewhere"),
    ):
        tables = tables_of(site)
        with transaction_of(tables):
            put_place(tables, place)
        tables.close()
        for words in ((), ("--dry-run",)):
            ours, theirs = runs(PYTHON, site, *words), runs(script, site, *words)
            assert theirs == ours, place
            assert ours[0] == (0 if words and place.status != "arriving" else 3) and "elsewhere" in ours[1]


def test_node_waits_for_a_move_under_way_and_ends_one_whose_claim_ran_out(site: Path) -> None:
    script = [node(), str(ROOT / "updater.mjs")]
    assert runs(script, site)[0] == 0
    tables = tables_of(site)
    brake(tables, SystemClock(), what="state", to="sqlite:elsewhere.db", move="m")
    ours, theirs = runs(PYTHON, site), runs(script, site)
    assert theirs == ours and ours[0] == 6 and "is being moved to sqlite:elsewhere.db" in ours[1]
    with transaction_of(tables):
        put_place(tables, Place(status="leaving", other="x", move="m", holder="far:1", expires_ms=1, ttl_ms=1))
    code, said = runs(script, site)
    assert code == 0, said
    assert read_place(tables) == Place(objects="file:.kfm/objects", publish="file:public")
    tables.close()
