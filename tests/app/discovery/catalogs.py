"""Catalogs of others on loopback: a STAC static catalog that pystac writes, a small STAC API, DCAT, and listings; and
servers that lie."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Answer = tuple[int, str, bytes]  # status, media type, body
WELLS = b"api,county\n15-187-21211,Stanton\n"


class Site:
    """A web server: what it answers by path (with the query), every request kept."""

    def __init__(self) -> None:
        self.files: dict[str, Answer] = {}
        self.other: Callable[[str], Answer | None] = lambda _path: None
        self.asked: list[str] = []
        self.url = ""

    def put(self, path: str, value: Any, media_type: str = "application/json", status: int = 200) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.files[path] = (status, media_type, body)

    def answer(self, path: str) -> Answer:
        self.asked.append(path)
        return self.files.get(path) or self.other(path) or (404, "text/plain", b"no")


@contextmanager
def site() -> Iterator[Site]:
    found = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, media_type, body = found.answer(self.path)
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", body.decode())
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


def collection(name: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "Collection",
        "stac_version": "1.1.0",
        "id": name,
        "title": name.replace("-", " ").capitalize(),
        "description": f"All of {name}",
        "license": "CC0-1.0",
        "providers": [{"name": "Kansas Geological Survey"}],
        "extent": {
            "spatial": {"bbox": [[-102.1, 36.9, -94.5, 40.1]]},
            "temporal": {"interval": [["2020-01-01T00:00:00Z", None]]},
        },
        "links": [],
        **more,
    }


def item(name: str, href: str, of: str | None = None, **asset: Any) -> dict[str, Any]:
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "id": name,
        **({"collection": of} if of else {}),
        "geometry": None,
        "properties": {"datetime": "2024-01-01T00:00:00Z", "title": f"Item {name}"},
        "assets": {"data": {"href": href, "type": "text/csv", "roles": ["data"], **asset}},
        "links": [],
    }


def static_catalog(folder: Path, names: tuple[str, ...] = ("wells-2023", "wells-2024")) -> None:
    """As pystac writes one: a catalog, a collection, its items, and the files next to them."""
    from datetime import UTC, datetime

    import pystac

    extent = pystac.Extent(
        pystac.SpatialExtent([[-102.1, 36.9, -94.5, 40.1]]),
        pystac.TemporalExtent([[datetime(2020, 1, 1, tzinfo=UTC), None]]),
    )
    root = pystac.Catalog("survey", "What the survey has", title="Survey")
    wells = pystac.Collection("wells", "Wells by year", extent, title="Wells of Kansas", license="CC0-1.0")
    root.add_child(wells)
    for name in names:
        found = pystac.Item(name, None, None, datetime(2024, 1, 1, tzinfo=UTC), {})
        found.add_asset("data", pystac.Asset(f"./{name}.csv", media_type="text/csv", roles=["data"]))
        found.add_asset("picture", pystac.Asset("./thumbnail.png", media_type="image/png", roles=["thumbnail"]))
        wells.add_item(found)
    root.normalize_and_save(str(folder), pystac.CatalogType.SELF_CONTAINED)
    for name in names:
        (folder / "wells" / name / f"{name}.csv").write_bytes(WELLS)


def api(web: Site, items: dict[str, list[dict[str, Any]]], size: int = 2) -> None:
    """A STAC API: landing page, collections, and items a page at a time."""
    core = ["https://api.stacspec.org/v1.0.0/core", "https://api.stacspec.org/v1.0.0/ogcapi-features"]
    web.put(
        "/stac",
        {
            "type": "Catalog",
            "stac_version": "1.1.0",
            "id": "api",
            "description": "An API",
            "conformsTo": core,
            "links": [{"rel": "data", "href": f"{web.url}/stac/collections"}],
        },
    )
    listed = []
    for name, found in items.items():
        here = f"/stac/collections/{name}/items"
        listed.append(collection(name, links=[{"rel": "items", "href": f"{web.url}{here}"}]))
        pages = [found[n : n + size] for n in range(0, len(found), size)] or [[]]
        for number, page in enumerate(pages):
            path = here if not number else f"{here}?token={number}"
            after = [{"rel": "next", "href": f"{web.url}{here}?token={number + 1}"}] if number + 1 < len(pages) else []
            web.put(
                path,
                {"type": "FeatureCollection", "features": page, "links": after, "numberMatched": len(found)},
                "application/geo+json",
            )
    web.put("/stac/collections", {"collections": listed, "links": []})


def dcat(url: str) -> dict[str, Any]:
    """As JSON-LD with prefixes and a graph: a distribution that is only named, and checksums."""
    return {
        "@context": {"dcat": "http://www.w3.org/ns/dcat#", "dct": "http://purl.org/dc/terms/"},
        "@graph": [
            {"@id": "#c", "@type": "dcat:Catalog", "dct:title": "Survey", "dcat:dataset": [{"@id": "#wells"}]},
            {
                "@id": "#wells",
                "@type": "dcat:Dataset",
                "dct:title": {"@language": "en", "@value": "Wells of Kansas"},
                "dct:description": "By year",
                "dct:license": {"@id": "https://creativecommons.org/publicdomain/zero/1.0/"},
                "dct:publisher": {"@id": "#kgs"},
                "dcat:distribution": [{"@id": "#d1"}],
            },
            {"@id": "#kgs", "@type": "foaf:Agent", "foaf:name": "Kansas Geological Survey"},
            {
                "@id": "#d1",
                "@type": "dcat:Distribution",
                "dct:title": "Wells 2024",
                "dcat:downloadURL": {"@id": f"{url}/files/wells-2024.csv"},
                "dcat:mediaType": {"@id": "https://www.iana.org/assignments/media-types/text/csv"},
                "dcat:byteSize": {"@value": "32"},
                "spdx:checksum": {
                    "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
                    "spdx:checksumValue": "AB" * 32,
                },
            },
        ],
    }


APACHE = b"""<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN"><html><head><title>Index of /files</title></head>
<body><h1>Index of /files</h1><pre><a href="?C=N;O=D">Name</a> <a href="?C=M;O=A">Last modified</a><hr>
<a href="/">Parent Directory</a>
<a href="wells-2023.csv">wells-2023.csv</a> 2024-01-01 10:00  12K
<a href="wells-2024.csv">wells-2024.csv</a> 2024-01-01 10:00  12K
<a href="maps/">maps/</a> 2024-01-01 10:00 -
<a href="../secret.csv">aside</a> <a href="%2e%2e/up.csv">up</a> <a href="a%2Fb.csv">b</a>
<a href="http://elsewhere.example/x.csv">x</a> <a href="javascript:alert(1)">y</a> <a href="file:///etc/passwd">z</a>
<a href=".htaccess">hidden</a> <a href="//other.example/w.csv">w</a>
</pre></body></html>"""
NGINX = b"""<html><head><title>Index of /files/maps/</title></head><body><h1>Index of /files/maps/</h1><hr><pre>
<a href="../">../</a>
<a href="kansas.tif">kansas.tif</a>   01-Jan-2024 10:00   99
</pre></body></html>"""
