"""kfm energy: what runs used, and what carbon that was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kfm.app.runs.energy_use import energy_report
from kfm.cli.session import one_line, opened

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen
    from kfm.model.reports.energy_method import GridFactor
    from kfm.model.reports.energy_report import EnergyReport, EnergySum, RunEnergy

MORE = """\
A number is measured by counters of the processor, estimated from processor time, or reported by the updater; else it
is unknown, which is not 0. Sums are by method. See the section `energy` of kfm.yml."""
LIMIT = 20


def arguments(parser: Parser) -> None:
    parser.add_argument("what", nargs="?", default="", metavar="DATASET|RUN", help="of one dataset or run, run by run")
    parser.add_argument(
        "--limit", type=int, default=LIMIT, metavar="N", help=f"show N runs of a dataset (default: {LIMIT}; -1: all)"
    )
    parser.set_defaults(handler=energy)


def energy(options: argparse.Namespace, screen: Screen) -> int:
    wanted = one_line("DATASET|RUN", options.what) if options.what else ""
    with opened(options, screen, "read") as session:
        report = energy_report(session, wanted, limit=options.limit)
    if screen.json:
        screen.data(msgspec.to_builtins(report))
        return 0
    if len(report.runs) == 1 and wanted.removeprefix("kfm://dataset/") != report.runs[0].energy.dataset:
        _show(screen, report.runs[0])
        return 0
    if wanted:
        screen.table(("run", "ended", "op", "outcome", "joules", "g CO2e", "method"), map(_run_row, report.runs))
        screen.line()
    sums = [*report.datasets, *([report.total] if len(report.datasets) > 1 else [])]
    headers = ("dataset", "method", "runs", "joules", "g CO2e", "without carbon")
    screen.table(headers, [row for each in sums for row in _sum_rows(each)])
    _notes(screen, report)
    return 0


def _show(screen: Screen, run: RunEnergy) -> None:
    screen.fields(
        (
            ("run", run.energy.run_id),
            ("dataset", run.energy.dataset),
            ("ended", run.ended_at),
            ("joules", _number(run.energy.joules) or "unknown"),
            ("g CO2e", _number(run.carbon.grams) or f"unknown: {run.carbon.why}"),
            ("method", run.energy.how),
            ("grid", _grid(run.carbon.grid)),
        )
    )


def _run_row(run: RunEnergy) -> tuple[str, ...]:
    numbers = _number(run.energy.joules), _number(run.carbon.grams)
    return (run.energy.run_id[:8], run.ended_at, run.op_type, run.outcome, *numbers, run.energy.method)


def _sum_rows(each: EnergySum) -> Iterator[tuple[str, ...]]:
    for one in each.methods:
        numbers = _number(one.joules), _number(one.grams)
        yield (each.dataset or "all", one.method, str(one.runs), *numbers, str(one.without_carbon))


def _notes(screen: Screen, report: EnergyReport) -> None:
    many = report.total.unknown
    if many:
        screen.say(f"the energy of {many} run{'s' * (many > 1)} is unknown, and in no sum")
    said = {"measured": "measured", "estimated": f"estimated with {report.meter.watts_per_core:g} W per core"}
    screen.say(f"runs here are {said.get(report.meter.method, 'not metered')}: {report.meter.why}")
    if report.meter.grid is not None:
        screen.say(f"the grid now: {_grid(report.meter.grid)}")


def _grid(factor: GridFactor | None) -> str:
    if factor is None:
        return ""
    hour = "all hours" if factor.hour == "*" else f"hour {factor.hour} UTC"
    return f"{factor.g_per_kwh:g} gCO2e/kWh, {factor.region}, {hour}, {factor.source}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
