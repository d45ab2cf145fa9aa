"""The masking policy: which parts of a protected record the public may see. A steward writes and reviews this file.

Only columns named here are published. The kind of a column decides in which form: a code from a closed list, a number
in steps, a date as its year or coarser, a text that a named person reviewed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from kfm.model.labels import COARSEST, FINEST
from kfm.model.records import Record
from kfm.parsing.documents import Document, Path
from kfm.parsing.record_shape import into

SMALLEST_K = 5
FARTHEST = 3_000_000  # metres; a less accurate location carries no information
# Columns that masking itself writes; a column of the source is never published under one of these names.
OWN = (
    "id", "cell", "resolution", "geometry", "bbox", "centroid", "georeferenceAccuracy",
    "coordinateUncertaintyInMeters", "dataGeneralizations", "informationWithheld",
)  # fmt: skip
# Names that readers of Darwin Core take for a place or for the key of the source.
PLACES = frozenset(
    {
        "lat", "latitude", "decimallatitude", "verbatimlatitude", "lon", "long", "lng", "longitude", "decimallongitude",
        "verbatimlongitude", "x", "y", "easting", "northing", "utm", "geom", "wkt", "footprintwkt", "geohash",
        "verbatimcoordinates", "verbatimlocality", "plss", "township",
    }
)  # fmt: skip

_Name = Annotated[str, Meta(min_length=1, max_length=1000)]
_Metres = Annotated[float, Meta(ge=0, le=FARTHEST)]


class AccuracyClass(Record, frozen=True):
    """How accurate a source's locations are, in a word and in metres."""

    name: Annotated[str, Meta(pattern="^[a-z][a-z -]{0,39}$", description="point, section, county, …; published")]
    metres: Annotated[_Metres, Meta(description="the place may be this far from the given point")]


class Accuracy(Record, frozen=True):
    """The accuracy that the source itself states: one for all records, or one per value of a column."""

    all: Annotated[AccuracyClass | None, Meta(description="the same for every record")] = None
    column: Annotated[
        str, Meta(description="the column that states it; a record with an unlisted value gets no location")
    ] = ""
    classes: Annotated[dict[str, AccuracyClass], Meta(description="value of that column: the accuracy it means")] = {}


class Location(Record, frozen=True):
    """The location of a record in degrees of WGS 84: two columns, or the point of a feature."""

    accuracy: Annotated[Accuracy, Meta(description="as the source states it; no published cell is finer")]
    latitude: Annotated[str, Meta(description="the column")] = ""
    longitude: Annotated[str, Meta(description="the column")] = ""
    geometry: Annotated[
        bool, Meta(description="true: the Point of a GeoJSON feature; other geometries are not supported")
    ] = False


class ColumnRule(Record, frozen=True):
    """How one column is published. A value that does not fit its kind is withheld."""

    kind: Annotated[Literal["code", "number", "date", "text"], Meta(description="the kind of its values")]
    name: Annotated[str, Meta(max_length=1000, description="its public name; default: the column's name")] = ""
    values: Annotated[tuple[str, ...], Meta(description="code: the only values that may be published")] = ()
    step: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="number: published as a multiple of this")
    ] = None
    to: Annotated[
        Literal["quarter", "year", "decade", "century"], Meta(description="date: the published precision")
    ] = "year"
    reviewed_by: Annotated[
        str, Meta(max_length=200, description="text: the person who read all of it; without a name it is withheld")
    ] = ""
    below_k: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["year", "decade", "century"] | UnsetType,
        Meta(
            description="quasi-identifier: the coarser form that is tried for fewer than k records before the value is "
            "withheld; a step for a number, a precision for a date"
        ),
    ] = UNSET


