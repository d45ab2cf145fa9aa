"""The map of the page of a dataset that can be moved. The page itself has a picture of it, which stays what readers see
without script or without WebGL."""

from __future__ import annotations

from html import escape

from kfm.api.console.frame import PAGE_POLICY
from kfm.api.console.static_files import address_of
from kfm.projections.pages.page_style import POLICY

_FIGURE = b'<h2 id="map">Map</h2><figure>'


def with_live_map(page: bytes, dataset: str) -> bytes:
    """Return the page of a dataset with the module that draws its map; the page itself if it has no map."""
    if _FIGURE not in page:
        return page
    said = {
        "map": f"/v1/datasets/{dataset}/map",
        "library": address_of("maplibre-gl.js"),
        "worker": address_of("maplibre-gl-worker.js"),
        "style": address_of("maplibre-gl.css"),
        "reader": address_of("pmtiles.js"),
    }
    told = "".join(f' data-{name}="{escape(value)}"' for name, value in said.items())
    head = f'<link rel="stylesheet" href="{address_of("map.css")}">'
    head += f'<script type="module" src="{address_of("map.js")}"></script></head>'
    page = page.replace(_FIGURE, f'<h2 id="map">Map</h2><figure id="live-map"{told}>'.encode(), 1)
    return page.replace(POLICY.encode(), PAGE_POLICY.encode(), 1).replace(b"</head>", head.encode(), 1)
