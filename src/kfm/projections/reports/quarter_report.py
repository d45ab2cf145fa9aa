"""The FAIR+CARE review of a quarter, as Markdown, HTML and JSON, and the counts that it shows. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.reports.energy_method import method_of
from kfm.model.reports.quarter_figures import DatasetQuarter, DenialCount, QuarterReport
from kfm.projections.operation_counts import BAD, BUILDING
from kfm.projections.reports.report_text import as_page, table

if TYPE_CHECKING:
    from kfm.model.records import LedgerEntry, RunTelemetry

DENIED = ("denied", "escalated")
_WH_PER_KWH = 1000
_COUNTS = ("runs", "failed", "publications", "withdrawals", "rollbacks", "hotfixes", "freezes", "denials",
           "escalations", "care_flags", "overrides")  # fmt: skip


class QuarterCounts:
    """Counts the entries of a quarter, one at a time."""

    def __init__(self) -> None:
        self.entries = 0
        self._datasets: dict[str, Counter[str]] = {}
        self._energy: dict[str, float] = {}
        self._methods: dict[str, set[str]] = {}
        self._carbon: dict[str, float] = {}
        self._denials: Counter[tuple[str, str]] = Counter()

    def add(self, entry: LedgerEntry, telemetry: RunTelemetry | None, rules: tuple[str, ...]) -> None:
        """Count an entry. `rules` are those that denied it."""
        self.entries += 1
        name, found = entry.dataset, self._datasets.setdefault(entry.dataset, Counter())
        found["runs"] += entry.op_type in BUILDING
        found["failed"] += entry.outcome in BAD
        found["denials"] += entry.outcome in DENIED
        found["escalations"] += entry.outcome == "escalated"
        found["hotfixes"] += entry.op_type == "hotfix" and entry.outcome == "done"
        found["freezes"] += entry.op_type == "freeze" and entry.outcome == "done"
        found["overrides"] += len(entry.overrides) + (entry.op_type == "override" and entry.outcome == "done")
        if entry.governed is not msgspec.UNSET:
            found["care_flags"] += len(entry.governed.findings)
        self._denials.update((name, rule) for rule in rules)
        for move in entry.moves:
            if move.ref.startswith(refs.PUBLISHED):
                kind = (
                    "withdrawals" if not move.after else "rollbacks" if entry.op_type == "rollback" else "publications"
                )
                self._datasets.setdefault(refs.parse(move.ref).dataset, Counter())[kind] += 1
        if telemetry is None or telemetry.energy_kwh is None:
            found["unmeasured"] += 1
        else:
            self._energy[name] = self._energy.get(name, 0.0) + telemetry.energy_kwh * _WH_PER_KWH
            self._methods.setdefault(name, set()).add(method_of(telemetry.energy_method, telemetry.energy_kwh))
        if telemetry is None or telemetry.co2e_g is None:
            found["without_carbon"] += 1
        else:
            self._carbon[name] = self._carbon.get(name, 0.0) + telemetry.co2e_g

    def datasets(self) -> list[DatasetQuarter]:
        return [
            DatasetQuarter(
                dataset=name,
                energy_wh=self._energy.get(name),
                energy_methods=sorted(self._methods.get(name, ())),
                carbon_g=self._carbon.get(name),
                **{field: found[field] for field in (*_COUNTS, "without_carbon", "unmeasured")},
            )
            for name, found in sorted(self._datasets.items())
        ]

    def denials(self) -> list[DenialCount]:
        return [
            DenialCount(dataset=name, rule=rule, count=count) for (name, rule), count in sorted(self._denials.items())
        ]


def as_json(report: QuarterReport) -> str:
    return canonical(report).decode() + "\n"


def as_markdown(report: QuarterReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def as_html(report: QuarterReport) -> str:
    return as_page(f"FAIR+CARE review of {report.quarter}", _lines(report))


def _lines(report: QuarterReport) -> Iterator[str]:
    yield from (f"# FAIR+CARE review of {report.quarter}", "")
    until = "" if report.is_over else " The quarter goes on: these are its numbers until then."
    yield from (f"From {report.begin} to {report.end}, made {report.made}.{until}", "")
    if not report.entries:
        yield from ("The ledger has no entry of this quarter.", "")
    else:
        yield from (f"The ledger has {report.entries} entries of this quarter.", "")
    yield from ("## Datasets", "")
    head = ("dataset", *(field.replace("_", " ") for field in _COUNTS))
    yield from table(
        head, [(each.dataset, *(str(getattr(each, field)) for field in _COUNTS)) for each in report.datasets]
    )
    yield from ("## Denied, by rule", "")
    yield from table(
        ("dataset", "rule", "times"), [(each.dataset, each.rule, str(each.count)) for each in report.denials]
    )
    yield from ("## Overridden", "")
    yield from table(
        ("at", "dataset", "what", "who", "reason", "until"),
        [
            (each.at, each.dataset, each.what, each.who or "withheld", _word(each.has_reason), each.until or "one run")
            for each in report.overrides
        ],
    )
    yield from ("## Objectives, as they are declared now", "")
    if report.objectives is None:
        yield from ("Unknown: the files of the objectives cannot be read.", "")
    else:
        rows = [
            (
                each.name,
                _share(each.target),
                _share(each.actual),
                {True: "yes", False: "no", None: "unknown"}[each.kept],
            )
            for each in report.objectives
        ]
        yield from table(("objective", "target", "actual", "kept"), rows)
    yield from ("## Energy", "")
    measured = [
        (
            each.dataset,
            _number(each.energy_wh),
            ", ".join(each.energy_methods),
            str(each.unmeasured),
            _number(each.carbon_g),
            str(each.without_carbon),
        )
        for each in report.datasets
    ]
    head = ("dataset", "Wh", "how known", "operations of unknown energy", "g CO2e", "operations of unknown carbon")
    yield from table(head, measured)
    yield from ("## When this report was made", "")
    yield from (f"{report.open_reviews} items waited for a review.", "")
    yield from (
        f"{report.broken_links} links were broken, and {report.orphan_links} led to a dataset without a version.",
    )


def _word(value: bool | None) -> str:
    return "withheld" if value is None else "yes" if value else "no"


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value * 100:.4g} %"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"
