"""Paths of the files that KFM writes for others: checkpoints and published outputs. Pure."""

from __future__ import annotations

import hashlib

from kfm.model.names import is_file_name
from kfm.model.records import ManifestEntry
from kfm.parsing.lazy_regex import pattern

_SAFE = pattern(r"[a-z0-9][a-z0-9._-]{0,79}\Z")
_SUFFIX = {
    "text/csv": ".csv",
    "application/json": ".json",
    "application/geo+json": ".geojson",
    "application/x-ndjson": ".ndjson",
    "text/plain": ".txt",
    "application/vnd.apache.parquet": ".parquet",
    "image/tiff": ".tif",
    "application/wmo-GRIB2": ".grib2",
    "application/netcdf": ".nc",
    "application/vnd.zarr+zip": ".zarr.zip",
    "application/geopackage+sqlite3": ".gpkg",
    "application/vnd.flatgeobuf": ".fgb",
    "application/vnd.shp+zip": ".shp.zip",
}


def checkpoint_path(size: int) -> str:
    """Return the path of the signed ledger head over `size` entries. It is public: it reveals nothing about the
    entries.
    """
    return f"ledger/checkpoints/{size:012d}"


def published_path(dataset: str, version: str, entry: ManifestEntry) -> str:
    """Return where an output is published. No input can choose a path, and no two keys share one: a file name ends in
    the suffix of its media type, a folder name has no dot, and a part that is not a plain name becomes an underscore
    and its digest.
    """
    *folders, name = entry.key
    suffix = _SUFFIX.get(entry.media_type.partition(";")[0].strip(), ".bin")
    parts = [part if "." not in part and _is_plain(part) else _hidden(part) for part in folders]
    parts.append((name if _is_plain(name) else _hidden(name)) + suffix)
    return f"{version_path(dataset, version)}/" + "/".join(parts)


def pointer_path(dataset: str) -> str:
    """Return the path of the file that names the current public version of a dataset."""
    return f"datasets/{dataset}/current.json"


def version_path(dataset: str, version: str) -> str:
    """Return the folder of a published version. Its manifest is next to it, under the same name with a suffix."""
    return f"datasets/{dataset}/versions/{version[7:23]}"


def list_path(dataset: str, version: str, seq: int) -> str:
    """Return the path of the signed list of a version, as of the `seq`th move of the published ref."""
    return f"{version_path(dataset, version)}.list-{seq}.json"


def _is_plain(part: str) -> bool:
    return _SAFE.match(part) is not None and is_file_name(part)


def _hidden(part: str) -> str:
    return "_" + hashlib.sha256(part.encode()).hexdigest()[:32]
