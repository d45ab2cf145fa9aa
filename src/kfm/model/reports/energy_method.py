"""How the energy of a run was found: one bounded line of text, and the facts in it.

The first word of the line is the method. The meter of runs writes it (telemetry/run_meter.py), unless the updater
reported the amount itself.
"""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record
from kfm.parsing.lazy_regex import pattern

Method = Literal["measured", "estimated", "reported", "unknown"]
METHODS: tuple[Method, ...] = ("measured", "estimated", "reported", "unknown")
LONGEST = 300  # characters of such a text
LONGEST_REPORTED = 200  # characters that an author may write
_GRID = pattern(
    r"; (?P<g>[0-9.e+-]{1,30}) gCO2e/kWh (?P<region>[A-Za-z0-9._-]{1,40}) hour (?P<hour>\*|[0-9]{1,2})"
    r" \((?P<source>[^();]{1,80})\)\Z"
)


class GridFactor(Record, frozen=True):
    """The carbon of a kilowatt-hour."""

    g_per_kwh: float
    region: str
    hour: str  # of the day in UTC; * if the factor is an average over all hours
    source: str  # who published it, and for which year


def reported(said: str) -> str:
    """Return the method of a number that an updater reported itself."""
    return f"reported: {said}" if said else "reported: by the updater"


def method_of(text: str, energy_kwh: float | None) -> Method:
    """Return the method of a run by its text. A number with another text was reported by its updater."""
    if energy_kwh is None:
        return "unknown"
    word = text.partition(":")[0]
    return "measured" if word == "measured" else "estimated" if word == "estimated" else "reported"


def grid_of(text: str) -> GridFactor | None:
    """Return the factor of the grid that a text names; None if it names none, or if an updater wrote the text."""
    found = _GRID.search(text) if text.startswith(("measured:", "estimated:")) else None
    if found is None:
        return None
    return GridFactor(g_per_kwh=float(found["g"]), region=found["region"], hour=found["hour"], source=found["source"])


def why_no_carbon(text: str, energy_kwh: float | None) -> str:
    """Return why the carbon of a run with this text is unknown."""
    if energy_kwh is None:
        return "the energy is unknown"
    head, _, why = text.partition("; carbon unknown: ")
    return why if why and head.startswith(("measured:", "estimated:")) else "the updater reported none"
