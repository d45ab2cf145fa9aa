"""The Node runner reads no datasets, and says so before it does anything."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.app.dependencies.conftest import at
from tests.cli.conftest import Kfm
from tests.node.twin import node as node_binary

UPDATER = Path(__file__).resolve().parents[3] / "updater.mjs"


def test_it_refuses_a_dataset_that_reads_another_and_runs_the_one_that_is_read(pair: Kfm) -> None:
    def node(dataset: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [node_binary(), str(UPDATER), "run", dataset], capture_output=True, text=True, check=False
        )

    assert node("tops").returncode == 0
    refused = node("deep")
    assert refused.returncode == 3, refused.stderr
    assert "dataset deep reads other datasets, and this runner reads none" in refused.stderr
    assert "python -m updater run deep" in refused.stderr
    assert at(pair, "processed/deep") == ""
    assert pair("run", "deep").code == 0, "what Node made is read like any other version"
