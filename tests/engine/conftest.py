"""A fast folder for installations: only power cuts, and neither kills nor races, need a real disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = "/dev/shm"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder of its own, in memory where there is some."""
    base = _MEMORY if os.access(_MEMORY, os.W_OK) else str(tmp_path)
    folder = tempfile.mkdtemp(prefix="kfm-walk-", dir=base)
    yield Path(folder)
    shutil.rmtree(folder)
