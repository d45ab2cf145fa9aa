"""The STAC API: core, collections, features and item search."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any
from urllib.parse import urlencode

import msgspec

from kfm.api.endpoints.data_routes import shown
from kfm.api.problems import HttpProblem, not_found
from kfm.api.routes import Answer, ApiRoute, Call, View
from kfm.app.metadata.archive_places import archive_places
from kfm.app.serving.item_catalog import BASE, DCAT_PATH, DCAT_TYPE, QUERYABLES, collection, dcat_catalog, with_base
from kfm.model.keys import digest
from kfm.model.search.field_choice import apply_fields
from kfm.model.search.item_query import FIELDS, ItemQuery, Position, with_position
from kfm.model.search.item_search import ItemSearch, search_by_get, search_by_post
from kfm.parsing.cql2 import CONFORMANCE, FieldType
from kfm.parsing.strict_json import decode

GEOJSON = "application/geo+json"
_CORE = "https://api.stacspec.org/v1.0.0/"
CONFORMS = (
    f"{_CORE}core",
    f"{_CORE}collections",
    f"{_CORE}ogcapi-features",
    f"{_CORE}item-search",
    f"{_CORE}item-search#fields",
    f"{_CORE}item-search#sort",
    f"{_CORE}item-search#filter",
    "http://www.opengis.net/spec/ogcapi-features-3/1.0/conf/filter",
    *CONFORMANCE,
    "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/core",
    "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/geojson",
    "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/oas30",
)


def landing(view: View, call: Call) -> Answer:
    places = archive_places(view.session.resolved, BASE)
    at = f"{BASE}/stac"
    links = [
        _link("self", at),
        _link("root", at),
        _link("conformance", f"{at}/conformance"),
        _link("data", f"{at}/collections"),
        {**_link("search", f"{at}/search", GEOJSON), "method": "GET"},
        {**_link("search", f"{at}/search", GEOJSON), "method": "POST"},
        _link(QUERYABLES, f"{at}/queryables", "application/schema+json"),
        _link("service-desc", f"{BASE}/v1/openapi.json", "application/vnd.oai.openapi+json;version=3.1"),
        _link("service-doc", f"{BASE}/v1/docs", "text/html"),
        _link("alternate", f"{BASE}/{DCAT_PATH}", DCAT_TYPE, "the same datasets as DCAT"),
        *(_link("child", f"{at}/collections/{one.dataset}", title=one.dataset) for one in view.shelf.all()),
    ]
    return _json(
        call,
        {
            "type": "Catalog",
            "stac_version": "1.1.0",
            "id": places.namespace,
            "title": places.title,
            "description": places.description,
            "conformsTo": list(CONFORMS),
            "links": links,
        },
    )


def conformance(_view: View, call: Call) -> Answer:
    return _json(call, {"conformsTo": list(CONFORMS)})


_SCHEMAS: dict[FieldType, dict[str, Any]] = {
    "text": {"type": "string"},
    "number": {"type": "number"},
    "instant": {"type": "string", "format": "date-time"},
    "span": {"type": "string", "format": "date-time"},
    "geometry": {"$ref": "https://geojson.org/schema/Geometry.json"},
}


def queryables(view: View, call: Call) -> Answer:
    """Answer with the fields that a filter may name."""
    at = f"{BASE}/stac/queryables"
    if "name" in call.path:
        at = f"{BASE}/stac/collections/{shown(view, call).dataset}/queryables"
    return _json(
        call,
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": at,
            "type": "object",
            "title": "Fields of items that a filter may name",
            "properties": {name: _SCHEMAS[kind] for name, kind in FIELDS.items()},
            "additionalProperties": False,
        },
        "application/schema+json",
    )


def collections(view: View, call: Call) -> Answer:
    found = [collection(view.session, one) for one in view.shelf.all()]
    links = [_link("self", f"{BASE}/stac/collections"), _link("root", f"{BASE}/stac")]
    return _json(call, {"collections": found, "links": links})


def one_collection(view: View, call: Call) -> Answer:
    return _json(call, collection(view.session, shown(view, call)))


def items(view: View, call: Call) -> Answer:
    name = shown(view, call).dataset
    request = search_by_get(call.given.items(), known=("bbox", "datetime", "limit", "token"))
    request = msgspec.structs.replace(request, query=msgspec.structs.replace(request.query, collections=(name,)))
    return _found(view, call, request, f"{BASE}/stac/collections/{name}/items")


def one_item(view: View, call: Call) -> Answer:
    name = shown(view, call).dataset
    mark = view.items.allowed(view.session, view.shelf)[name]
    body = view.items.index.item(name, mark, call.path["item"])
    if body is None:
        raise not_found()
    return Answer(with_base(body, call.base), GEOJSON)


def search(view: View, call: Call) -> Answer:
    return _found(view, call, search_by_get(call.given.items()), f"{BASE}/stac/search")


def search_by_body(view: View, call: Call) -> Answer:
    document = decode(call.body or b"{}", "the body")
    return _found(view, call, search_by_post(document), f"{BASE}/stac/search", by_body=True)


def dcat_document(view: View, call: Call) -> Answer:
    """Answer with the datasets that may be shown as a DCAT catalog."""
    return _json(call, dcat_catalog(view.session, view.shelf.all()), DCAT_TYPE)


def _found(view: View, call: Call, request: ItemSearch, at: str, *, by_body: bool = False) -> Answer:
    mark = _mark(request.query)
    allowed = view.items.allowed(view.session, view.shelf)
    query = msgspec.structs.replace(request.query, allowed=allowed)
    page = view.items.index.search(with_position(query, _position(request.token, mark)))
    links = [_link("self", at, GEOJSON), _link("root", f"{BASE}/stac")]
    if page.next is not None:
        links.append(_next(call, _token(page.next, mark), at, by_body=by_body))
    features: list[Any] = [msgspec.Raw(body) for body in page.bodies]
    if request.fields is not None:
        features = [apply_fields(msgspec.json.decode(body), request.fields) for body in page.bodies]
    return _json(
        call,
        {
            "type": "FeatureCollection",
            "features": features,
            "links": links,
            "numberReturned": len(features),
            **({"numberMatched": page.matched} if page.matched is not None else {}),
        },
        GEOJSON,
    )


def _mark(query: ItemQuery) -> str:
    """Return what tells one search from another, so that a token is of use for its own search alone."""
    return digest(msgspec.json.encode([repr(query.filter), repr(query.intersects), query.collections, query.ids,
                                       query.bbox, query.interval, query.sortby, query.limit]))[7:23]  # fmt: skip


def _token(position: Position, mark: str) -> str:
    return urlsafe_b64encode(msgspec.json.encode([mark, *position])).decode().rstrip("=")


def _position(token: str, mark: str) -> Position | None:
    """Return the position that a token names. HttpProblem if it is of another search, or none that was given out."""
    if not token:
        return None
    try:
        found = msgspec.json.decode(
            urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=list[str | int | float | None]
        )
    except (ValueError, msgspec.DecodeError):
        found = []
    if not found or found[0] != mark:
        raise HttpProblem(400, "token is not of this search; follow the link to the next page as it is", "input.bad")
    return tuple(found[1:])


def _next(call: Call, token: str, at: str, *, by_body: bool) -> dict[str, Any]:
    if by_body:
        sent = {**msgspec.json.decode(call.body or b"{}"), "token": token}
        return {**_link("next", at, GEOJSON), "method": "POST", "body": sent}
    return {**_link("next", f"{at}?{urlencode({**call.given, 'token': token})}", GEOJSON), "method": "GET"}


def _link(rel: str, href: str, kind: str = "application/json", title: str = "") -> dict[str, Any]:
    return {"rel": rel, "href": href, "type": kind, **({"title": title} if title else {})}


def _json(call: Call, document: dict[str, Any], kind: str = "application/json") -> Answer:
    return Answer(with_base(msgspec.json.encode(document), call.base), kind)


ROUTES = (
    ApiRoute(
        "GET", "/catalog.jsonld", "dcatCatalog", "The datasets that may be shown, as DCAT", dcat_document,
        media=DCAT_TYPE,
    ),
    ApiRoute("GET", "/stac", "stacHome", "The STAC API", landing, tag="stac"),
    ApiRoute("GET", "/stac/conformance", "stacConformance", "What it conforms to", conformance, tag="stac"),
    ApiRoute(
        "GET", "/stac/queryables", "stacQueryables", "The fields that a filter may name", queryables,
        media="application/schema+json", tag="stac",
    ),
    ApiRoute(
        "GET", "/stac/collections/{name}/queryables", "stacCollectionQueryables", "The same, of one collection",
        queryables, media="application/schema+json", tag="stac",
    ),
    ApiRoute("GET", "/stac/collections", "stacCollections", "All collections", collections, tag="stac"),
    ApiRoute("GET", "/stac/collections/{name}", "stacCollection", "One collection", one_collection, tag="stac"),
    ApiRoute(
        "GET", "/stac/collections/{name}/items", "stacItems", "The items of a collection", items, media=GEOJSON,
        tag="stac", free_query=True,
    ),
    ApiRoute(
        "GET", "/stac/collections/{name}/items/{item}", "stacItem", "One item", one_item, media=GEOJSON, tag="stac"
    ),
    ApiRoute("GET", "/stac/search", "stacSearch", "Search items", search, media=GEOJSON, tag="stac", free_query=True),
    ApiRoute(
        "POST", "/stac/search", "stacSearchByBody", "Search items", search_by_body, media=GEOJSON, tag="stac",
        body="application/json",
    ),
)  # fmt: skip
