"""schema.org JSON-LD of the public pages: a Dataset with its downloads, and the DataCatalog of the front page. Pure.

Search engines for data read these. A page holds them as a block that no browser runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kfm.model.public_run import Places, PublicArtifact, PublicVersion
from kfm.projections.file_paths import version_path
from kfm.projections.pages.public_addresses import absolute, citation_path, page_address
from kfm.projections.stac import box_of
from kfm.projections.vocabulary import instant, interval, is_licence_id, licence_iri

CONTEXT = "https://schema.org/"
DOWNLOADS = 100  # files that are named one by one; the listing has all


class Downloadable(Protocol):
    """A file of the current version, as the page lists it."""

    @property
    def key(self) -> tuple[str, ...]: ...
    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def digest(self) -> str: ...


def dataset_jsonld(version: PublicVersion, files: Sequence[Downloadable], places: Places) -> dict[str, Any]:
    """Return the current version of a dataset as schema.org describes it. `files` are those that the page lists, with
    paths in the public folder."""
    metadata = version.metadata or version.made.metadata
    name, title = version.dataset, str(metadata.get("title") or version.dataset)
    page, catalog = page_address(places, name), absolute(places, "")
    licence = str(metadata.get("license") or "")
    source = str(metadata.get("attribution") or "")
    said = {
        "@context": CONTEXT,
        "@type": "Dataset",
        "@id": page,
        "url": page,
        "identifier": f"kfm://dataset/{name}@{version.digest}",
        "name": title,
        "description": str(metadata.get("description") or title),
        "version": version.digest[7:19],
        "datePublished": version.published_at,
        "dateModified": version.made.finished_at,
        "license": licence_iri(licence) if is_licence_id(licence) else licence if "://" in licence else "",
        "isAccessibleForFree": True,
        "publisher": organisation(places),
        "creator": {"@type": "Organization", "name": source} if source else organisation(places),
        "creditText": source,
        "citation": absolute(places, citation_path(name)),
        "includedInDataCatalog": {"@type": "DataCatalog", "name": places.title, **_with("url", catalog)},
        "spatialCoverage": _place(version),
        "temporalCoverage": _times(version),
        "variableMeasured": _variables(version.files or version.described),
        "distribution": [
            *(_download(each, places) for each in files[:DOWNLOADS]),
            _listing(f"{version_path(name, version.digest)}.ndjson", places),
        ],
    }
    return {key: value for key, value in said.items() if value not in ("", None, [])}


def catalog_jsonld(datasets: Sequence[tuple[str, str, str, str]], places: Places) -> dict[str, Any]:
    """Return the archive as a DataCatalog of its public datasets, each with name, title, description and the time of
    its publication."""
    said = {
        "@context": CONTEXT,
        "@type": "DataCatalog",
        "@id": absolute(places, ""),
        "url": absolute(places, ""),
        "name": places.title,
        "description": places.description,
        "publisher": organisation(places),
        "dataset": [
            {
                "@type": "Dataset",
                "name": title,
                "description": description or title,
                "url": page_address(places, name) or f"datasets/{name}/index.html",
                **_with("dateModified", published_at),
            }
            for name, title, description, published_at in datasets
        ],
    }
    return {key: value for key, value in said.items() if value not in ("", [])}


def organisation(places: Places) -> dict[str, Any]:
    """Return who publishes the archive."""
    contact = {}
    if places.contact:
        way = {"url": places.contact} if "://" in places.contact else {"email": places.contact}
        contact = {"contactPoint": {"@type": "ContactPoint", "contactType": "data", **way}}
    return {"@type": "Organization", "name": places.publisher, **_with("url", places.home), **contact}


def _with(key: str, value: str) -> dict[str, str]:
    return {key: value} if value else {}


def _download(each: Downloadable, places: Places) -> dict[str, Any]:
    return {
        "@type": "DataDownload",
        "name": " / ".join(each.key),
        "contentUrl": absolute(places, each.path) or f"../../{each.path}",
        "contentSize": f"{each.size} B",
        "encodingFormat": _format(each.path),
        "sha256": each.digest[7:],
    }


def _listing(path: str, places: Places) -> dict[str, Any]:
    return {
        "@type": "DataDownload",
        "name": "every file of this version, with its digest",
        "contentUrl": absolute(places, path) or f"../../{path}",
        "encodingFormat": "application/x-ndjson",
    }


_FORMATS = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".geojson": "application/geo+json",
    ".ndjson": "application/x-ndjson",
    ".txt": "text/plain",
    ".parquet": "application/vnd.apache.parquet",
    ".tif": "image/tiff",
    ".nc": "application/netcdf",
    ".pmtiles": "application/vnd.pmtiles",
}


def _format(path: str) -> str:
    return next((kind for suffix, kind in _FORMATS.items() if path.endswith(suffix)), "application/octet-stream")


def _place(version: PublicVersion) -> dict[str, Any] | None:
    """Return the extent of the dataset; of masked data it is that of the cells."""
    box = tuple(box_of(version))
    if len(box) != 4:
        return None
    west, south, east, north = box
    return {"@type": "Place", "geo": {"@type": "GeoShape", "box": f"{south:g} {west:g} {north:g} {east:g}"}}


def _times(version: PublicVersion) -> str:
    start, end = interval(version.metadata or version.made.metadata)
    if start is None and end is None:
        start, end = (instant(text) for text in version.interval)
    return f"{start or '..'}/{end or '..'}" if start or end else ""


def _variables(files: Sequence[PublicArtifact]) -> list[dict[str, Any]]:
    units: dict[str, str] = {}
    for each in files:
        for name in each.columns:
            units.setdefault(name, "")
        for one in (*each.table, *each.bands):
            units.setdefault(one.name, one.units)
    return [{"@type": "PropertyValue", "name": name, **_with("unitText", unit)} for name, unit in units.items()]
