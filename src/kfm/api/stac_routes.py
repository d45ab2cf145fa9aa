"""The STAC API: core, collections, features and item search."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec

from kfm.api.data_routes import shown
from kfm.api.problems import HttpProblem, not_found
from kfm.api.routes import Answer, ApiRoute, Call, View
from kfm.app.metadata.archive_places import archive_places
from kfm.app.serving.item_catalog import BASE, collection, with_base
from kfm.model.item_search import ItemQuery, SearchRequest, apply_fields, search_of_body, search_of_query

GEOJSON = "application/geo+json"
_CORE = "https://api.stacspec.org/v1.0.0/"
CONFORMS = (
    f"{_CORE}core",
    f"{_CORE}collections",
    f"{_CORE}ogcapi-features",
    f"{_CORE}item-search",
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
        _link("service-desc", f"{BASE}/v1/openapi.json", "application/vnd.oai.openapi+json;version=3.1"),
        _link("service-doc", f"{BASE}/v1/docs", "text/html"),
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


def collections(view: View, call: Call) -> Answer:
    found = [collection(view.session, one) for one in view.shelf.all()]
    links = [_link("self", f"{BASE}/stac/collections"), _link("root", f"{BASE}/stac")]
    return _json(call, {"collections": found, "links": links})


def one_collection(view: View, call: Call) -> Answer:
    return _json(call, collection(view.session, shown(view, call)))


def items(view: View, call: Call) -> Answer:
    name = shown(view, call).dataset
    request = search_of_query(call.given, within=name)
    return _found(view, call, request, f"{BASE}/stac/collections/{name}/items")


def one_item(view: View, call: Call) -> Answer:
    name = shown(view, call).dataset
    mark = view.items.allowed(view.session, view.shelf)[name]
    body = view.items.index.item(name, mark, call.path["item"])
    if body is None:
        raise not_found()
    return Answer(with_base(body, call.base), GEOJSON)


def search(view: View, call: Call) -> Answer:
    return _found(view, call, search_of_query(call.given), f"{BASE}/stac/search")


def search_by_body(view: View, call: Call) -> Answer:
    try:
        document = msgspec.json.decode(call.body or b"{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise HttpProblem(400, "the body is not JSON; send a JSON object", "input.bad") from None
    if not isinstance(document, dict):
        raise HttpProblem(400, "the body is no JSON object; send one", "input.bad")
    return _found(view, call, search_of_body(document), f"{BASE}/stac/search", by_body=True)


def _found(view: View, call: Call, request: SearchRequest, at: str, *, by_body: bool = False) -> Answer:
    allowed = view.items.allowed(view.session, view.shelf)
    page = view.items.index.search(ItemQuery.of(request, allowed))
    links = [_link("self", at, GEOJSON), _link("root", f"{BASE}/stac")]
    if page.next is not None:
        links.append(_next(call, page.next, at, by_body=by_body))
    features = [msgspec.Raw(body) for body in page.bodies]
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
    ApiRoute("GET", "/stac", "stacHome", "The STAC API", landing, tag="stac"),
    ApiRoute("GET", "/stac/conformance", "stacConformance", "What it conforms to", conformance, tag="stac"),
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
