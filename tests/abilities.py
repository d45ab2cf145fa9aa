"""What a machine may lack: a skip on a laptop, a failure in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from typing import NoReturn

import pytest


def lacking(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"{what}, and this is CI")
    pytest.skip(what)


def needs_confinement() -> None:
    """For what reads a format that is read only where its reader can be confined."""
    if not _confines():
        lacking("this kernel cannot confine a process (Landlock, seccomp)")


@cache
def _confines() -> bool:
    """In a process of its own: what it takes from itself is gone for good."""
    code = "import sys\nfrom kfm.engine.isolation.landlock import confine, readable\nsys.exit(not confine(readable()))"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
