"""The section `energy`: how the energy of runs is found, and the carbon of the grid that it came from."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kfm.model.records import Record
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document
from kfm.parsing.lazy_regex import pattern

_REGION = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}\Z")


class EnergyConfig(Record, frozen=True):
    """Which meter is read, and which grid the energy comes from."""

    meter: Annotated[
        Literal["auto", "cpu", "off", "rapl"],
        Meta(
            description="auto: RAPL where it can be read, else an estimate from processor time; rapl or cpu: that one "
            "alone; off: none",
        ),
    ] = "auto"
    # That of an unknown processor in Green Algorithms (Lannelongue, Grealey, Inouye 2021).
    watts_per_core: Annotated[
        float,
        Meta(
            gt=0,
            le=1000,
            description="power of one busy core, for the estimate; the default is that of an unknown processor in "
            "Green Algorithms (doi:10.1002/advs.202100707)",
        ),
    ] = 12.0
    region: Annotated[
        str,
        Meta(
            max_length=40,
            description="region of the grid, such as US-SPNO; empty: the carbon of runs is unknown",
        ),
    ] = ""
    grid: Annotated[
        str,
        Meta(
            max_length=4096,
            description="CSV file with the columns region, hour, g_per_kwh and source, in place of the shipped table",
        ),
    ] = ""
    rapl: Annotated[str, Meta(min_length=1, max_length=4096, description="folder of the RAPL counters")] = (
        "/sys/class/powercap"
    )


def check_energy(document: Document, energy: EnergyConfig) -> None:
    """Raise BadInput for a region that cannot be one, and for paths that cannot be shown."""
    if energy == EnergyConfig():
        return
    if energy.region and not _REGION.match(energy.region):
        document.refuse(("energy", "region"), "is no name of a region", "write one like US-SPNO or world")
    for key in ("grid", "rapl"):
        if not is_printable(getattr(energy, key)):
            document.refuse(("energy", key), "holds a control character", "use a plain path")
