"""A source that was quarantined and returns to its last good bytes is quarantined no longer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_small_promises import RUNNERS, kfm_in, typed
from tests.node.sites import command, declared

GOOD = "id,mm\n" + "".join(f"{n},{n}\n" for n in range(100))


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_source_that_returns_to_its_last_good_bytes_is_not_quarantined(tmp_path: Path, runner: str) -> None:
    (tmp_path / "kfm.yml").write_text(declared("wells"))
    source = tmp_path / "wells.csv"
    source.write_text(GOOD)
    run = command(runner, "run", "wells")

    def state() -> tuple[bool, str]:
        (row,) = json.loads(kfm_in(tmp_path, "status", "--json").stdout)["datasets"]
        return row["is_held"], row["version"]

    assert typed(tmp_path, *run).returncode == 0
    good = state()
    source.write_text(GOOD[:12])
    assert typed(tmp_path, *run).returncode != 0
    assert state() == (True, good[1])
    source.write_text(GOOD)
    assert typed(tmp_path, *run).returncode == 0
    assert state() == good == (False, good[1])
    assert json.loads(kfm_in(tmp_path, "review", "list", "--json").stdout) == []
    typed(tmp_path, *run)
    last, *_ = json.loads(kfm_in(tmp_path, "runs", "list", "--json").stdout)
    assert last["outcome"] == "noop", "once is enough"
