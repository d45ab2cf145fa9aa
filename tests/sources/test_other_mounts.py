"""Data on another mount: read where the installation says so, and nowhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.engine.installations import Installation, environment
from tests.node.sites import command

ROWS = b"id,mm\n1,2\n"
CONFIG = """
kfm: 1
accept_weak_storage: true
read_from: [%s]
datasets:
  rain:
    version: "1.0.0"
    sensitivity: public
    sources: {rain: {uri: "%s", format: csv}}
    outputs: {all: {from: rain}}
"""


def site(folder: Path, allowed: str, uri: str) -> Installation:
    here = folder / "installation"
    here.mkdir(exist_ok=True)
    (here / "kfm.yml").write_text(CONFIG % (allowed, uri))
    return Installation(here)


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    folder = tmp_path / "mnt" / "archive"
    (folder / "2026").mkdir(parents=True)
    (folder / "2026" / "rain.csv").write_bytes(ROWS)
    (tmp_path / "mnt" / "archive-secret").mkdir()
    (tmp_path / "mnt" / "archive-secret" / "x.csv").write_bytes(b"canary\n1\n")
    return folder


@pytest.mark.parametrize("form", ["%s/2026/rain.csv", "file://%s/2026/rain.csv"])
def test_a_folder_that_is_allowed_is_read_from(tmp_path: Path, mount: Path, form: str) -> None:
    there = site(tmp_path, str(mount), form % mount)
    there.kfm("run")
    assert there.kfm("cat", "processed/rain", "all").out.encode() == ROWS
    assert " noop " in there.kfm("run").out
    (mount / "2026" / "rain.csv").write_bytes(ROWS + b"2,3\n")
    there.kfm("run")
    assert there.kfm("cat", "processed/rain", "all").out.encode() == ROWS + b"2,3\n"


def test_without_it_nothing_outside_is_read(tmp_path: Path, mount: Path) -> None:
    there = site(tmp_path, "", f"{mount}/2026/rain.csv")
    answer = there.kfm("run", expect=3)
    assert "is outside of the folder of kfm.yml" in answer.err
    assert "`read_from:`" in answer.err


@pytest.mark.parametrize("way", ["beside", "up", "link", "linked folder"])
def test_no_way_leads_out_of_it(tmp_path: Path, mount: Path, way: str) -> None:
    secret = mount.parent / "archive-secret" / "x.csv"
    if way == "link":
        os.symlink(secret, mount / "x.csv")
    if way == "linked folder":
        os.symlink(secret.parent, mount / "d")
    uri = {
        "beside": str(secret),
        "up": f"{mount}/../archive-secret/x.csv",
        "link": f"{mount}/x.csv",
        "linked folder": f"{mount}/d/x.csv",
    }[way]
    there = site(tmp_path, str(mount), uri)
    answer = there.kfm("run", expect=3)
    assert "canary" not in answer.err + answer.out


@pytest.mark.parametrize("folder", ["/", "data", "/mnt/../etc", "/mnt/", "//mnt"])
def test_what_is_no_folder_is_refused(tmp_path: Path, folder: str) -> None:
    there = site(tmp_path, f"'{folder}'", "x.csv")
    assert "is not the absolute path of a folder" in there.kfm("run", expect=3).err


def test_node_reads_nothing_outside(tmp_path: Path, mount: Path) -> None:
    there = site(tmp_path, str(mount), f"{mount}/2026/rain.csv")
    done = subprocess.run(
        command("node", "run", "rain"), cwd=there.folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "is outside of the folder of kfm.yml" in done.stderr
