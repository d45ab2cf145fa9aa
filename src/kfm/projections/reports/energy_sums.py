"""The energy of runs, from their telemetry, and sums of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kfm.model.records import JOULES_PER_KWH
from kfm.model.reports.energy_method import METHODS, grid_of, method_of, why_no_carbon
from kfm.model.reports.energy_report import CarbonUse, EnergySum, EnergyUse, MethodSum, RunEnergy

if TYPE_CHECKING:
    from kfm.model.records import LedgerEntry, RunTelemetry
    from kfm.model.reports.energy_method import Method

LOST = "unknown: the telemetry of the run is missing"


def run_energy(entry: LedgerEntry, telemetry: RunTelemetry | None) -> RunEnergy:
    """Return the energy and the carbon of the run of a ledger entry."""
    kwh, grams, how = (
        (None, None, LOST) if telemetry is None else (telemetry.energy_kwh, telemetry.co2e_g, telemetry.energy_method)
    )
    about = {"run_id": entry.run_id, "dataset": entry.dataset}
    joules = None if kwh is None else kwh * JOULES_PER_KWH
    why = "" if grams is not None else why_no_carbon(how, kwh)
    return RunEnergy(
        ended_at=entry.ts,
        op_type=entry.op_type,
        outcome=entry.outcome,
        energy=EnergyUse(**about, joules=joules, energy_kwh=kwh, method=method_of(how, kwh), how=how),
        carbon=CarbonUse(**about, grams=grams, grid=None if grams is None else grid_of(how), why=why),
    )


class EnergyCounts:
    """Sums of runs by method."""

    def __init__(self) -> None:
        self._merged = 0
        self._runs: dict[Method, int] = {}
        self._joules: dict[Method, float] = {}
        self._grams: dict[Method, float] = {}
        self._with_carbon: dict[Method, int] = {}

    def add(self, telemetry: RunTelemetry | None) -> None:
        """Count a run. A trigger that another run answered is counted apart."""
        if telemetry is not None and telemetry.idempotency_state == "merged":
            self._merged += 1
            return
        kwh = None if telemetry is None else telemetry.energy_kwh
        method = method_of("" if telemetry is None else telemetry.energy_method, kwh)
        self._runs[method] = self._runs.get(method, 0) + 1
        if kwh is not None:
            self._joules[method] = self._joules.get(method, 0.0) + kwh * JOULES_PER_KWH
        if telemetry is not None and telemetry.co2e_g is not None:
            self._grams[method] = self._grams.get(method, 0.0) + telemetry.co2e_g
            self._with_carbon[method] = self._with_carbon.get(method, 0) + 1

    def sum(self, dataset: str) -> EnergySum:
        return EnergySum(
            dataset=dataset,
            runs=sum(self._runs.values()),
            unknown=self._runs.get("unknown", 0),
            merged=self._merged,
            methods=[
                MethodSum(
                    method=method,
                    runs=self._runs[method],
                    joules=self._joules.get(method),
                    grams=self._grams.get(method),
                    without_carbon=self._runs[method] - self._with_carbon.get(method, 0),
                )
                for method in METHODS
                if method in self._runs
            ],
        )


def energy_sums(found: Iterable[tuple[str, RunTelemetry | None]]) -> tuple[EnergySum, list[EnergySum]]:
    """Return the sum over these runs, each with its dataset, and the sums by dataset."""
    total, by_name = EnergyCounts(), dict[str, EnergyCounts]()
    for name, telemetry in found:
        total.add(telemetry)
        by_name.setdefault(name, EnergyCounts()).add(telemetry)
    return total.sum(""), [counts.sum(name) for name, counts in sorted(by_name.items())]
