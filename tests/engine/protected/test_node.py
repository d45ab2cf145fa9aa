"""The Node runner cannot protect data, and so does nothing where any is protected."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import dataset, hits, installation, label, labels, table

UPDATER = Path(__file__).resolve().parents[3] / "updater.mjs"
DECLARED = """datasets:
  parks:
    version: "1.0.0"
    title: parks
    license: CC0-1.0
    sensitivity: public
    outputs: {all: {from: parks, format: csv}}
    sources:
      parks:
        uri: copy.csv
        format: csv
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_it_refuses_a_state_that_knows_of_protected_data_though_no_setting_speaks_of_them(site: Kfm) -> None:
    labels(label("source: sites.csv", "restricted"))
    installation(dataset("sites", "sites.csv"))
    assert site("run", "sites").code == 0
    Path("kfm.yml").write_text(DECLARED)
    Path("copy.csv").write_text(table())
    ran = subprocess.run(["node", str(UPDATER), "run", "parks"], capture_output=True, text=True, check=False)
    assert ran.returncode == 3 and "this installation has protected data" in ran.stderr, ran.stderr
    assert "not declared public" not in ran.stderr and "sensitivity: public" not in ran.stderr, "it is declared public"
    assert hits() == []
