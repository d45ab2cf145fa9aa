"""Builds slowsync.c on demand and checks that it really stands between a program and the disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


class NoShim(Exception):
    """There is no shim here; the message says why. Syncs go uncounted and the slow pass is skipped."""


def build(into: Path) -> Path:
    """Compile to `into`/slowsync.so unless a newer one is there."""
    source = HERE / "slowsync.c"
    target = into / "slowsync.so"
    if sys.platform != "linux":
        raise NoShim("LD_PRELOAD counting works on Linux only")
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return target
    compiler = os.environ.get("CC") or next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), "")
    if not compiler:
        raise NoShim("no C compiler (cc, gcc or clang) was found")
    into.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(target), str(source)]
    built = subprocess.run([*command, "-ldl"], capture_output=True, text=True, check=False)
    if built.returncode:
        raise NoShim(f"{compiler} could not build slowsync.c: {built.stderr.strip()[:200]}")
    return target


def environment(library: Path, counts: Path, delay_us: int = 0) -> dict[str, str]:
    """Variables that put the shim in front of a child and everything it starts."""
    return {"LD_PRELOAD": str(library), "SLOWSYNC_COUNTS": str(counts), "SLOWSYNC_DELAY_US": str(delay_us)}
