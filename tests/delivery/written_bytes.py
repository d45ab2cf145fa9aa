"""What a command writes, counted by strace: files and bytes by their place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

CALLS = "write,pwrite64,writev,pwritev,sendfile,copy_file_range,fsync,fdatasync,syncfs,sync_file_range"
_WRITTEN = re.compile(r"(?:p?writev?(?:64)?|sendfile|copy_file_range)\(\d+<(?P<path>[^>]*)>.*\) = (?P<size>\d+)$")
_SYNC = re.compile(r"(?:fsync|fdatasync|syncfs)\(")
KINDS = {
    "public folder": "public/",
    "objects": ".kfm/objects/",
    "state": ".kfm/",
}


class Written(NamedTuple):
    """By kind of place: how many files were written, and how many bytes. And how many syncs there were."""

    files: dict[str, int]
    size: dict[str, int]
    syncs: int


def can_trace() -> bool:
    return bool(shutil.which("strace")) and not subprocess.run(["strace", "-qq", "-o", os.devnull, "true"]).returncode


def written_by(command: list[str], folder: Path, notes: Path) -> Written:
    """Run a command in a folder. Every call of `write` counts; one temporary name counts as often as it is opened."""
    notes.mkdir()
    strace = ["strace", "-ff", "-qq", "-y", "-s", "0", "--seccomp-bpf", "-e", f"trace={CALLS},openat,rename,renameat2"]
    subprocess.run([*strace, "-o", str(notes / "calls"), *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    opened: dict[str, set[str]] = {kind: set() for kind in KINDS}
    files, size, syncs = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0), 0
    for name in notes.iterdir():
        for line in name.read_text(errors="replace").splitlines():
            syncs += bool(_SYNC.match(line))
            if (wrote := _WRITTEN.match(line)) and (kind := _kind(folder, wrote["path"])):
                size[kind] += int(wrote["size"])
                opened[kind].add(wrote["path"])
            elif line.startswith("rename") and (kind := _kind(folder, line.split('"')[3])):
                files[kind] += 1
    files["state"] += len(opened["state"])  # the files of the state keep their names
    return Written(files, size, syncs)


def _kind(folder: Path, path: str) -> str:
    below = os.path.relpath(os.path.join(folder, path), folder)
    return next((kind for kind, start in KINDS.items() if below.startswith(start)), "")