class MaskingPolicy(Record, frozen=True):
    """What the public may see of the records of one source."""

    id: Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9-]{0,62}$", description="its name in receipts and reasons")]
    version: Annotated[str, Meta(min_length=1, max_length=40, description="change it with every change of the policy")]
    namespace: Annotated[
        _Name, Meta(description="the namespace in which record ids are unique; part of every public id")
    ]
    record_id: Annotated[_Name, Meta(description="the column that identifies a record; never published")]
    resolution: Annotated[
        Annotated[int, Meta(ge=COARSEST, le=FINEST)],
        Meta(description="the H3 resolution of published cells; a label may make it coarser"),
    ]
    location: Annotated[Location, Meta(description="the location of a record")]
    columns: Annotated[
        dict[str, ColumnRule], Meta(description="the columns that are published; all others are withheld")
    ] = {}
    k: Annotated[
        Annotated[int, Meta(ge=SMALLEST_K)],
        Meta(
            description="fewer records than this never share their quasi-identifiers in a cell, and smaller counts are "
            "suppressed"
        ),
    ] = SMALLEST_K
    quasi_identifiers: Annotated[
        tuple[str, ...] | UnsetType,
        Meta(
            description="published columns by which a reader could recognise a record; where fewer than k records of a "
            "cell share them, they become coarser or are withheld, the last one first"
        ),
    ] = UNSET

    counts_by: Annotated[
        str | UnsetType,
        Meta(
            description="publishes counts instead of records: how many records of each cell have each value of this "
            "published column; counts below k, and those from which they follow, are withheld"
        ),
    ] = UNSET

    @property
    def recognised_by(self) -> tuple[str, ...]:
        """The quasi-identifiers; none if the file does not name any. An absent field is not part of the digest, so
        policies that were signed before keep theirs."""
        return () if self.quasi_identifiers is UNSET else self.quasi_identifiers


def read_policy(document: Document) -> MaskingPolicy:
    """Return the masking policy of a document. Raise BadInput for anything that is not valid."""
    found = into(document, MaskingPolicy)
    for path, what, hint in faults(found):
        document.refuse(path, what, hint)
    return found


_Fault = tuple[Path, str, str]


def faults(policy: MaskingPolicy) -> Iterator[_Fault]:
    """Yield the problems of a policy that the types of its fields do not exclude."""
    yield from _of_location(policy.location)
    place = policy.location
    never = {policy.record_id, place.latitude, place.longitude, place.accuracy.column, "geometry", "bbox"} - {""}
    seen: set[str] = set()
    for column, rule in policy.columns.items():
        at: Path = ("columns", column)
        public = rule.name or column
        if column in never:
            yield at, "is the key or the location of a record", "remove it: it is never published"
        if public in OWN or public.lower().replace("_", "") in PLACES:
            yield (
                at,
                "would be published under a name that means a location or the record itself",
                "give it another name",
            )
        if public in seen:
            yield at, "has the public name of another column", "give it another"
        seen.add(public)
        for field, kind in (("values", "code"), ("step", "number"), ("reviewed_by", "text")):
            if getattr(rule, field) and rule.kind != kind:
                yield (*at, field), f"is only for a {kind}", f"remove it, or make the column a {kind}"
        if rule.kind == "code" and not rule.values:
            yield at, "is a code without values", "list the values that may be published"
        yield from _of_coarser_form(at, rule, column in policy.recognised_by)
    if policy.counts_by is not UNSET and policy.counts_by not in policy.columns:
        yield ("counts_by",), "is not a published column", "list it under columns, or remove it here"
    for i, column in enumerate(policy.recognised_by):
        if column not in policy.columns:
            yield ("quasi_identifiers", i), "is not a published column", "list it under columns, or remove it here"
        if column in policy.recognised_by[:i]:
            yield ("quasi_identifiers", i), "is given twice", "give it once"


COARSER = ("quarter", "year", "decade", "century")  # precisions of a date, the finest first


def _of_coarser_form(at: Path, rule: ColumnRule, is_quasi_identifier: bool) -> Iterator[_Fault]:
    form = rule.below_k
    if form is UNSET:
        return
    at = (*at, "below_k")
    if not is_quasi_identifier:
        yield at, "is only for a quasi-identifier", "name the column under quasi_identifiers, or remove this"
    elif rule.kind not in ("number", "date") or isinstance(form, str) != (rule.kind == "date"):
        yield at, "does not fit the kind of its column", "give a step for a number; year, decade or century for a date"
    elif isinstance(form, str):
        if COARSER.index(form) <= COARSER.index(rule.to):
            yield at, f"is not coarser than {rule.to}", "give a coarser precision, or remove it"
    elif rule.step and form <= rule.step:
        yield at, "is not coarser than step", "give a larger step, or remove it"


def _of_location(location: Location) -> Iterator[_Fault]:
    columns = bool(location.latitude) + bool(location.longitude)
    if columns == 1 or (columns == 2) == location.geometry:
        yield ("location",), "names no location, or two", "give latitude and longitude, or geometry: true"
    if location.latitude and location.latitude == location.longitude:
        yield ("location",), "names the same column twice", "give latitude and longitude each its column"
    accuracy = location.accuracy
    if (accuracy.all is None) == (not accuracy.column):
        yield ("location", "accuracy"), "is not stated once", "give all, or column and classes"
    if bool(accuracy.column) != bool(accuracy.classes):
        yield ("location", "accuracy"), "needs column and classes together", "give the accuracy that each value means"
