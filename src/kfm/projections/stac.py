"""STAC 1.1: a catalog, a collection per dataset, an item per artifact. Pure.

An item depends on its artifact and the run that made it only. A version that kept an artifact therefore has the same
item as the version before, and it is not written again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from kfm.model.canonical import canonical, is_plain
from kfm.model.names import is_digest
from kfm.model.public_run import Places, PublicArtifact, PublicColumn, PublicInput, PublicRun, PublicVersion
from kfm.projections.file_paths import PAGE, page_paths, receipt_path
from kfm.projections.stac_governance import governance
from kfm.projections.vocabulary import (
    GOVERNANCE,
    address,
    end_of_day,
    file_name,
    instant,
    interval,
    is_licence_id,
    item_id,
    licence_iri,
    multihash,
    name_of,
    quoted,
)

VERSION = "1.1.0"
_EXTENSIONS = "https://stac-extensions.github.io/"
PROCESSING = _EXTENSIONS + "processing/v1.2.0/schema.json"
FILE = _EXTENSIONS + "file/v2.1.0/schema.json"
VERSIONS = _EXTENSIONS + "version/v1.2.0/schema.json"
TABLE = _EXTENSIONS + "table/v1.2.0/schema.json"
TIMESTAMPS = _EXTENSIONS + "timestamps/v1.1.0/schema.json"
_JSON, _GEOJSON = "application/json", "application/geo+json"
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
ROOT = "catalog.json"
GROUPED = 1024  # a collection of more items links to groups of them
LEAST_OF_GROUP, MOST_OF_GROUP = 128, 1024
RUNS = "runs/index.json"  # of a dataset: the runs that made it


def collection_path(dataset: str) -> str:
    return f"{dataset}/collection.json"


def version_path(dataset: str, digest: str) -> str:
    """Return the path of a superseded version that is still public."""
    return f"{dataset}/versions/{digest[7:23]}.json"


def item_path(dataset: str, key: tuple[str, ...]) -> str:
    return f"{dataset}/items/{file_name(key)}.json"


def group_path(dataset: str, last: tuple[str, ...]) -> str:
    """Return the path of a group of items, by the last key of the group."""
    return f"{dataset}/groups/{hashlib.sha256(canonical(list(last))).hexdigest()[:16]}.json"


def groups_of(keys: Iterable[tuple[str, ...]]) -> Iterator[list[tuple[str, ...]]]:
    """Yield sorted keys in groups. Only the keys decide where a group ends, so another value moves no end, and a key
    that is added or removed changes few groups."""
    held: list[tuple[str, ...]] = []
    for key in keys:
        held.append(key)
        ends = len(held) >= LEAST_OF_GROUP and hashlib.sha256(canonical(list(key))).digest()[0] == 0
        if ends or len(held) >= MOST_OF_GROUP:
            yield held
            held = []
    if held:
        yield held


def group(dataset: str, keys: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """Return a group of items of a large dataset as a catalog. It depends on the keys alone."""
    return {
        "type": "Catalog",
        "stac_version": VERSION,
        "id": f"{dataset}-{group_path(dataset, keys[-1]).rpartition('/')[2].removesuffix('.json')}",
        "description": f"{len(keys)} items of {dataset}",
        "links": [
            _link("root", f"../../{ROOT}", _JSON),
            _link("parent", "../collection.json", _JSON),
            *(_link("item", f"../items/{file_name(key)}.json", _GEOJSON) for key in keys),
        ],
    }


def catalog(datasets: Iterable[tuple[str, str]], places: Places) -> dict[str, Any]:
    """Return the root catalog, given name and title of each published dataset."""
    children = [
        _link("child", f"./{collection_path(name)}", _JSON, title=title or name) for name, title in sorted(datasets)
    ]
    return {
        "type": "Catalog",
        "stac_version": VERSION,
        "id": places.namespace,
        "title": places.title,
        "description": places.description,
        "links": [
            _link("root", f"./{ROOT}", _JSON),
            _link("alternate", "./catalog.jsonld", "application/ld+json"),
            *_page(PAGE, "./", places),
            *children,
        ],
    }


def collection(version: PublicVersion, keys: Sequence[tuple[str, ...]], places: Places) -> dict[str, Any]:
    """Return a version of a dataset as a collection that links to the item of each key, or to groups of them if there
    are many. A superseded version has no such links.
    """
    name, run, metadata = version.dataset, version.made, version.metadata or version.made.metadata
    current = version.latest in ("", version.digest)
    up = "../" if current else "../../"
    stamps = _stamps(version)
    said = governance(run.labels)
    table = _table(version.files or version.described)
    extensions = [FILE, PROCESSING, VERSIONS, *([TIMESTAMPS] if stamps else []), *([GOVERNANCE] if said else [])]
    extensions += [TABLE] if table else []
    licence, licence_link = _licence(metadata)
    return {
        "type": "Collection",
        "stac_version": VERSION,
        "stac_extensions": extensions,
        "id": name if current else f"{name}-{version.digest[7:23]}",
        "title": metadata.get("title") or name,
        "description": metadata.get("description") or metadata.get("title") or name,
        "license": licence,
        "extent": _extent(version),
        "providers": _providers(run, metadata, places),
        "version": version.digest,
        **({} if current else {"deprecated": True}),
        **stamps,
        **said,
        **table,
        "kfm:dataset": f"kfm://dataset/{name}",
        "kfm:run_id": run.run_id,
        **({"kfm:published_by": version.published_by} if version.published_by else {}),
        "assets": _manifest_asset(version, up, places),
        "links": [
            _link("root", f"{up}{ROOT}", _JSON),
            _link("parent", f"{up}{ROOT}", _JSON),
            *_version_links(version, current),
            *_proofs(run, up, places),
            *([_link("history", f"./{RUNS}", _JSON)] if current and not places.receipts else []),
            *(_page(page_paths(name)[0], up, places) if current else ()),
            *licence_link,
            *(_source_link(each) for each in run.used()),
            *(_item_links(name, keys) if current else ()),
        ],
    }


def _item_links(dataset: str, keys: Sequence[tuple[str, ...]]) -> Iterator[dict[str, Any]]:
    if len(keys) <= GROUPED:
        yield from (_link("item", f"./items/{file_name(key)}.json", _GEOJSON) for key in keys)
        return
    for each in groups_of(keys):
        yield _link("child", f"./{group_path(dataset, each[-1]).partition('/')[2]}", _JSON)


def _page(path: str, up: str, places: Places) -> Iterator[dict[str, Any]]:
    """Yield the link to a page of the public folder, if it has pages."""
    if places.pages and not places.public.startswith("kfm:"):
        above = "" if "://" in places.public else up
        yield _link("alternate", f"{above}{places.public}/{path}", "text/html")


def item(artifact: PublicArtifact, made: PublicRun, places: Places) -> dict[str, Any]:
    """Return the item of one artifact that this run made."""
    said = governance(made.labels)
    expires = end_of_day(made.labels.expires) if made.labels else None
    table = _table((artifact,))
    extensions = [FILE, PROCESSING, VERSIONS, *([TIMESTAMPS] if expires else []), *([GOVERNANCE] if said else [])]
    extensions += [TABLE] if table else []
    box = list(artifact.bbox)
    return {
        "type": "Feature",
        "stac_version": VERSION,
        "stac_extensions": extensions,
        "id": artifact.stac_id or item_id(artifact.key),
        "collection": name_of(made.dataset),
        "geometry": around(artifact.bbox) if box else None,
        **({"bbox": box} if box else {}),
        "properties": {
            **_when(artifact, made),
            "created": made.finished_at,
            "version": made.version,
            **_processing(made),
            **({"expires": expires} if expires else {}),
            **said,
            **table,
            "kfm:id": artifact.id,
            "kfm:run_id": made.run_id,
        },
        "assets": {"data": _data_asset(artifact, name_of(made.dataset), places)},
        "links": [
            _link("root", f"../../{ROOT}", _JSON),
            _link("parent", "../collection.json", _JSON),
            _link("collection", "../collection.json", _JSON),
            *_proofs(made, "../../", places),
            *(_source_link(each) for each in made.used()),
        ],
    }


class Items:
    """Writes the items of one run as bytes; their common parts are computed once."""

    def __init__(self, made: PublicRun, places: Places) -> None:
        nothing = PublicArtifact(id="", key=(), digest="", size=0, media_type="", path="")
        self._made = made
        self._places = places
        self._name = name_of(made.dataset)
        common = item(nothing, made, places)
        self._properties = {
            name: value
            for name, value in common["properties"].items()
            if name not in ("datetime", "start_datetime", "end_datetime", "kfm:id")
        }
        self._plain = is_plain(self._properties)
        links, extensions = (msgspec.Raw(canonical(common[name])) for name in ("links", "stac_extensions"))
        self._common = {**common, "links": links, "stac_extensions": extensions}
        self._common.pop("bbox", None)

    def item_bytes(self, artifact: PublicArtifact) -> bytes:
        """Return the item of an artifact as bytes: the canonical JSON of `item`, built faster."""
        if artifact.columns or artifact.table or artifact.geometry or artifact.bands:
            return canonical(item(artifact, self._made, self._places))
        box = artifact.bbox
        said = {
            **self._common,
            "id": artifact.stac_id or item_id(artifact.key),
            "geometry": msgspec.Raw(canonical(around(box))) if box else None,
            **({"bbox": msgspec.Raw(canonical(list(box)))} if box else {}),
            "properties": {**self._properties, **_when(artifact, self._made), "kfm:id": artifact.id},
            "assets": {"data": _data_asset(artifact, self._name, self._places)},
        }
        if self._plain:
            body = _encode_sorted(said)
            if body.isascii():
                return body
        return canonical(item(artifact, self._made, self._places))


def moved(run: PublicRun) -> dict[str, Any]:
    """Return a run that moved a ref without making a version (promotion, rollback, withdrawal) as a catalog without
    children. The history of the versions holds one per such run.
    """
    name = name_of(run.dataset)
    return {
        "type": "Catalog",
        "stac_version": VERSION,
        "stac_extensions": [FILE, VERSIONS],
        "id": f"{name}-{run.run_id}",
        "description": f"{run.op} of {name}",
        "version": run.version or "withdrawn",
        "kfm:ref": f"kfm://ref/{run.ref}",
        "kfm:run_id": run.run_id,
        "links": [_link("root", f"../../{ROOT}", _JSON), *(_source_link(each) for each in run.used())],
    }


def around(box: tuple[float, ...]) -> dict[str, Any]:
    """Return the outline of a bounding box, cut at the antimeridian as RFC 7946 requires."""
    west, south, east, north = box if len(box) == 4 else (box[0], box[1], box[3], box[4])
    if west > east:
        return {
            "type": "MultiPolygon",
            "coordinates": [[_ring(west, south, 180.0, north)], [_ring(-180.0, south, east, north)]],
        }
    return {"type": "Polygon", "coordinates": [_ring(west, south, east, north)]}


def _ring(west: float, south: float, east: float, north: float) -> list[list[float]]:
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def _when(artifact: PublicArtifact, made: PublicRun) -> dict[str, str | None]:
    """Return the time of an artifact, or else the interval that the dataset declares. An open end becomes the time it
    was made, because STAC requires both ends.
    """
    start, slash, end = artifact.datetime.partition("/")
    if artifact.datetime and not slash:
        return {"datetime": instant(start)}
    first, last = (instant(start), instant(end)) if slash else interval(made.metadata)
    if first is None and last is None:
        return {"datetime": made.finished_at}
    first, last = first or last, last or max(first or "", made.finished_at)
    return {"datetime": None, "start_datetime": first, "end_datetime": last}


def _processing(run: PublicRun) -> dict[str, Any]:
    return {
        "processing:datetime": run.finished_at,
        "processing:software": {run.updater_id: run.updater_version},
        "processing:lineage": f"{run.op} by {run.updater_id} {run.updater_version}"
        + (f", plan {run.plan_hash}" if run.plan_hash else ""),
    }


def _data_asset(artifact: PublicArtifact, name: str, places: Places) -> dict[str, Any]:
    href = f"{places.public}/datasets/{name}/{artifact.path}" if artifact.path else artifact.id
    return {
        "href": href if "://" in href else f"../../{href}",
        "type": artifact.media_type,
        "roles": ["data"],
        "file:checksum": multihash(artifact.digest),
        "file:size": artifact.size,
        **({"bands": [_band(one) for one in artifact.bands]} if artifact.bands else {}),
    }


_TYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)) - {"float8"}


def _band(one: PublicColumn) -> dict[str, str]:
    kind = {"data_type": one.type if one.type in _TYPES else "other"} if one.type else {}
    return {"name": one.name, **kind, **({"unit": one.units} if one.units else {})}


def _table(files: Iterable[PublicArtifact]) -> dict[str, Any]:
    """Return columns and row count of tables in the terms of the table extension; {} if nothing was read. The count is
    left out where one of the files has none."""
    files = list(files)
    columns: dict[str, dict[str, str]] = {name: {} for each in files for name in each.columns}
    for one in (column for each in files for column in each.table):
        said = {"type": one.type, "unit": one.units}
        columns.setdefault(one.name, {name: value for name, value in said.items() if value})
    kinds = dict.fromkeys(each.geometry for each in files if each.geometry)
    if kinds:
        columns.setdefault("geometry", {"type": ", ".join(kinds)})
    if not columns:
        return {}
    counts = [each.rows for each in files if each.rows is not None]
    rows = {"table:row_count": sum(counts)} if len(counts) == len(files) else {}
    primary = {"table:primary_geometry": "geometry"} if kinds else {}
    return {"table:columns": [{"name": name, **said} for name, said in columns.items()], **rows, **primary}


def _manifest_asset(version: PublicVersion, up: str, places: Places) -> dict[str, Any]:
    """Return the listing of all files of the version, with their digests, as an asset."""
    if not version.listing:
        return {}
    href = f"{places.public}/datasets/{version.dataset}/versions/{version.digest[7:23]}.ndjson"
    return {
        "manifest": {
            "href": href if "://" in href else up + href,
            "type": "application/x-ndjson",
            "roles": ["metadata"],
            "title": "every file of this version, with its digest",
            "file:checksum": multihash(version.listing),
            "file:size": version.listing_size,
        }
    }


def _source_link(each: PublicInput) -> dict[str, Any]:
    """Return a link to an input: data of this installation, or the outside address it came from."""
    rel = "via" if each.kind in ("uri", "file") else "derived_from"
    size = {"file:size": each.size} if each.size is not None else {}
    media = {"type": each.media_type} if each.media_type else {}
    checksum = {"file:checksum": multihash(each.checksum)} if is_digest(each.checksum) else {}
    return {
        "rel": rel,
        "href": address(each),
        **media,
        **checksum,
        **size,
        "kfm:id": each.id,
        **({} if checksum else {"kfm:checksum": each.checksum}),  # a ref without a version, or a freeze flag
    }


def _proofs(run: PublicRun, up: str, places: Places) -> list[dict[str, Any]]:
    """Return links to the receipt of the run: in the folder of exported receipts, or else to its proof in the catalog,
    with its PROV and OpenLineage files.
    """
    if run.dry_run:
        return []
    if not places.receipts:
        about = f"{up}{name_of(run.dataset)}/runs/{run.run_id}"
        proof = _link(
            "receipt", f"{about}.proof.json", _JSON, title="its receipt, attestations and place in the ledger"
        )
        return [
            {**proof, "kfm:receipt": run.receipt_digest, "kfm:ledger_index": run.index},
            _link("provenance", f"{about}.prov.json", _JSON, title="how it was made, as PROV-JSON"),
            _link("lineage", f"{about}.openlineage.json", _JSON, title="how it was made, as OpenLineage events"),
        ]
    path = f"{places.receipts}/{receipt_path(run)}"
    link = _link("receipt", path if "://" in path else up + path, _JSON, title="receipt of the run that made it")
    return [{**link, "file:checksum": multihash(run.receipt_digest), "kfm:ledger_index": run.index}]


def _version_links(version: PublicVersion, current: bool) -> list[dict[str, Any]]:
    here, name = ("./versions/" if current else "./"), version.dataset
    newest = version.latest or version.digest

    def place(digest: str) -> str:
        if digest == newest:
            return "./collection.json" if current else "../collection.json"
        return f"{here}{version_path(name, digest).rpartition('/')[2]}"

    said = [("predecessor-version", version.previous), ("successor-version", version.next), ("latest-version", newest)]
    # The latest version is not named by its digest: each new version would otherwise change all documents before it.
    titles = {"latest-version": "the version that is current"}
    return [_link(rel, place(digest), _JSON, title=titles.get(rel, digest)) for rel, digest in said if digest]


def _stamps(version: PublicVersion) -> dict[str, str]:
    labels = version.made.labels
    expires = end_of_day(labels.expires) if labels else None
    return {
        **({"published": version.published_at} if version.published_at else {}),
        **({"expires": expires} if expires else {}),
    }


def box_of(version: PublicVersion) -> tuple[float, ...]:
    """Return the box that a version lies in: the declared one, or that of its outputs. Masked data always has the box
    of its cells, because a declared one does not follow them."""
    declared = tuple(((version.metadata or version.made.metadata).get("extent") or {}).get("bbox") or ())
    return (version.bbox or declared) if version.files else (declared or version.bbox)


def _extent(version: PublicVersion) -> dict[str, Any]:
    metadata = version.metadata or version.made.metadata
    box = list(box_of(version)) or [-180, -90, 180, 90]
    start, end = interval(metadata)
    if start is None and end is None:
        start, end = (instant(text) for text in version.interval)
    return {"spatial": {"bbox": [box]}, "temporal": {"interval": [[start, end]]}}


def _providers(run: PublicRun, metadata: dict[str, Any], places: Places) -> list[dict[str, Any]]:
    source = metadata.get("attribution")
    first = [{"name": source, "roles": ["producer"]}] if source else []
    home = {"url": places.home} if places.home else {}
    return [*first, {"name": places.publisher, "roles": ["processor", "host"], **home, **_processing(run)}]


def _licence(metadata: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return an SPDX id as it is; for any other licence return `other` and a link, as STAC requires."""
    said = str(metadata.get("license") or "")
    if is_licence_id(said):
        return said, []
    if text := str(metadata.get("license_text") or ""):  # a custom licence: the link holds its text
        href = f"data:text/plain;charset=utf-8,{quoted(text, '')}"
        return "other", [_link("license", href, "text/plain", title=said)]
    return "other", [_link("license", licence_iri(said), "text/html", title=said)] if said else []


def _link(rel: str, href: str, media_type: str, title: str = "") -> dict[str, Any]:
    return {"rel": rel, "href": href, "type": media_type, **({"title": title} if title else {})}
