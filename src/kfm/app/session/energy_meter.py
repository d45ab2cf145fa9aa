"""The meter of an installation, with the table of its grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.clock import StoppedClock
from kfm.errors import BadInput
from kfm.telemetry.run_meter import NO_REGION, RunMeter

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import Resolved
    from kfm.model.reports.energy_method import GridFactor
    from kfm.telemetry.grid_factors import GridTable

NO_HOUR = "the table of the grid has no factor for this hour"
UNREADABLE = "the table of the grid cannot be read"


def run_meter(session: Session, *, is_operation: bool) -> RunMeter:
    """Return the meter for a run. BadInput if the table of the grid has a mistake or lacks the region. An operation may
    withdraw or close, so such a mistake does not stop it: its carbon is unknown."""
    if session.made_meter is not None:
        return session.made_meter
    energy = session.config.energy
    table, mistakes = read_grid(session.resolved)
    if mistakes and not is_operation:
        raise mistakes[0]
    if mistakes:
        return _meter(session, None, UNREADABLE)  # the next run looks again
    session.made_meter = _meter(session, table, NO_HOUR) if energy.region else _meter(session, None, NO_REGION)
    return session.made_meter


def _meter(session: Session, table: GridTable | None, why: str) -> RunMeter:
    energy = session.config.energy

    def factor_of(hour: int) -> GridFactor | str:
        return (None if table is None else table.factor(energy.region, hour)) or why

    folder, is_stopped = session.resolved.at(energy.rapl), isinstance(session.clock, StoppedClock)
    return RunMeter(energy.meter, energy.watts_per_core, folder, factor_of, is_stopped=is_stopped)


def read_grid(resolved: Resolved) -> tuple[GridTable, list[BadInput]]:
    """Return the table of the grid, and its mistakes: a file that cannot be read, bad lines, a region that it lacks."""
    from kfm.telemetry.grid_factors import MOST_BYTES, GridTable, read_table, shipped_rows

    energy = resolved.config.energy
    body, name = b"", energy.grid
    try:
        if name:
            with open(resolved.at(name), "rb") as file:
                body = file.read(MOST_BYTES + 1)
        else:
            body = shipped_rows()
    except (OSError, ValueError) as problem:
        reason = (problem.strerror or "").lower() if isinstance(problem, OSError) else "not a path"
        hint = "write the file, or correct the path: it starts at the folder of kfm.yml"
        what = f"names {name}, which cannot be read: {reason}"
        return GridTable({}), [resolved.document.mistake(("energy", "grid"), what, hint)]
    table, mistakes = read_table(body, name or "grid_factors.csv")
    if energy.region and not mistakes and energy.region not in table.regions:
        shown = ", ".join(table.regions[:10]) + (" and others" if len(table.regions) > 10 else "")
        hint = f"write one of {shown}" + ("" if name else ", or name a table of your own in energy.grid")
        mistakes = [resolved.document.mistake(("energy", "region"), "is not in the table of the grid", hint)]
    return table, mistakes
