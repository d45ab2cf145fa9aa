"""Datasets that are made of each other, and what must be found between their sources and their public files."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.cli.conftest import Kfm
from tests.projections.consumers import Read

KANSAS = Path(__file__).resolve().parents[2] / "examples" / "kansas" / "data"
SETTINGS = """\
accept_weak_storage: true
publish: file:public
catalog: file:catalog
datasets:
  drought:
    version: 1.0.0
    title: Weekly drought classes of Riley County
    license: CC-PDM-1.0
    sensitivity: public
    attribution: US Drought Monitor
    sources:
      weeks: {uri: usdm-riley-county.csv, format: csv, contract: {columns: [{name: ValidStart}]}}
    outputs:
      weeks: {from: weeks}
      classes: {from: weeks, steps: [{select: [ValidStart, D2]}]}
  drought-severe:
    version: 1.0.0
    title: Weeks of drought in Riley County
    license: CC-PDM-1.0
    sensitivity: public
    attribution: US Drought Monitor
    sources:
      drought: {dataset: drought, key: [weeks], format: csv, contract: {columns: [{name: ValidStart}]}}
    outputs:
      severe:
        from: drought
        steps: [{cast: {D0: number}}, {filter: {column: D0, at_least: 50}}, {select: [ValidStart, ValidEnd, D0]}]
  drought-starts:
    version: 1.0.0
    title: When drought began
    license: CC-PDM-1.0
    sensitivity: public
    attribution: US Drought Monitor
    sources:
      severe: {dataset: drought-severe, zone: published, format: csv, contract: {columns: [{name: ValidStart}]}}
    outputs:
      starts: {from: severe, steps: [{select: [ValidStart]}]}
"""
SOURCE = "usdm-riley-county.csv"
NAMES = ("drought", "drought-severe", "drought-starts")  # each is made of the one before


def build(kfm: Kfm) -> None:
    """Three datasets in a row, the last of which reads the published version of the second. All are published; then the
    first has a new edition, in which one of its two files is as it was."""
    Path("kfm.yml").write_text(SETTINGS)
    shutil.copy(KANSAS / SOURCE, SOURCE)
    for name in NAMES:
        for words in (("run", name), ("promote", name, "--reason", "an edition")):
            answer = kfm(*words)
            assert answer.code == 0, answer.err
    text = Path(SOURCE).read_text().splitlines()
    head = text[0].split(",")
    last = text[-1].split(",")
    last[head.index("D4")] = "0.01"
    Path(SOURCE).write_text("\n".join([*text[:-1], ",".join(last)]) + "\n")
    assert kfm("run", "drought").code == kfm("promote", "drought", "--reason", "another edition").code == 0


class PublicFile(NamedTuple):
    path: str  # below the public folder
    digest: str
    dataset: str


def public_files(folder: Path = Path("public")) -> Iterator[PublicFile]:
    for path in sorted(folder.glob("datasets/*/versions/*/**/*")):
        if path.is_file():
            yield PublicFile(str(path.relative_to(folder)), digest(path), path.relative_to(folder).parts[1])


def digest(path: Path) -> str:
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


def named(found: Read, *parts: str) -> list[str]:
    """The things whose names have all these parts."""
    things = {thing for pairs in found for _, thing in pairs}
    return sorted(thing for thing in things if all(part in thing for part in parts))


def assert_joined(found: Read, file: PublicFile, source: tuple[str, str], runs: Sequence[str]) -> None:
    """From a public file back to a source, over these runs; and from the source to the file."""
    things = [each for each in named(found, file.path, file.digest) if each in {thing for _, thing in found.made}]
    assert things, f"{file.path} is named nowhere"
    starts = named(found, *source)
    assert starts, f"{source[0]} is named nowhere"
    behind = set().union(*map(found.back, things))
    ahead = set().union(*map(found.forth, starts))
    assert behind & set(starts), f"no way from {file.path} to {source[0]}"
    assert ahead & set(things), f"no way from {source[0]} to {file.path}"
    for run in runs:
        assert any(run in each for each in behind & ahead), f"run {run} is not between {source[0]} and {file.path}"
