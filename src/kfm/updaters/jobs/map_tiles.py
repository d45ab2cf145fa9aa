"""The job `transform.build_tiles`: the features of one dataset version as map tiles in one PMTiles file.

A tile shows what the version shows and nothing finer: of masked data, the cells. GDAL writes the file in memory. Rows
are sorted first, so equal features give equal bytes in every order. No feature is left out because a tile is large: the
run is refused then.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kfm.errors import Held, Refused, Unavailable
from kfm.model.canonical import canonical
from kfm.model.jobs.job_settings import TILES, TileSettings
from kfm.model.jobs.job_updater import JobUpdater
from kfm.model.records import SourceRef, Step
from kfm.model.updater import Output, Plan, Reader
from kfm.parsing.characters import printable
from kfm.parsing.pmtiles import MEDIA_TYPE, NoTiles, Tiles, place_of
from kfm.parsing.wkb import Box, NoGeometry, box_of, joined
from kfm.updaters.jobs.source_rows import Places, rows_of

MOST = 2_000_000  # features, which are in memory while they are drawn
_NO_LIMIT = 1 << 30
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
_WHOLE = 1 << 53


class Feature(NamedTuple):
    geometry: bytes
    values: dict[str, Any]


class MapTiles(JobUpdater[TileSettings]):
    job = TILES
    version = "1.0.0"  # change it whenever the bytes of the tiles would be others

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:  # noqa: ARG002
        said = self.parameters
        shown = {
            "layer": said.layer,
            "zooms": [said.min_zoom, said.max_zoom],
            "attributes": None if said.attributes is None else sorted(said.attributes),
            "places": [said.longitude, said.latitude],
            "tile_kib": said.tile_kib,
        }
        tiles = Step(id="tiles", key=("tiles",), params=shown)
        return Plan([tiles, Step(id="metadata", key=("metadata",), needs=("tiles",))], complete=True)

    def perform(self, step: Step, read: Reader) -> Output:
        if step.id == "metadata":
            return Output.json(_metadata(Tiles(read.bytes("tiles"))))
        features, box = self._features(read)
        body = _drawn(features, self.parameters)
        self._check(body)
        return Output(body, MEDIA_TYPE, rows=len(features), bbox=_shown_box(box))

    def _features(self, read: Reader) -> tuple[list[Feature], Box]:
        """Return the sorted features and the box around them. Held if there are none: an empty map is no success."""
        (ref,) = read.inputs
        said, whole = self.parameters, None
        found: list[Feature] = []
        for number, row in enumerate(rows_of(read, ref, Places(said.longitude, said.latitude)), 1):
            if row.geometry is None:
                continue
            try:
                box = box_of(row.geometry)
            except NoGeometry as flaw:
                raise Refused(f"source {ref.name}, row {number}: {flaw}", hint="correct what is read") from None
            if box is None:
                continue
            if not (-180 <= box[0] <= box[2] <= 180 and -90 <= box[1] <= box[3] <= 90):
                raise Refused(
                    f"source {ref.name}, row {number}: its place is not on the globe", hint="tiles need degrees"
                )
            if len(found) >= MOST:
                raise Refused(f"source {ref.name} has more than {MOST} features", hint="read a part of it")
            whole = box if whole is None else joined(whole, box)
            found.append(Feature(row.geometry, self._shown(row.values)))
        if whole is None:
            raise Held(
                f"source {ref.name} has no feature with a place, so its tiles would be empty",
                hint="the current tiles stay; of a table, name the columns of degrees in parameters",
            )
        self._check_attributes(ref.name, found)
        return sorted(found, key=lambda each: (each.geometry, canonical(each.values))), whole

    def _shown(self, values: dict[str, Any]) -> dict[str, Any]:
        wanted = self.parameters.attributes
        return {name: value for name, value in values.items() if wanted is None or name in wanted}

    def _check_attributes(self, source: str, found: list[Feature]) -> None:
        for name in sorted(set(self.parameters.attributes or ()) - {name for each in found for name in each.values}):
            raise Refused(
                f"source {source} has no column {printable(name)}, which the tiles are to have",
                hint="correct `attributes` of the job in kfm.yml",
            )

    def _check(self, body: bytes) -> None:
        most = self.parameters.tile_kib << 10
        for entry in Tiles(body).entries():
            if entry.length > most:
                zoom = place_of(entry.number)[0]
                raise Refused(
                    f"a tile at zoom {zoom} has {entry.length >> 10} KiB, more than {self.parameters.tile_kib}",
                    hint="raise min_zoom or tile_kib of the job in kfm.yml, or name fewer attributes",
                )


def library() -> Any:
    """Return pyogrio with its raw functions. Raise Unavailable if it is not installed or cannot write tiles."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import numpy as np  # noqa: F401
            import pyogrio
            import pyogrio.raw
    except ModuleNotFoundError as problem:
        raise Unavailable(
            "tiles need a library that is not installed", hint="pip install 'kansas-frontier-matrix[tiles]'"
        ) from problem
    if "w" not in pyogrio.list_drivers().get("PMTiles", ""):
        raise Unavailable("the GDAL of pyogrio cannot write PMTiles", hint="install a newer pyogrio")
    return pyogrio


