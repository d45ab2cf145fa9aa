"""OPA, Conftest, Helm and tools of workflows, built from Go once per machine into a folder outside it: `make tools`.

Go holds every module against its checksum database. The version is in the file's name, so that another one is built
again, and a build that was interrupted leaves nothing behind that looks like a program.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSIONS = {"opa": "v1.22.0", "conftest": "v0.71.1", "actionlint": "v1.7.12", "act": "v0.2.89", "helm": "v3.22.0"}
MODULES = {
    "opa": "github.com/open-policy-agent/opa",
    "conftest": "github.com/open-policy-agent/conftest",
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint",
    "act": "github.com/nektos/act",
    "helm": "helm.sh/helm/v3/cmd/helm",
}
WITH_LONG = ("act",)  # only long tests use these: built when they do


class Absent(Exception):
    """Why a program is not there and could not be built."""


def built(name: str) -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kfm" / "tools"
    there = folder / f"{name}-{VERSIONS[name]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers wait for the one that builds
        if not there.is_file():
            _build(name, there)
    return there


def go_for(what: str) -> str:
    go = shutil.which("go") or shutil.which("go", path=os.environ.get("GOROOT", "/usr/local/go") + "/bin")
    if go is None:
        raise Absent(f"no {what} on this machine, and no go to get it with")
    return go


def _build(name: str, there: Path) -> None:
    go = go_for(name)
    with tempfile.TemporaryDirectory(dir=there.parent) as scratch:
        env = {**os.environ, "GOBIN": scratch, "CGO_ENABLED": "0"}
        command = [go, "install", "-ldflags=-s -w", f"{MODULES[name]}@{VERSIONS[name]}"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=3000, check=False)
        made = Path(scratch, name)
        if done.returncode or not made.is_file():
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise Absent(f"{name} could not be built: {said}")
        made.replace(there)


if __name__ == "__main__":
    for tool in VERSIONS.keys() - set(WITH_LONG):
        try:
            print(f"make: {built(tool)}")
        except Absent as problem:
            sys.exit(f"make: {problem}")
