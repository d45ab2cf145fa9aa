"""Meters the energy of the runs of this process.

The process has one account of its processor time and, where it can be read, of its share of the energy counters. What
was used since the last look is divided equally among the runs that were active, so the sum over all runs is never more
than what was used. Time in which no run is active belongs to no run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from kfm.clock import processor_seconds
from kfm.model.records import JOULES_PER_KWH

if TYPE_CHECKING:
    from kfm.model.reports.energy_method import GridFactor, Method
    from kfm.telemetry.rapl import Rapl

    FactorOf = Callable[[int], GridFactor | str]  # by the hour of the day in UTC; a text says why there is none

Used = tuple[float | None, float | None, str]  # kWh, grams of CO2e, and the method
MEASURED = "measured: RAPL of the processor packages x share of busy processor time, shared equally by runs at once"
LAST_ATTEMPT = "; the last attempt alone"
NO_REGION = "energy.region is not set"
OFF = "energy.meter is off"
STOPPED = "KFM_NOW or SOURCE_DATE_EPOCH stops the clock, and a run leaves the same bytes again"
TOO_SHORT = "the run was too short for the clock of the processor"
NO_RAPL = "RAPL cannot be read here, and energy.meter is rapl"
HOUR_MS = 3_600_000
USUAL_FOLDER = "/sys/class/powercap"
SAMPLED_S = 60.0  # a counter is read at least this often while a run is active

_lock = threading.Lock()
_active: dict[int, Metering] = {}  # by their identity
_rapls: dict[str, Rapl | str] = {}  # by folder: the open counters, or why they cannot be read
_cpu = 0.0  # processor time of this process at the last look


def _forget() -> None:
    """Forget the runs of the parent in a forked child, which begins with no processor time of its own."""
    global _lock, _cpu
    _lock, _cpu = threading.Lock(), 0.0
    _active.clear()
    _rapls.clear()


os.register_at_fork(after_in_child=_forget)


def estimated(watts_per_core: float) -> str:
    """Return the method of an estimate from processor time."""
    watts = f"{watts_per_core!r}".removesuffix(".0")
    return f"estimated: CPU s x {watts} W per core (energy.watts_per_core), shared equally by runs at once"


@cache
def _estimated(watts_per_core: float, is_resumed: bool) -> str:
    return estimated(watts_per_core) + LAST_ATTEMPT * is_resumed


def with_grid(method: str, factor: GridFactor | str) -> str:
    """Return the method with the factor of the grid, or with the reason why there is none."""
    if isinstance(factor, str):
        return f"{method}; carbon unknown: {factor}"
    number = f"{factor.g_per_kwh!r}".removesuffix(".0")
    return f"{method}; {number} gCO2e/kWh {factor.region} hour {factor.hour} ({factor.source})"


def _settle(other: Rapl | None = None) -> None:
    """Divide what was used since the last look among the active runs. `other` is read, too."""
    global _cpu
    now = processor_seconds()
    used, _cpu = max(0.0, now - _cpu), now
    among, joules = len(_active), dict[int, float | None]()
    if other is not None:
        joules[id(other)] = other.step(now)
    for each in _active.values():
        each.cpu_s += used / among
        if each.rapl is not None:
            if id(each.rapl) not in joules:
                joules[id(each.rapl)] = each.rapl.step(now)
            found = joules[id(each.rapl)]
            if found is None:
                each.rapl = None
            else:
                each.joules += found / among


def _rapl_in(folder: str) -> Rapl | str:
    found = _rapls.get(folder)
    if found is None:
        found = _rapls[folder] = _opened(folder)
    elif not isinstance(found, str) and found.problem:
        found = _rapls[folder] = found.problem
    return found


def _opened(folder: str) -> Rapl | str:
    if not os.path.isdir(folder):
        return f"there is no folder {folder}" if folder == USUAL_FOLDER else "there is no such folder"
    from kfm.telemetry.rapl import open_rapl

    return open_rapl(folder)


class Metering:
    """What one run uses, from its begin to its end."""

    __slots__ = ("_meter", "cpu_s", "joules", "rapl")

    def __init__(self, meter: RunMeter, rapl: Rapl | None) -> None:
        self._meter = meter
        self.rapl = rapl  # None: the counters cannot be read, or could not at some time during the run
        self.cpu_s = self.joules = 0.0

    def used(self, now_ms: int, *, is_resumed: bool) -> Used:
        """Return what the run has used so far, with the factor of the grid at this hour."""
        with _lock:
            _settle()
            cpu_s, joules, rapl = self.cpu_s, self.joules, self.rapl
        return self._meter.told(cpu_s, None if rapl is None else joules, now_ms, is_resumed)

    def end(self) -> None:
        """The run is no longer active."""
        with _lock:
            _settle()
            _active.pop(id(self), None)


class Unmetered:
    """A run that no meter is read for, and why."""

    def __init__(self, why: str) -> None:
        self._why = why

    def used(self, now_ms: int, *, is_resumed: bool) -> Used:  # noqa: ARG002
        return None, None, f"unknown: {self._why}"

    def end(self) -> None:
        """Nothing was begun."""


class RunMeter:
    """The meter of one installation: `kind` is the setting energy.meter. Under a clock that stands still nothing is
    metered."""

    def __init__(
        self, kind: str, watts_per_core: float, rapl_folder: str, factor_of: FactorOf, *, is_stopped: bool = False
    ) -> None:
        self.kind, self.watts_per_core, self.rapl_folder = kind, watts_per_core, rapl_folder
        self._factor_of = factor_of
        self._why_not = OFF if kind == "off" else STOPPED if is_stopped else ""

    def begin(self) -> Metering | Unmetered:
        """Begin to meter a run."""
        if self._why_not:
            return Unmetered(self._why_not)
        with _lock:
            rapl = None
            if self.kind != "cpu":
                found = _rapl_in(self.rapl_folder)
                rapl = None if isinstance(found, str) else found
            _settle(rapl)
            if rapl is not None and rapl.problem:
                rapl = None
            made = Metering(self, rapl)
            _active[id(made)] = made
        return made

    def sample(self) -> None:
        """Read the counters if that was long ago: they wrap around."""
        with _lock:
            if any(each.rapl is not None and each.rapl.age_s() > SAMPLED_S for each in _active.values()):
                _settle()

    def told(self, cpu_s: float, joules: float | None, now_ms: int, is_resumed: bool) -> Used:
        """Return the energy, the carbon and the method of a run that used this."""
        if joules is not None and joules > 0:
            energy, method = joules, MEASURED + LAST_ATTEMPT * is_resumed
        elif self.kind == "rapl" and joules is None:
            return None, None, f"unknown: {NO_RAPL}"
        elif self.kind != "rapl" and cpu_s > 0:
            energy, method = cpu_s * self.watts_per_core, _estimated(self.watts_per_core, is_resumed)
        else:
            return None, None, f"unknown: {TOO_SHORT}"
        kwh = energy / JOULES_PER_KWH
        factor = self._factor_of(now_ms // HOUR_MS % 24)
        method = with_grid(method, factor)
        return kwh, None if isinstance(factor, str) else kwh * factor.g_per_kwh, method

    def describe(self) -> tuple[Method, str]:
        """Return the method of runs here, and the reason."""
        if self._why_not:
            return "unknown", self._why_not
        if self.kind != "cpu":
            with _lock:
                found = _rapl_in(self.rapl_folder)
            if not isinstance(found, str):
                many = len(found.packages)
                return "measured", f"RAPL counters of {many} processor package{'s' * (many > 1)} are read"
            return "unknown" if self.kind == "rapl" else "estimated", f"RAPL cannot be read: {found}"
        return "estimated", "energy.meter is cpu"
