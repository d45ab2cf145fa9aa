"""The public record. It has no field that could hold a coordinate: its place is one cell, and all geography comes from
it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from kfm.errors import Denied
from kfm.masking.cells import Shape, resolution_of, shape_of
from kfm.model.records import Record

WITHHELD = "withheld"  # replaces a value that may not be shown; a blank would mean that there was none
SMALL_GROUP = "Values that too few records of the cell share are coarser or withheld."
_WORDS = {
    "mask.column-unlisted": "columns that are not listed for publication",
    "mask.text-unreviewed": "free text that nobody reviewed",
    "mask.value-unlisted": "values that are not listed for publication",
    "mask.value-unreadable": "values that are not of the kind of their column",
    "mask.location-unreadable": "the location, which could not be read",
    "mask.accuracy-unknown": "the location, whose accuracy is not stated",
    "mask.accuracy-too-coarse": "the location, which is known too roughly for any cell",
}
_GENERALISED = {
    "mask.location": "The location is one H3 cell of resolution {resolution}.",
    "mask.accuracy": "The source states its location only as {accuracy}.",
    "mask.date": "Dates are generalised.",
    "mask.number": "Numbers are rounded.",
    "mask.small-group": SMALL_GROUP,
}


class PublicRecord(Record, frozen=True, gc=False):
    """The public form of a protected record. Only `mask` builds it."""

    id: str  # 32 hexadecimal digits: 128 bits of an HMAC
    cell: str  # H3, 15 hexadecimal digits; empty: the location is withheld
    accuracy: str  # the accuracy that the source states, such as county; empty: withheld
    metres: int  # the meaning of that word in the policy
    attributes: dict[str, str]  # listed columns by public name; texts only, so that none can be a coordinate
    rules: tuple[str, ...]  # the rules that were applied, sorted

    def __post_init__(self) -> None:
        if len(self.id) != 32 or (self.cell and not (len(self.cell) == 15 and self.cell[0] == "8")):
            raise Denied("a public record must have a public id and one cell", rule="mask.not-public")

    @property
    def resolution(self) -> int | None:
        return resolution_of(int(self.cell, 16)) if self.cell else None

    def shape(self) -> Shape | None:
        return shape_of(int(self.cell, 16)) if self.cell else None

    def uncertainty(self) -> int | None:
        """Return the metres around the centroid that certainly contain the place: those of the cell plus the source's
        own."""
        shape = self.shape()
        return _tens(shape.radius + self.metres) if shape else None


def _tens(metres: float) -> int:
    return math.ceil(metres / 10) * 10


@lru_cache(maxsize=4096)
def generalizations(rules: tuple[str, ...], resolution: int | None, accuracy: str) -> str:
    """Return the text of Darwin Core's dataGeneralizations."""
    said = [text for rule, text in _GENERALISED.items() if rule in rules]
    return " ".join(said).format(resolution=resolution, accuracy=accuracy)


@lru_cache(maxsize=4096)
def withheld(rules: tuple[str, ...]) -> str:
    """Return the text of Darwin Core's informationWithheld. The source's key and the exact place are always
    withheld."""
    said = [text for rule, text in _WORDS.items() if rule in rules]
    return "Withheld: " + "; ".join(["the exact location", "the identifiers of the source", *said]) + "."


def properties(record: PublicRecord) -> dict[str, Any]:
    """Return the columns of a public record: the listed columns of the source, then those of masking."""
    return _properties(record, record.shape())


def _properties(record: PublicRecord, shape: Shape | None) -> dict[str, Any]:
    resolution = record.resolution
    return {
        **record.attributes,
        "cell": record.cell or WITHHELD,
        "resolution": resolution,
        "centroid": shape.centroid if shape else None,
        "georeferenceAccuracy": record.accuracy or WITHHELD,
        "coordinateUncertaintyInMeters": _tens(shape.radius + record.metres) if shape else None,
        "dataGeneralizations": generalizations(record.rules, resolution, record.accuracy),
        "informationWithheld": withheld(record.rules),
    }


def feature(record: PublicRecord) -> bytes:
    """Return the record as a GeoJSON feature. Parts that many records share are already encoded."""
    shape = record.shape()
    if shape is None or not _OWN.isdisjoint(record.attributes):
        own = _properties(record, shape)
        place = {} if shape is None else {"bbox": shape.bbox}
        geometry = None if shape is None else shape.geometry
        return _ENCODER.encode({"type": "Feature", "id": record.id, **place, "geometry": geometry, "properties": own})
    attributes = _ENCODER.encode(record.attributes)[1:-1]
    before, after = _words(record.rules, record.resolution, record.accuracy)
    said = (record.id.encode(), shape.place, attributes, b"," if attributes else b"", shape.own, before)
    return b'{"type":"Feature","id":"%b",%b,"properties":{%b%b%b%b%d%b' % (
        *said,
        _tens(shape.radius + record.metres),
        after,
    )


_OWN = frozenset(
    {
        "cell",
        "resolution",
        "centroid",
        "georeferenceAccuracy",
        "coordinateUncertaintyInMeters",
        "dataGeneralizations",
        "informationWithheld",
    }
)


@lru_cache(maxsize=4096)
def _words(rules: tuple[str, ...], resolution: int | None, accuracy: str) -> tuple[bytes, bytes]:
    """Return the encoded properties that many records share: those before and those after the uncertainty."""
    before = _ENCODER.encode({"georeferenceAccuracy": accuracy or WITHHELD})[1:-1]
    after = {
        "dataGeneralizations": generalizations(rules, resolution, accuracy),
        "informationWithheld": withheld(rules),
    }
    return before + b',"coordinateUncertaintyInMeters":', b"," + _ENCODER.encode(after)[1:] + b"}"


def in_public_order(records: Iterable[PublicRecord]) -> list[PublicRecord]:
    """Return the records sorted by cell, then by public id: an order that reveals nothing beyond the records."""
    return sorted(records, key=lambda record: (record.cell, record.id, _ENCODER.encode(record.attributes)))


_ENCODER = msgspec.json.Encoder()
