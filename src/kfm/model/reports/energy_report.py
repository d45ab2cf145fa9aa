"""The report of energy: what runs used, what carbon that was, and how both were found."""

from __future__ import annotations

from kfm.model.records import Record
from kfm.model.reports.energy_method import GridFactor, Method


class EnergyUse(Record, frozen=True):
    """The energy of a run."""

    run_id: str
    dataset: str
    joules: float | None  # None: unknown, which is not 0
    energy_kwh: float | None  # the same amount
    method: Method
    how: str  # the method in full, with its coefficients; or why the energy is unknown


class CarbonUse(Record, frozen=True):
    """The carbon of a run."""

    run_id: str
    dataset: str
    grams: float | None  # of CO2e; None: unknown
    grid: GridFactor | None  # None: unknown, or the updater reported the grams itself
    why: str  # the grams are unknown; empty: they are known


class RunEnergy(Record, frozen=True):
    """The energy and the carbon of a run that has ended."""

    ended_at: str  # as in the ledger
    op_type: str  # ingest, job or an operation
    outcome: str
    energy: EnergyUse
    carbon: CarbonUse


class MethodSum(Record, frozen=True):
    """The sum over runs with one method. Sums of several methods are never added."""

    method: Method
    runs: int
    joules: float | None  # None for the method `unknown`
    grams: float | None  # of those runs whose carbon is known; None: of none
    without_carbon: int  # runs whose carbon is unknown


class EnergySum(Record, frozen=True):
    """The sums of a dataset, or of all of them."""

    dataset: str  # empty: all
    runs: int
    unknown: int  # runs whose energy is unknown: they are in no sum
    merged: int  # triggers that another run answered: its energy is theirs, and they are no runs here
    methods: list[MethodSum]


class MeterStatus(Record, frozen=True):
    """The meter that is read on this machine now."""

    method: Method
    why: str
    watts_per_core: float  # for an estimate
    region: str  # empty: the carbon of runs is unknown
    grid: GridFactor | None  # in force at this hour


class EnergyReport(Record, frozen=True):
    """What `kfm energy` shows."""

    meter: MeterStatus
    total: EnergySum
    datasets: list[EnergySum]  # by name
    runs: list[RunEnergy]  # of one dataset or run, newest first; empty: of no single one