def _drawn(features: list[Feature], said: TileSettings) -> bytes:
    pyogrio = library()
    import numpy as np

    names = sorted({name for each in features for name in each.values})
    columns = [_column(np, [each.values.get(name) for each in features]) for name in names]
    shapes = np.empty(len(features), dtype=object)
    shapes[:] = [each.geometry for each in features]
    into = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pyogrio.raw.write(
                into, shapes, [values for values, _ in columns], np.array(names, dtype=object),
                [mask for _, mask in columns], driver="PMTiles", geometry_type="Unknown", crs="EPSG:4326",
                layer=said.layer, NAME=said.layer, DESCRIPTION="", MINZOOM=said.min_zoom, MAXZOOM=said.max_zoom,
                MAX_SIZE=_NO_LIMIT, MAX_FEATURES=_NO_LIMIT,
            )  # fmt: skip
        body = into.getvalue()
        Tiles(body)
    except (RuntimeError, ValueError, OSError, NoTiles) as problem:
        raise Refused(
            f"the tiles cannot be drawn: {type(problem).__name__}", hint="check the geometries of the dataset"
        ) from None
    return body


def _column(np: Any, values: list[Any]) -> tuple[Any, Any]:
    """Return a column as GDAL takes it, and which of its values are missing."""
    given = [value for value in values if value is not None]
    if given and all(type(value) is str for value in given):
        if all(map(_INTEGER.fullmatch, given)):
            values = [None if value is None else int(value) for value in values]
        elif all(map(_NUMBER.fullmatch, given)):
            values = [None if value is None else float(value) for value in values]
        given = [value for value in values if value is not None]
    kinds = {type(value) for value in given}
    missing = np.array([value is None for value in values], dtype=bool)
    if kinds == {bool}:
        return np.array([bool(value) for value in values], dtype=bool), missing
    if kinds == {int} and all(-_WHOLE <= value <= _WHOLE for value in given):
        return np.array([value or 0 for value in values], dtype=np.int64), missing
    if kinds and kinds <= {int, float}:
        return np.array([value or 0.0 for value in values], dtype=np.float64), missing
    texts = np.empty(len(values), dtype=object)
    texts[:] = [None if value is None else _text(value) for value in values]
    return texts, None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value).decode()


def _shown_box(box: Box) -> list[float]:
    return [round(edge, 7) for edge in box]


def _metadata(tiles: Tiles) -> dict[str, Any]:
    """Return what a map must know about the tiles, with the members of TileJSON where it has them."""
    said = tiles.metadata()
    (layer,) = said["vector_layers"]
    (stats,) = said["tilestats"]["layers"]
    return {
        "format": "pmtiles",
        "name": said["name"],
        "scheme": "xyz",
        "minzoom": tiles.min_zoom,
        "maxzoom": tiles.max_zoom,
        "bounds": list(tiles.bounds),
        "features": stats["count"],
        "tiles": _count(tiles.entries()),
        "vector_layers": [
            {"id": layer["id"], "minzoom": tiles.min_zoom, "maxzoom": tiles.max_zoom, "fields": layer["fields"]}
        ],
    }


def _count(entries: Iterator[Any]) -> int:
    return sum(entry.run for entry in entries)
