"""Small installations, used from the test process itself."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import kfm
from kfm.cli.start.init import FILES


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("KFM_") or name == "SOURCE_DATE_EPOCH":
            monkeypatch.delenv(name)
    monkeypatch.setenv("KFM_ACTOR", "tester")
    monkeypatch.setenv("KFM_REASON", "a test")
    monkeypatch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")  # the temporary folder may be one in memory


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else str(tmp_path)
    folder = tempfile.mkdtemp(prefix="kfm-python-", dir=base)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture
def gauges(place: Path) -> kfm.Installation:
    """What `kfm init` writes, not run yet."""
    for name, text in FILES.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    return kfm.open(place)


SHAPES = """
from kfm import Output, Plan, Step, Updater

MADE = {
    "points": Output.json({"type": "FeatureCollection", "features": [
        {"type": "Feature", "id": 1, "properties": {"name": "Hays", "people": 21116},
         "geometry": {"type": "Point", "coordinates": [-99.33, 38.88]}},
        {"type": "Feature", "id": 2, "properties": {"name": "nowhere", "people": None}, "geometry": None},
    ]}, "application/geo+json"),
    "lines": Output.ndjson([{"a": 1, "b": 2.5}, {"a": 2, "b": 3}]),
    "codes": Output.csv([{"fips": "007", "count": "3", "share": "0.5", "word": "NA", "big": "12345678901234567890"},
                         {"fips": "020", "count": "", "share": "1e3", "word": "", "big": "1"}]),
    "plain": Output.text("only words"),
}


class Made(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return []

    def plan(self, inputs):
        return Plan([Step(id=self.id, key=("all",))])

    def perform(self, step, read):
        return MADE[self.id]
"""


@pytest.fixture
def shapes(place: Path) -> kfm.Installation:
    """A dataset of each type, each made."""
    (place / "made.py").write_text(SHAPES)
    names = ("points", "lines", "codes", "plain")
    declared = "".join(f"  {name}:\n    updater: made.py:Made\n" for name in names)
    (place / "kfm.yml").write_text("datasets:\n" + declared)
    made = kfm.open(place)
    made.run()
    return made
