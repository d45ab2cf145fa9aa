"""States written by every released format are read, and what was unfinished in them is finished, forever."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kfm.engine.verify import verify
from tests.golden.make import facts, make, opened

STATES = sorted(path.parent for path in Path(__file__).parent.glob("format-*/*/facts.json"))


@pytest.fixture(params=STATES, ids=lambda path: "/".join(path.parts[-2:]))
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shutil.copytree(request.param, tmp_path / "golden")
    return tmp_path / "golden"


def test_there_is_a_golden_state_for_each_backend() -> None:
    assert {path.name for path in STATES} >= {"sqlite", "jsonl"}


def test_a_golden_state_reads_as_it_was_written(golden: Path) -> None:
    with opened(golden / "kfm.yml", "read") as house:
        assert facts(house) == json.loads((golden / "facts.json").read_text())
        assert verify(house.state, house.objects).entries == 7
        for entry in house.state.ledger():
            if entry.wal_ids:
                assert list(house.wal(entry.run_id))


def test_the_run_that_was_interrupted_in_it_is_finished_as_if_it_never_was(golden: Path, tmp_path: Path) -> None:
    with opened(golden / "kfm.yml") as house:
        (receipt,) = house.resume()
        house.settle()
        assert receipt.status == "SUCCESS"
        finished = house.state.ref("processed/golden")
        assert verify(house.state, house.objects).entries == 8
    make(tmp_path / "anew", golden.name if golden.name in ("sqlite", "jsonl") else "sqlite")
    with opened(tmp_path / "anew" / "kfm.yml") as house:
        assert [receipt.status for receipt in house.resume()] == ["SUCCESS"]
        assert house.state.ref("processed/golden") == finished
