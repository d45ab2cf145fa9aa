"""Counts how often the one contract was held against a backend."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.power.tally import tally

_counted: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    told_by_a_worker = hasattr(report, "node")  # who counts its own
    if report.when == "call" and "tests/store/" in report.nodeid and not told_by_a_worker:
        _counted[report.outcome] += 1


def pytest_sessionfinish() -> None:
    if _counted:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        tally("store", worker, None, _counted["failed"], contract_checks=_counted["passed"] + _counted["failed"])
