"""The report on a preview, as data: what `kfm preview report` tells, and what its Markdown and JUnit are made of."""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record


class Check(Record, frozen=True):
    """One gate, and what it says."""

    name: str
    passed: bool
    rules: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


class DatasetReport(Record, frozen=True):
    """Nothing here is more than would be public."""

    dataset: str
    run_id: str
    version: str
    base: str  # processed
    published: str
    updater_version: str
    checks: tuple[Check, ...]
    counts: dict[str, int]  # empty: nobody's to know
    settings: tuple[str, ...]  # how the declaration differs
    catalog: tuple[str, ...]  # how what is said of it differs
    keys: tuple[str, ...]  # how what is public would differ
    more_keys: int
    lines: tuple[str, ...]
    bbox: tuple[float, ...]
    inputs: tuple[str, ...]
    why_hidden: str
    exit_code: int


class Proposed(Record, frozen=True):
    branch: str
    commit: str
    preview: str  # the digest to approve
    conclusion: Literal["success", "failure", "neutral"]
    datasets: tuple[DatasetReport, ...]
    removed: tuple[str, ...]
    exit_code: int
    notes: tuple[str, ...] = ()  # sections of kfm.yml that the branch changes too
    format: int = 1
