"""A publisher that is stopped between two files of a version, and continues after its withdrawal, leaves nothing of
it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.runs.settlement import settle_session
from kfm.app.session.session import open_session
from tests.engine.installations import environment
from tests.node.sites import command, declared
from tests.node.test_frozen_deliveries import Weather

# Stops the process when the so-many-th file of a version has its name for good, and nobody's turn is held.
STOPS = """
import fs from "node:fs";
let left = Number(process.env.STOP_AFTER);
let folder = "";
const { renameSync, openSync, closeSync } = fs;
const open = new Set();
fs.renameSync = (from, to) => {
  renameSync(from, to);
  if (to.includes("/versions/")) folder = to.slice(0, to.lastIndexOf("/"));
};
fs.openSync = (path, ...given) => {
  const fd = openSync(path, ...given);
  if (path === folder) open.add(fd);
  return fd;
};
fs.closeSync = (fd) => {
  closeSync(fd);
  if (!open.delete(fd)) return;
  folder = "";
  left -= 1;
  if (left === 0) process.kill(process.pid, "SIGSTOP");
};
"""


def slow(site: Weather, runner: str, after: int) -> int:
    """Tells the outside, and is stopped after so many files: its process id."""
    if runner == "node":
        site.put("stops.mjs", STOPS)
        env = {"NODE_OPTIONS": f"--import={site.folder / 'stops.mjs'}", "STOP_AFTER": str(after)}
        with open(site.folder.parent / "said", "wb") as said:
            typed = command("node", "run", "other")
            return subprocess.Popen(
                typed, cwd=site.folder, env={**environment(), **env}, stdout=said, stderr=subprocess.STDOUT
            ).pid
    child = os.fork()
    if child:
        return child
    try:
        with open_session(config.load(str(site.folder / "kfm.yml"), {})) as session:
            publisher: Any = session.publisher
            real, left = publisher.write_file, [after]

            def write_file(path: str, *given: Any) -> None:
                real(path, *given)
                left[0] -= path.startswith("datasets/")
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGSTOP)

            publisher.write_file = write_file
            settle_session(session)
            os._exit(0)
    finally:
        os._exit(99)


@pytest.mark.parametrize("after", [1, 2])
@pytest.mark.parametrize("runner", ["python", "node"])
def test_nothing_of_a_withdrawn_version_is_made_again(tmp_path: Path, runner: str, after: int) -> None:
    text = declared("rain", "other").replace(
        "outputs: {all: {from: rain}}", "outputs: {a: {from: rain}, b: {from: rain}}"
    )
    site = Weather(tmp_path / "site", {"kfm.yml": text, "other.csv": "mm\n1\n"}, lambda _n: "python")
    site.becomes("rain", "1")
    process = slow(site, runner, after)
    _, status = os.waitpid(process, os.WUNTRACED)
    assert os.WIFSTOPPED(status), f"it was not stopped: {os.waitstatus_to_exitcode(status)}"
    assert len(site.public("rain")) == after, "there is something to be taken back, and something left to be written"
    site.kfm("rollback", "rain", "--to", "nothing", "--reason", "asked")
    assert list((site.folder / "public/datasets/rain/versions").iterdir()) == []
    os.kill(process, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert list((site.folder / "public/datasets/rain/versions").iterdir()) == [], "a folder was made again"
    assert set(site.public("rain")) == {"current.json"} and site.pointer("rain") == ""
    assert site.kfm("reconcile", "--public").err == "no difference: everything is as the refs say\n"
