"""The report on a preview as data: `kfm preview report` shows it, and its Markdown and JUnit files are made from it."""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record


class Check(Record, frozen=True):
    """One gate and its decision about the previewed version."""

    name: str
    passed: bool
    rules: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


class DatasetReport(Record, frozen=True):
    """One dataset of the report. It contains only facts that would be public."""

    dataset: str
    run_id: str
    version: str
    base: str  # processed
    published: str
    updater_version: str
    checks: tuple[Check, ...]
    counts: dict[str, int]  # empty: protected
    settings: tuple[str, ...]  # differences of the declaration
    catalog: tuple[str, ...]  # differences of its catalog entry
    keys: tuple[str, ...]  # differences of the public files
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
    notes: tuple[str, ...] = ()  # other sections of kfm.yml that the branch changes
    format: int = 1
