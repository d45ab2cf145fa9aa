"""Reads what a GeoParquet file says about its geometries, and checks it (GeoParquet 1.0 and 1.1)."""

from __future__ import annotations

from typing import Any, NamedTuple

from kfm.errors import BadInput
from kfm.model.format_rules import DEGREES, same_crs
from kfm.model.transform_config import Expected
from kfm.parsing.parquet_footer import footer_of
from kfm.parsing.strict_json import decode
from kfm.parsing.wkb import NoGeometry, box_of, kind_of
from kfm.validation.findings import NOTE, SOURCE, Outcome, Violation
from kfm.validation.geojson import bbox_flaw

GEO = b"geo"
_GLOBE = (-180.0, -90.0, 180.0, 90.0)


class Geometry(NamedTuple):
    """The primary geometry column of a GeoParquet file."""

    column: str
    crs: str  # authority:code; empty: not given
    encoding: str
    bbox: list[float] | None


def geometry_of(said: bytes | None) -> Geometry | None:
    """Return the description of the geometry column in the metadata `geo` of the footer; None if there is none. Raise
    ValueError if it is malformed."""
    if said is None:
        return None
    try:
        geo = decode(said, "geo")
    except BadInput as problem:
        raise ValueError from problem
    primary = geo.get("primary_column") if type(geo) is dict else None
    columns = geo.get("columns") if type(geo) is dict else None
    about = columns.get(primary) if type(columns) is dict and type(primary) is str else None
    if type(about) is not dict or type(primary) is not str or type(about.get("encoding")) is not str:
        raise ValueError
    box = about.get("bbox")
    if type(box) is not list or len(box) not in (4, 6) or not all(type(x) in (int, float) for x in box):
        box = None
    return Geometry(primary, _crs(about), about["encoding"], box)


def _crs(about: dict[str, Any]) -> str:
    if "crs" not in about:
        return "OGC:CRS84"
    crs = about["crs"]
    known = crs.get("id") if type(crs) is dict else None
    if type(known) is not dict or type(known.get("authority")) is not str or type(known.get("code")) not in (int, str):
        return ""
    return f"{known['authority']}:{known['code']}"[:100]


def described(tail: bytes) -> dict[str, Any]:
    """Return the bounding box in degrees from the last bytes of a file; empty if the file gives none."""
    footer = footer_of(tail)
    try:
        geometry = geometry_of(footer.metadata.get(GEO)) if footer is not None else None
    except ValueError:
        return {}
    if geometry is None or geometry.bbox is None or geometry.crs.upper() not in DEGREES:
        return {}
    box = geometry.bbox
    if any(x - x != 0 for x in box) or bbox_flaw({"bbox": box}) is not None or box[1] > box[len(box) // 2 + 1]:
        return {}
    return {"bbox": box}


class Places:
    """Checks the geometries of a file against what is expected, and against their own coordinate system."""

    def __init__(self, geometry: Geometry | None, expect: Expected, out: Outcome) -> None:
        self.column = geometry.column if geometry is not None else ""
        self._mine: tuple[float, ...] = ()
        self._bounds = expect.bbox
        self._kinds = expect.geometry or ()
        if geometry is None:
            if expect.crs or expect.bbox or self._kinds:
                what = "the file says nothing of geometries, which its source expects"
                out.add(SOURCE, "geo.missing", f"{what}; the source is held")
            return
        if expect.crs and not same_crs(geometry.crs, expect.crs):
            what = f"its coordinate system is {geometry.crs}" if geometry.crs else "it does not say its system by code"
            what = f"{what}, and {expect.crs} is expected; the source is held"
            out.add(SOURCE, "geo.crs", what, column=geometry.column)
        self.is_read = geometry.encoding == "WKB"
        if geometry.crs.upper() in DEGREES:
            self._mine = _GLOBE
        if not self.is_read:
            looks = expect.bbox or self._kinds
            effect, end = (SOURCE, "the source is held") if looks else (NOTE, "noted only")
            what = f"its geometries are not in well-known binary, and are not looked at; {end}"
            out.add(effect, "geo.encoding", what, column=geometry.column)
            self.column = ""

    def flaw(self, body: Any) -> Violation | None:
        if body is None:
            return None
        try:
            box = box_of(body)
        except NoGeometry as problem:
            return self.column, "geo.geometry", "discard-row", str(problem)
        if self._kinds and kind_of(body).removesuffix(" Z") not in self._kinds:
            return self.column, "geo.type", "discard-row", "the geometry is of a kind that is not expected"
        if box is None:
            return None
        if self._mine and not _inside(box, self._mine):
            what = "a position lies outside longitude ±180 or latitude ±90"
            return self.column, "geo.range", "discard-row", what
        if self._bounds and not _inside(box, self._bounds):
            return self.column, "geo.extent", "discard-row", "a position lies outside the box that is expected"
        return None


def _inside(box: tuple[float, ...], bounds: tuple[float, ...]) -> bool:
    return box[0] >= bounds[0] and box[1] >= bounds[1] and box[2] <= bounds[2] and box[3] <= bounds[3]
