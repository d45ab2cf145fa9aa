"""The job `validate.qa_dataset`: counts the rows of a dataset version and compares them with thresholds.

The report is the dataset that the job makes. A run whose thresholds are missed is held and makes no version, so a
report that is current is one that was passed. The report has counts, shares and names of columns, and no value of a
row. Of masked data it has no count below k, and no count of all but fewer than k rows.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kfm.errors import Held, Refused
from kfm.model.canonical import canonical
from kfm.model.jobs.job_settings import REPORT, ReportSettings
from kfm.model.jobs.job_updater import JobUpdater
from kfm.model.records import DatasetVersion, Record, SourceRef, Step, Trigger
from kfm.model.updater import Output, Plan, Reader, Sources
from kfm.parsing.characters import printable
from kfm.parsing.dates import day_of
from kfm.parsing.strict_json import decode
from kfm.parsing.wkb import Box, NoGeometry, box_of, joined
from kfm.updaters.jobs.source_rows import Places, Row, rows_of


class QualityCheck(Record, frozen=True):
    """One threshold and what was found. `found` is null where a count of masked data is too small to be shown."""

    check: str
    threshold: float | int
    found: float | int | None
    passed: bool
    column: str = ""


class QualityReportBody(Record, frozen=True):
    """The report of `validate.qa_dataset`."""

    format: str
    source: str  # the dataset
    version: str  # the digest of the version that was read
    rows: int | None
    columns: dict[str, int | None]  # by column: how many rows have no value
    checks: list[QualityCheck]
    passed: bool
    masked: bool  # small counts are left out


FORMAT = "kfm.quality-report/1"


class QualityReport(JobUpdater[ReportSettings]):
    job = REPORT
    version = "1.0.0"

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:  # noqa: ARG002
        """Pin the version. If rows must be new, the day on which the version became current belongs to the input: the
        report needs no clock."""
        ((name, ref),) = self.read.items()
        if self.parameters.newest is None:
            return [sources.pin(name, complete=True)]
        at = sources.pin(name, complete=True).content_hash
        days = [entry.ts[:10] for entry in sources.history(ref) if entry.after == at]
        return [sources.pin(name, partition=(days[-1],) if days else (), complete=True)]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        (ref,) = inputs
        said = {"thresholds": canonical(self.parameters).decode(), "masked": _is_masked(ref)}
        if self.parameters.newest is not None:
            said["day"] = ref.partition[-1] if ref.partition else ""
        return Plan([Step(id="report", key=("report",), params=said)], complete=True)

    def perform(self, step: Step, read: Reader) -> Output:
        (ref,) = read.inputs
        said = self.parameters
        counts = _Counts(said)
        for row in rows_of(read, ref, Places(said.longitude, said.latitude)):
            counts.add(row)
        absent = sorted(counts.wanted - counts.columns.keys()) if counts.rows else []
        if absent:
            raise Refused(
                f"source {ref.name} has no column {printable(absent[0])}, which has a threshold",
                hint="correct the parameters of the job in kfm.yml",
            )
        masked = bool(step.params["masked"])
        dataset = self.read[ref.name].partition("/")[2]
        return Output.json(_report(counts, said, dataset, ref.content_hash, step.params.get("day", ""), masked))

    def conclude(
        self, version: DatasetVersion, inputs: Sequence[SourceRef], made: Callable[[str], bytes]
    ) -> DatasetVersion:
        """Return the version. Held if a threshold was missed: then no version is made, and the receipt names the
        checks."""
        body = made("report")
        missed = [check for check in decode(body, "the report")["checks"] if not check["passed"]]
        if missed:
            named = "; ".join(_sentence(check) for check in missed)
            raise Held(
                f"{inputs[0].name} misses {_counted(len(missed))}: {named}",
                hint="correct the dataset that it reads, or the thresholds in kfm.yml; no version was made",
                discreet=f"a version misses {_counted(len(missed))}",
            )
        return version


def _is_masked(ref: SourceRef) -> bool:
    return ref.standing is not None and ref.standing.level != "public"


def _counted(count: int) -> str:
    return "1 threshold" if count == 1 else f"{count} thresholds"


def _sentence(check: dict[str, Any]) -> str:
    where = f" of {printable(check['column'])}" if check["column"] else ""
    missing = "unknown" if check["check"] == "newest_age_days" else "a small number"
    found = missing if check["found"] is None else check["found"]
    return f"{check['check']}{where} is {found}, the threshold {check['threshold']}"


class _Counts:
    """What the thresholds need to know of the rows, whatever their order."""

    def __init__(self, said: ReportSettings) -> None:
        self._said = said
        self.wanted = {*said.max_null_share, *said.key, *said.ranges}
        if said.newest is not None:
            self.wanted.add(said.newest.column)
        self.rows = 0
        self.columns: Counter[str] = Counter()  # by column: rows with a value
        self.outside: Counter[str] = Counter()  # by column: values that are no number, or out of range
        self.elsewhere = 0
        self.placed = 0
        self.box: Box | None = None
        self.duplicates = 0
        self.newest = ""
        self.undated = 0
        self._keys: set[bytes] = set()

    def add(self, row: Row) -> None:
        self.rows += 1
        for name, value in row.values.items():
            self.columns[name] += value is not None and value != ""
        for name, wanted in self._said.ranges.items():
            value = row.values.get(name)
            if value is not None and value != "" and not _is_within(value, wanted.minimum, wanted.maximum):
                self.outside[name] += 1
        if self._said.key:
            key = canonical([row.values.get(name) for name in self._said.key])
            name_of = hashlib.blake2b(key, digest_size=16).digest()
            self.duplicates += name_of in self._keys
            self._keys.add(name_of)
        if self._said.newest is not None:
            self._date(row.values.get(self._said.newest.column))
        if self._said.extent is not None:
            self._place(row.geometry)

    def _date(self, value: Any) -> None:
        day = day_of(value) if isinstance(value, str) else ""
        self.undated += value not in (None, "") and not day
        self.newest = max(self.newest, day)

    def _place(self, geometry: bytes | None) -> None:
        try:
            box = box_of(geometry) if geometry is not None else None
        except NoGeometry:
            self.elsewhere += 1
            return
        if box is None:
            return
        self.placed += 1
        west, south, east, north = self._said.extent or (-180, -90, 180, 90)
        self.elsewhere += not (west <= box[0] and south <= box[1] and box[2] <= east and box[3] <= north)
        self.box = box if self.box is None else joined(self.box, box)


def _is_within(value: Any, least: float | None, most: float | None) -> bool:
    try:
        number = float(value) if not isinstance(value, bool) else float("nan")
    except (TypeError, ValueError):
        return False
    return (least is None or number >= least) and (most is None or number <= most) and number == number


def _report(
    counts: _Counts, said: ReportSettings, dataset: str, version: str, day: str, masked: bool
) -> QualityReportBody:
    rows = counts.rows
    checks = [QualityCheck(check="rows", threshold=said.min_rows, found=rows, passed=rows >= said.min_rows)]
    for name, most in sorted(said.max_null_share.items()):
        share = (rows - counts.columns[name]) / rows if rows else 0.0
        checks.append(
            QualityCheck(check="null_share", column=name, threshold=most, found=round(share, 6), passed=share <= most)
        )
    if said.key:
        passed = counts.duplicates <= said.max_duplicates
        checks.append(
            QualityCheck(check="duplicates", threshold=said.max_duplicates, found=counts.duplicates, passed=passed)
        )
    for name in sorted(said.ranges):
        found = counts.outside[name]
        checks.append(
            QualityCheck(
                check="outside_range", column=name, threshold=said.max_outside, found=found,
                passed=found <= said.max_outside,
            )
        )  # fmt: skip
    if said.extent is not None:
        passed = not counts.elsewhere and bool(counts.placed)
        checks.append(QualityCheck(check="outside_extent", threshold=0, found=counts.elsewhere, passed=passed))
    if said.newest is not None:
        age = _days_between(counts.newest, day)
        passed = age is not None and age <= said.newest.days and not counts.undated
        checks.append(
            QualityCheck(
                check="newest_age_days", column=said.newest.column, threshold=said.newest.days, found=age, passed=passed
            )
        )
    blank = {name: rows - filled for name, filled in sorted(counts.columns.items())}
    if masked:
        checks = [_suppressed(check, rows, said.k) for check in checks]
    return QualityReportBody(
        format=FORMAT,
        source=dataset,
        version=version,
        rows=_shown(rows, rows, said.k) if masked else rows,
        columns={name: _shown(found, rows, said.k) if masked else found for name, found in blank.items()},
        checks=checks,
        passed=all(check.passed for check in checks),
        masked=masked,
    )


def _shown(count: int, rows: int, k: int) -> int | None:
    """Return a count of masked data; None if it is below k, or of all but fewer than k rows."""
    if count == 0 or (count == rows and rows >= k) or k <= count <= rows - k:
        return count
    return None


def _suppressed(check: QualityCheck, rows: int, k: int) -> QualityCheck:
    """Return a check of masked data without a small count. A share is shown as the count behind it may be."""
    import msgspec

    if check.found is None or check.check == "newest_age_days":
        return check
    count = round(check.found * rows) if check.check == "null_share" else int(check.found)
    return check if _shown(count, rows, k) is not None else msgspec.structs.replace(check, found=None)


def _days_between(newest: str, day: str) -> int | None:
    """Return how many days older the newest row is than the version; 0 if it is newer, None if either is unknown."""
    from datetime import date

    if not newest or not day:
        return None
    return max(0, (date.fromisoformat(day) - date.fromisoformat(newest)).days)
