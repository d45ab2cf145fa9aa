"""An installation of two datasets with catalog and pages; `deep` reads what `tops` is."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tests.app.dependencies.conftest import DOWN, TOPS, UP, at, written
from tests.cli.conftest import Kfm, kfm, plain_environment

__all__ = ["at", "kfm", "plain_environment", "published", "tree"]

HEAD = "publish: file:public\ncatalog: file:catalog\npages: true\ndatasets:\n"
SECOND = TOPS + "c,300\n"
THIRD = SECOND + "d,400\n"


def tree(*folders: str) -> dict[str, str]:
    """The digest of every file below these folders, by path; what counts moves is left out."""
    found = {}
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and path.name not in ("current.json", "feed.xml") and "/receipts/" not in str(path):
                found[os.fspath(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def made(kfm: Kfm, *datasets: str) -> None:
    """Run and publish these datasets."""
    for name in datasets:
        assert kfm("run", name, "-q").code == 0
        assert kfm("publish", name, "--reason", "new", "-q").code == 0


@pytest.fixture
def published(kfm: Kfm) -> Kfm:
    written(UP, DOWN, head=HEAD)
    made(kfm, "tops", "deep")
    return kfm
