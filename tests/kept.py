"""What many tests begin with is made once in a process, and copied for each of them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

_kept: dict[tuple[str, ...], Path] = {}


def once(name: str, folders: Sequence[Path], make: Callable[[], object]) -> None:
    """Make these folders, or copy what was made of them when `make` of this name was first called under the same
    settings."""
    settings = sorted(
        f"{each}={value}" for each, value in os.environ.items() if each.startswith(("KFM_", "SOURCE_DATE"))
    )
    kept = _kept.get((name, *settings))
    if kept is not None:
        for number, folder in enumerate(folders):
            shutil.copytree(kept / str(number), folder, symlinks=True, dirs_exist_ok=True)
        return
    make()
    kept = Path(tempfile.mkdtemp(prefix="kfm-kept-"))
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    for number, folder in enumerate(folders):
        shutil.copytree(folder, kept / str(number), symlinks=True)
    _kept[(name, *settings)] = kept
