"""Paths of the files that KFM writes for others: receipts, checkpoints and published outputs. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from kfm.model.names import is_file_name
from kfm.model.records import DatasetVersion, ManifestEntry, Receipt
from kfm.parsing.lazy_regex import pattern

if TYPE_CHECKING:
    from kfm.model.public_run import PublicRun

# The names of keys of one version that differ only in case, in small letters, each with the names above it. None: the
# version is from before names kept their case.
Twins = frozenset[tuple[str, ...]] | None
KEEPS_CASE = "names_keep_case"  # in the validation of a version: its published names keep their case
PAGE, EXPLANATION = "index.html", "explanation.html"  # pages for people
VERSIONED = ("current.json", "versions", "files", "parts")  # what a published version has in the folder of its dataset
_SAFE = pattern(r"[a-z0-9][a-z0-9._-]{0,79}\Z")
_CAPITAL = pattern(r"[A-Z]")
_CASED = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")
SUFFIXES = {
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
    "application/vnd.pmtiles": ".pmtiles",
    # With its parameters: other Markdown was published as .bin, and keeps its name.
    "text/markdown; charset=utf-8; variant=CommonMark": ".md",
}


def receipt_path(run: Receipt | PublicRun) -> str:
    """Return the path of the receipt of a run. It uses the logical start of the run, so a resume after midnight finds
    the same path.
    """
    year, month, day = run.started_at[:10].split("-")
    return f"receipts/{run.job_type}/{year}/{month}/{day}/{run.run_id}.json"


def checkpoint_path(size: int) -> str:
    """Return the path of the signed ledger head over `size` entries. It is public: it reveals nothing about the
    entries.
    """
    return f"ledger/checkpoints/{size:012d}"


def published_path(dataset: str, version: str, entry: ManifestEntry, twins: Twins) -> str:
    """Return where an output is published in the folder of its version. No input can choose a path, and no two keys
    share one, even on a file system that ignores case: a file name ends in the suffix of its media type, a folder name
    has no dot, a part that is not a plain name becomes an underscore and its digest, and parts that differ only in case
    are followed by a tilde and their digest.
    """
    parts = _names(entry.key, keeps_case=twins is not None)
    if twins:
        folded = tuple(map(str.lower, parts))
        parts = [
            f"{part}~{_hidden(part)[1:17]}" if folded[: at + 1] in twins else part for at, part in enumerate(parts)
        ]
    return f"{version_path(dataset, version)}/" + "/".join(parts) + _suffix(entry)


def shared_path(dataset: str, entry: ManifestEntry) -> str:
    """Return where an output is published that several versions share. The digest in its name makes the content at
    this address the same for ever, and tells apart keys that differ only in case."""
    names = "/".join(_names(entry.key, keeps_case=True))
    return f"{shared_folder(dataset)}/{names}.{entry.digest[7:23]}{_suffix(entry)}"


def shared_folder(dataset: str) -> str:
    """Return the folder of the files that versions of a dataset share."""
    return f"datasets/{dataset}/files"


def part_folder(dataset: str) -> str:
    """Return the folder of the parts of manifests, which versions of a dataset share."""
    return f"datasets/{dataset}/parts"


def part_path(dataset: str, digest: str) -> str:
    """Return where a part of a manifest is published."""
    return f"{part_folder(dataset)}/{digest[7:23]}.ndjson"


def _suffix(entry: ManifestEntry) -> str:
    known = SUFFIXES.get(entry.media_type)
    return known or SUFFIXES.get(entry.media_type.partition(";")[0].strip(), ".bin")


def keeps_case(version: DatasetVersion | None) -> bool:
    """Return whether the published names of a version keep their case: not those of versions from before they did."""
    return version is not None and KEEPS_CASE in version.validation


def case_twins(keys: Iterable[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
    """Return the names that differ only in case among these keys."""
    spelled: dict[tuple[str, ...], str] = {}
    found = set()
    for key in keys:
        names = _names(key, keeps_case=True)
        folded = tuple(map(str.lower, names))
        for end, name in enumerate(names, 1):
            if spelled.setdefault(folded[:end], name) != name:
                found.add(folded[:end])
    return frozenset(found)


def has_capitals(key: tuple[str, ...]) -> bool:
    """Return whether a part of a key has a capital letter of ASCII: its published name may differ only in case."""
    return any(_CAPITAL.search(part) for part in key)


def pointer_path(dataset: str) -> str:
    """Return the path of the file that names the current public version of a dataset."""
    return f"datasets/{dataset}/current.json"


def version_path(dataset: str, version: str) -> str:
    """Return the folder of a published version. Its manifest is next to it, under the same name with a suffix."""
    return f"datasets/{dataset}/versions/{version[7:23]}"


def list_path(dataset: str, version: str, seq: int) -> str:
    """Return the path of the signed list of a version, as of the `seq`th move of the published ref."""
    return f"{version_path(dataset, version)}.list-{seq}.json"


def _names(key: tuple[str, ...], *, keeps_case: bool) -> list[str]:
    return [_name(part, at == len(key), keeps_case) for at, part in enumerate(key, 1)]


@lru_cache(maxsize=4096)
def _name(part: str, is_last: bool, keeps_case: bool) -> str:
    plain = (_CASED if keeps_case else _SAFE).match(part) is not None and is_file_name(part)
    return part if plain and (is_last or "." not in part) else _hidden(part)


def page_paths(dataset: str) -> tuple[str, str]:
    """Return the paths of a dataset's page and of its explanation, below the public folder."""
    return f"datasets/{dataset}/{PAGE}", f"datasets/{dataset}/{EXPLANATION}"


def is_page(path: str) -> bool:
    """Return whether a path below the public folder is that of a page."""
    return path == PAGE or (path.count("/") == 2 and path in page_paths(path.split("/")[1]))


def _hidden(part: str) -> str:
    return "_" + hashlib.sha256(part.encode()).hexdigest()[:32]
