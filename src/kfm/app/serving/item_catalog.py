"""The STAC items and collections that are served, over an index that finds items by place and time.

The index follows the published refs and can be rebuilt at any time. It finds; what may be shown is decided at each
request: a search names the datasets and versions that the serve gate allows, and sees no other row.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.app.metadata.archive_places import archive_places
from kfm.app.session.datasets import public_retention
from kfm.delivery.catalog_content import Cataloguing
from kfm.model.search.item_query import IndexedItem, indexed_item
from kfm.projections import dcat, stac
from kfm.store.search.item_index import ItemIndex

if TYPE_CHECKING:
    from kfm.app.serving.shelf import Shelf, ShownDataset
    from kfm.app.session.session import Session

DCAT_PATH, DCAT_TYPE = dcat.PATH, dcat.MEDIA_TYPE
BASE = "kfm://server"  # in stored documents, in place of the address of the server
QUERYABLES = "http://www.opengis.net/def/rel/ogc/1.0/queryables"
_OWN = frozenset({"root", "parent", "collection", "self", "item", "child", "items", "data"})
_JSON, _GEOJSON = "application/json", "application/geo+json"


class ItemCatalog:
    """Items and collections of the datasets that may be shown. One process has one; its threads share it."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        self._path = path
        self.index = ItemIndex(path)
        self._following = threading.Lock()

    def close(self) -> None:
        self.index.close()

    def allowed(self, session: Session, shelf: Shelf) -> dict[str, str]:
        """Return the datasets that may be searched, each with the mark of its version. What the index lacks of them is
        put into it first."""
        shown = {one.dataset: one for one in shelf.all()}
        known = self.index.versions()
        if any(known.get(name) != one.mark for name, one in shown.items()):
            with self._following:
                known = self.index.versions()
                for name, one in shown.items():
                    if known.get(name) != one.mark:
                        self.index.replace(name, one.mark, _items(session, one))
        return {name: one.mark for name, one in shown.items()}


def collection(session: Session, shown: ShownDataset) -> dict[str, Any]:
    """Return the collection of a dataset's current version."""
    _, body = next(iter(_catalogued(session, shown).versions()))
    found: dict[str, Any] = msgspec.json.decode(body)
    at = f"{BASE}/stac/collections/{shown.dataset}"
    found["links"] = [
        {"rel": "self", "href": at, "type": _JSON},
        {"rel": "root", "href": f"{BASE}/stac", "type": _JSON},
        {"rel": "parent", "href": f"{BASE}/stac", "type": _JSON},
        {"rel": "items", "href": f"{at}/items", "type": _GEOJSON},
        {"rel": QUERYABLES, "href": f"{at}/queryables", "type": "application/schema+json"},
        {"rel": "alternate", "href": f"{BASE}/datasets/{shown.dataset}/", "type": "text/html"},
        *_outer(found["links"]),
    ]
    return found


def dcat_catalog(session: Session, shown: Iterable[ShownDataset]) -> dict[str, Any]:
    """Return the DCAT catalog of these datasets, made of the records that the published one is made of. Its addresses
    are those of the server."""
    document = dcat.catalog((), archive_places(session.resolved, BASE))
    document["dataset"] = [_dcat_entry(session, one) for one in shown]
    return document


def _dcat_entry(session: Session, shown: ShownDataset) -> dict[str, Any]:
    entry = dict(_catalogued(session, shown).catalogued().dcat)
    stored = f"./{stac.collection_path(shown.dataset)}"
    served = f"{BASE}/stac/collections/{shown.dataset}"
    entry["distribution"] = [
        {**each, "accessURL": served} if each.get("accessURL") == stored else each for each in entry["distribution"]
    ]
    return entry


def _catalogued(session: Session, shown: ShownDataset) -> Cataloguing:
    places = archive_places(session.resolved, BASE)
    keep = public_retention(session, shown.dataset)
    return Cataloguing(session.state, session.objects, places, shown.dataset, shown.moves, keep, fixes=shown.fixes)


def _items(session: Session, shown: ShownDataset) -> Iterator[IndexedItem]:
    collection_at = f"{BASE}/stac/collections/{shown.dataset}"
    for body in _catalogued(session, shown).items():
        item = msgspec.json.decode(body)
        item["links"] = [
            {"rel": "self", "href": f"{collection_at}/items/{item['id']}", "type": _GEOJSON},
            {"rel": "root", "href": f"{BASE}/stac", "type": _JSON},
            {"rel": "parent", "href": collection_at, "type": _JSON},
            {"rel": "collection", "href": collection_at, "type": _JSON},
            *_outer(item["links"]),
        ]
        yield indexed_item(shown.dataset, shown.version, item, msgspec.json.encode(item))


def _outer(links: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the links that lead somewhere whatever the address of the document."""
    for link in links:
        if "://" in link["href"] and link["rel"] not in _OWN and not link["href"].startswith(BASE):
            yield link


def with_base(body: bytes, base: str) -> bytes:
    """Return a stored document with the address of the server."""
    return body.replace(BASE.encode(), base.encode())
