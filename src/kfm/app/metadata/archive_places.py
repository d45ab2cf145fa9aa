"""What pages and catalogs say about the archive itself, from the settings."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from typing import Any

import msgspec

from kfm.app.session.session import Session
from kfm.config.archive_settings import archive_name, public_root
from kfm.config.config_loader import Resolved
from kfm.errors import BadInput
from kfm.model.public_run import Places

LARGEST = 2_000_000  # bytes of an outline, which every page of a map repeats
POINTS = 20_000
Line = tuple[tuple[float, float], ...]
_PARTS = {"FeatureCollection": "features", "GeometryCollection": "geometries", "Feature": "geometry"}
_NESTED = {"LineString": 0, "MultiLineString": 1, "Polygon": 1, "MultiPolygon": 2}


def places_of_public(session: Session) -> Places:
    """Return the places as the pages of the public folder name them, with the outline that their maps draw. An outline
    that cannot be read is left out: `kfm config check` reports it, and no page that has to go stays because of it."""
    try:
        outline = outline_of(session.resolved)
    except BadInput:
        outline = ()
    return msgspec.structs.replace(archive_places(session.resolved, "..", outline), catalog=_catalog(session.resolved))


def _catalog(resolved: Resolved) -> str:
    """Return the path of the catalog below the public folder; empty if it is not there."""
    path = relative(resolved, resolved.config.publish, resolved.config.catalog) if resolved.config.catalog else ".."
    return "" if path is None or path.startswith("..") else path


def relative(resolved: Resolved, start: str, url: str) -> str | None:
    """Return the path that leads from one folder, or one prefix of a bucket, to another; None if none does."""
    here, there = resolved.location(start), resolved.location(url)
    if here[0] == there[0] == "file":
        return os.path.relpath(there[1], here[1]).replace(os.sep, "/")
    if here[0] == there[0] == "s3" and here[1].partition("/")[0] == there[1].partition("/")[0]:
        return posixpath.relpath(there[1], here[1])
    return None


def archive_places(resolved: Resolved, public: str, outline: tuple[Line, ...] = ()) -> Places:
    """Return the archive as the settings describe it, with the address of the public folder."""
    config, said = resolved.config, resolved.config.archive
    named = archive_name(config.public_url, said)
    return Places(
        public=public,
        receipts="",
        title=named,
        description=said.description or Places().description,
        publisher=said.publisher or named,
        contact=said.contact,
        home=said.url,
        namespace=said.namespace,
        public_url=public_root(config.public_url),
        pages=config.pages,
        outline=outline,
    )


def outline_of(resolved: Resolved) -> tuple[Line, ...]:
    """Return the lines of the file that `archive.outline` names; none if it names none. BadInput if the file cannot be
    read or holds no lines."""
    said = resolved.config.archive.outline
    if not said:
        return ()
    try:
        with open(resolved.at(said), "rb") as file:
            body = file.read(LARGEST + 1)
    except OSError as problem:
        raise BadInput(
            f"archive.outline cannot be read: {(problem.strerror or '').lower()}", hint="correct the path in kfm.yml"
        ) from None
    if len(body) > LARGEST:
        raise BadInput(f"archive.outline is larger than {LARGEST:,} bytes", hint="simplify its lines")
    try:
        lines = tuple(_lines(msgspec.json.decode(body)))
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError):
        lines = ()
    if not lines:
        raise BadInput("archive.outline is not GeoJSON of lines or areas", hint="name a file of polygons in degrees")
    if sum(map(len, lines)) > POINTS:
        raise BadInput(f"archive.outline has more than {POINTS:,} points", hint="simplify its lines")
    return lines


def _lines(value: Any) -> Iterator[Line]:
    kind = value["type"]
    if kind in _PARTS:
        below = value[_PARTS[kind]]
        for part in below if isinstance(below, list) else [below]:
            if part is not None:
                yield from _lines(part)
    elif kind in _NESTED:
        lines = [value["coordinates"]]
        for _ in range(_NESTED[kind]):
            lines = [line for nested in lines for line in nested]
        for line in lines:
            points = tuple((float(point[0]), float(point[1])) for point in line)
            if not all(-180 <= east <= 180 and -90 <= north <= 90 for east, north in points):
                raise ValueError
            if len(points) > 1:
                yield points
