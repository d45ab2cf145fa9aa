"""What runs used: energy and carbon, by run, dataset and method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kfm.app.runs.resolve import find_thing
from kfm.app.session.energy_meter import read_grid, run_meter
from kfm.errors import BadInput
from kfm.model.reports.energy_report import EnergyReport, MeterStatus
from kfm.projections.reports.energy_sums import energy_sums, run_energy
from kfm.telemetry.run_meter import HOUR_MS, NO_REGION

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import LedgerEntry, RunTelemetry
    from kfm.model.reports.energy_method import GridFactor


def energy_report(session: Session, wanted: str = "", *, limit: int = -1) -> EnergyReport:
    """Return what all runs used; with the name of a dataset or a run, what those used, with the last `limit` runs. The
    sums are over all runs of the dataset. BadInput for another name, and if the table of the grid has a mistake."""
    meter = meter_status(session)
    runs: list[LedgerEntry] = []
    with session.state.reading():
        if not wanted:
            total, datasets = energy_sums(_found(session, session.state.ledger.entries()))
        else:
            thing = find_thing(session, wanted)
            if thing.kind not in ("dataset", "run"):
                raise BadInput("this names no dataset and no run", hint="see `kfm status` and `kfm runs list`")
            runs = list(_entries(session, thing.dataset if thing.kind == "dataset" else "", thing.run_id))
            total, datasets = energy_sums(_found(session, iter(runs)))
        shown = runs if limit < 0 else runs[:limit]
        found = [run_energy(entry, session.state.ledger.telemetry(entry.run_id)) for entry in shown]
    return EnergyReport(meter=meter, total=total, datasets=datasets, runs=found)


def _found(session: Session, entries: Iterator[LedgerEntry]) -> Iterator[tuple[str, RunTelemetry | None]]:
    return ((entry.dataset, session.state.ledger.telemetry(entry.run_id)) for entry in entries)


def _entries(session: Session, dataset: str, run_id: str) -> Iterator[LedgerEntry]:
    """Yield the entries of a dataset, newest first, or that of a run."""
    ledger = session.state.ledger
    if dataset:
        yield from ledger.entries_of(dataset)
        return
    receipt = ledger.receipt(run_id)
    if receipt is None:
        raise BadInput(f"run {run_id} has not ended, so its energy is not known yet", hint="see `kfm runs show`")
    yield from (entry for entry in ledger.entries_of(receipt.dataset) if entry.run_id == run_id)


def meter_status(session: Session) -> MeterStatus:
    """Return which meter is read here, and why. BadInput if the table of the grid has a mistake."""
    energy = session.config.energy
    method, why = run_meter(session, is_operation=False).describe()
    factor: GridFactor | None = None
    if energy.region:
        hour = session.clock.now_ms() // HOUR_MS % 24
        factor = read_grid(session.resolved)[0].factor(energy.region, hour)
    elif method != "unknown":
        why = f"{why}; the carbon is unknown: {NO_REGION}"
    return MeterStatus(method=method, why=why, watts_per_core=energy.watts_per_core, region=energy.region, grid=factor)
