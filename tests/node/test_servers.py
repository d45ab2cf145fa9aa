"""The Node runner reaches no servers: it refuses them by name, before it does anything."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.node.twin import ROOT, node


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("state: postgresql://kfm@db:5432/kfm", "postgresql"),
        ("objects: s3://archive/objects", "s3"),
        ("publish: s3://archive/public", "s3"),
    ],
)
def test_the_node_runner_refuses_a_server_by_name(setting: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "kfm.yml").write_text(f"{setting}\ndatasets: {{}}\n")
    done = subprocess.run(
        [node(), str(ROOT / "updater.mjs"), "run"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    key = setting.partition(":")[0]
    assert f"kfm.yml:1:1: {key} is {name}, which the Node runner does not reach; run it with `kfm run`" in done.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kfm.yml"]
