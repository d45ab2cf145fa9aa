"""The guide for a first updater works as written: its files are laid out and its commands run, in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.house.bans import ROOT

GUIDE = ROOT / "docs" / "guides" / "first-updater.md"
_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)


def test_the_guide_for_a_first_updater_works_as_written(tmp_path: Path) -> None:
    folder = tmp_path / "wells"
    ran = []
    for kind, name, body in _BLOCK.findall(GUIDE.read_text()):
        if name:
            (folder / name).write_text(body)
            continue
        assert kind == "sh"
        for line in body.splitlines():
            if line.startswith("mkdir"):
                for made in ("", "updaters", "data"):
                    (folder / made).mkdir()
                continue
            words = line.split(" --reason ")
            command = [sys.executable, "-m", "kfm.cli.main", *words[0].split()[1:]]
            if len(words) > 1:
                command += ["--reason", words[1].strip('"')]
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "KFM_ACCEPT_WEAK_STORAGE": "true"},
            )
            ran.append((line, done.returncode, done.stdout))
            if line == "kfm rollback wells --dry-run":  # one edition only so far: there is nothing to go back to
                assert done.returncode == 3 and "no version before" in done.stderr
            else:
                assert done.returncode == 0, (line, done.stderr)
    outputs = {line: out for line, _, out in ran}
    assert len(ran) >= 10
    assert "5630" in outputs["kfm cat processed/wells Stanton"]
    assert "number" in outputs["kfm cat quarantine/wells"] and "unknown" not in outputs["kfm cat quarantine/wells"]
    assert "noop" in outputs["kfm run"]
    assert (folder / "public" / "datasets" / "wells" / "current.json").exists()
