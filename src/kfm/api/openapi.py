"""The contract of the API as OpenAPI 3.1, made from the table of routes and the records that they answer with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.api.problems import PROBLEM, TITLES, Problem
from kfm.api.routes import FORM, HTML, JSON

if TYPE_CHECKING:
    from kfm.api.routes import ApiRoute

OPENAPI = "application/vnd.oai.openapi+json;version=3.1"
_SCHEMAS = "#/components/schemas/"
# What the application answers on its own, whatever the route: a mistake in the query, a token that is not valid, an
# address that does not exist for this caller, too many requests, and a state that cannot be read now.
_ALWAYS = (400, 401, 404, 429, 503)
_OF_BODIES = (408, 413, 415)
_ABOUT = """\
Everything that people and programs read from this installation. The published refs and the labels in force decide at
each request what is shown. An address of something that may not be shown is answered like one that does not exist.
Every address that answers GET answers HEAD, too; another method is answered with 405. Errors are problem documents
(RFC 9457). A parameter that is not listed, or is given twice, is refused. Later versions may add keys to an answer."""
_TAGS = {
    "data": "Datasets, their versions and how they changed.",
    "focus": "How something was produced, with its evidence.",
    "files": "The bytes of published files.",
    "stac": "The STAC API.",
    "pages": "Pages for people. Each shows the record that its address under /v1 answers with.",
    "contract": "This description.",
    "changes": "What people request, sign and reject, and what became of it.",
    "access": "Who asks.",
    "sign-in": "Signing in and out in a browser. `kfm serve --open` does not have these.",
}
_IN_PATHS = {
    "name": "the name of a dataset",
    "thing": "a dataset, a version (`name@digest`), a file or a run",
    "path": "the path of a file in the folder of its dataset; slashes belong to it",
    "item": "the id of a STAC item",
    "version": "the digest of a version",
    "digest": "a digest",
    "run": "the id of a run",
    "index": "the number of a ledger entry",
    "request": "the id of a change request",
    "trigger": "the id of a trigger",
}
_HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "ETag": ("of these bytes, for If-None-Match", {"type": "string"}),
    "KFM-Ledger-Entries": ("the newest ledger entry that this answer knows", {"type": "integer", "minimum": 0}),
    "Content-Range": ("which part this is, or how long the file is", {"type": "string"}),
    "Retry-After": ("seconds", {"type": "integer"}),
    "Location": ("where to go", {"type": "string"}),
}
_NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 6}
_TEXTS = {"type": "array", "items": {"type": "string"}}
# The queries that the STAC routes read on their own, as OGC API - Features and the STAC API name them: what each is in
# the query of an address, and in a body.
_SEARCH: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "bbox": ("west, south, east, north in degrees", {"type": "string"}, _NUMBERS),
    "datetime": ("an instant or an interval, as RFC 3339; `..` is open", {"type": "string"}, {"type": "string"}),
    "limit": ("the most items of a page", {"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 1}),
    "ids": ("only items of these ids", {"type": "string"}, _TEXTS),
    "collections": ("only items of these collections", {"type": "string"}, _TEXTS),
    "intersects": ("a GeoJSON geometry that the items meet", {"type": "string"}, {"type": "object"}),
    "sortby": ("fields, each with + or - before it", {"type": "string"}, {"type": "array"}),
    "fields": ("which fields the items have", {"type": "string"}, {"type": "object"}),
    "filter": ("CQL2 JSON", {"type": "string"}, {"type": "object"}),
    "filter-lang": ("the language of the filter", {"const": "cql2-json"}, {"const": "cql2-json"}),
    "token": ("the cursor of the next page", {"type": "string"}, {"type": "string"}),
}
_LINKS = {"type": "array", "items": {"$ref": f"{_SCHEMAS}StacLink"}}
# Documents of STAC, as far as this server promises more than the specification that its answer names.
_STAC: dict[str, dict[str, Any]] = {
    "StacLink": {
        "type": "object",
        "properties": {"rel": {"type": "string"}, "href": {"type": "string"}, "type": {"type": "string"}},
        "required": ["rel", "href"],
    },
    "StacCatalog": {
        "description": "A STAC catalog 1.1.0 with its conformance classes.",
        "type": "object",
        "properties": {
            "type": {"const": "Catalog"},
            "stac_version": {"type": "string"},
            "id": {"type": "string"},
            "title": {"type": "string"},
            "description": {"type": "string"},
            "conformsTo": _TEXTS,
            "links": _LINKS,
        },
        "required": ["type", "stac_version", "id", "description", "conformsTo", "links"],
    },
    "StacConformance": {"type": "object", "properties": {"conformsTo": _TEXTS}, "required": ["conformsTo"]},
    "StacCollection": {
        "description": "A STAC collection 1.1.0.",
        "type": "object",
        "properties": {
            "type": {"const": "Collection"},
            "stac_version": {"type": "string"},
            "id": {"type": "string"},
            "description": {"type": "string"},
            "license": {"type": "string"},
            "extent": {"type": "object"},
            "links": _LINKS,
        },
        "required": ["type", "stac_version", "id", "description", "license", "extent", "links"],
    },
    "StacCollections": {
        "type": "object",
        "properties": {
            "collections": {"type": "array", "items": {"$ref": f"{_SCHEMAS}StacCollection"}},
            "links": _LINKS,
        },
        "required": ["collections", "links"],
    },
    "StacItem": {
        "description": "A STAC item 1.1.0.",
        "type": "object",
        "properties": {
            "type": {"const": "Feature"},
            "id": {"type": "string"},
            "collection": {"type": "string"},
            "geometry": {"type": ["object", "null"]},
            "properties": {"type": "object"},
            "links": _LINKS,
            "assets": {"type": "object"},
        },
    },
    "StacItems": {
        "description": "Items; `fields` may leave out parts of each.",
        "type": "object",
        "properties": {
            "type": {"const": "FeatureCollection"},
            "features": {"type": "array", "items": {"$ref": f"{_SCHEMAS}StacItem"}},
            "links": _LINKS,
            "numberReturned": {"type": "integer", "minimum": 0},
            "numberMatched": {"type": "integer", "minimum": 0},
        },
        "required": ["type", "features", "links"],
    },
    "StacSearch": {
        "type": "object",
        "properties": {name: {"description": about, **body} for name, (about, _, body) in _SEARCH.items()},
    },
}
# Of routes that answer with no record of our own, the schema of the answer.
DOCUMENTS = {
    "stacHome": "StacCatalog",
    "stacConformance": "StacConformance",
    "stacCollections": "StacCollections",
    "stacCollection": "StacCollection",
    "stacItems": "StacItems",
    "stacItem": "StacItem",
    "stacSearch": "StacItems",
    "stacSearchByBody": "StacItems",
}
BODIES = {"stacSearchByBody": "StacSearch"}


def document(routes: Sequence[ApiRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of these routes. The same routes give the same document."""
    records = list(
        dict.fromkeys(
            [
                Problem,
                *(kind for route in routes for kind in (route.answer, route.takes, route.accepted) if kind is not None),
            ]
        )
    )
    _, components = msgspec.json.schema_components(records, ref_template=f"{_SCHEMAS}{{name}}")
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(address_of(route), {})[route.method.lower()] = _operation(route)
    tags = list(dict.fromkeys(route.tag for route in routes))
    return {
        "openapi": "3.1.0",
        "info": {"title": "KFM API", "version": "1", "description": _ABOUT.replace("\n", " ")},
        "servers": [{"url": "/", "description": "the server that this document came from"}],
        "security": [{}, {"token": []}],
        "tags": [{"name": tag, **({"description": _TAGS[tag]} if tag in _TAGS else {})} for tag in tags],
        "paths": paths,
        "components": {
            "schemas": {name: _plain(_open(schema)) for name, schema in sorted({**components, **_STAC}.items())},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "a token of a person"}},
        },
    }


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with lists where msgspec has tuples, as its JSON reads."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    return found


def address_of(route: ApiRoute) -> str:
    """Return the path of a route as OpenAPI writes it."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)


def has_parts(route: ApiRoute) -> bool:
    """Return whether the route answers with a part of a file if a request has a Range."""
    return 416 in route.problems


def statuses(route: ApiRoute) -> tuple[int, ...]:
    """Return every status that this route may answer."""
    found = {*route.successes, *_ALWAYS, *route.problems, *((403,) if route.changes else ())}
    if route.method == "GET":
        found.add(304)
    if has_parts(route):
        found.add(206)
    return tuple(sorted(found | set(_OF_BODIES if route.body else ())))


def _operation(route: ApiRoute) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "x-kfm-audiences": list(route.audiences),
        "parameters": list(_parameters(route)),
        "responses": {str(status): _response(route, status) for status in statuses(route)},
    }
    if route.body:
        record = BODIES.get(route.name, route.takes.__name__ if route.takes is not None else "")
        schema = {"$ref": _SCHEMAS + record} if record else {}
        found["requestBody"] = {"content": {_bare(route.body): {"schema": schema}}}
    return found


def _parameters(route: ApiRoute) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)(?::\w+)?\}", route.path):
        about = _IN_PATHS.get(name, f"the {name}")
        yield {"name": name, "in": "path", "required": True, "description": about, "schema": {"type": "string"}}
    for each in route.parameters:
        yield {"name": each.name, "in": "query", "description": each.description, "schema": each.schema()}
    if route.free_query and not route.parameters:
        for name, (about, schema, _) in _SEARCH.items():
            if name != "collections" or "{" not in route.path:
                yield {"name": name, "in": "query", "description": about, "schema": schema}
    if route.method == "GET":
        about = "an ETag that the caller has; the answer is 304 if it is still the one"
        yield {"name": "If-None-Match", "in": "header", "description": about, "schema": {"type": "string"}}
    if route.changes and route.body != FORM:
        about = "`csrf` of /v1/me, from a caller who signed in with a cookie or is the one user of this machine"
        yield {"name": "KFM-CSRF", "in": "header", "description": about, "schema": {"type": "string"}}
    if route.accepted is not None:
        about = "new for each request, and the same when it is repeated: it has one effect and one answer"
        schema = {"type": "string", "minLength": 1, "maxLength": 255}
        yield {"name": "Idempotency-Key", "in": "header", "description": about, "schema": schema}
    if has_parts(route):
        about = "one range of bytes; another form is ignored"
        yield {"name": "Range", "in": "header", "description": about, "schema": {"type": "string"}}


def _response(route: ApiRoute, status: int) -> dict[str, Any]:
    if status == 304:
        return {"description": "the caller has it", "headers": _headers("ETag", "KFM-Ledger-Entries")}
    if status >= 400:
        more = {416: ("Content-Range",), 429: ("Retry-After",), 503: ("Retry-After",)}.get(status, ())
        content = {PROBLEM: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
        if route.media == HTML and (route.tag == "sign-in" or status in (401, 503)):
            content |= {_bare(HTML): {"schema": {"type": "string"}}}
        return {"description": TITLES[status], **({"headers": _headers(*more)} if more else {}), "content": content}
    named = ["KFM-Ledger-Entries", *(["ETag"] if route.method == "GET" else [])]
    if status == 303:
        return {"description": "go to the address in `Location`", "headers": _headers("Location")}
    if status == 206:
        named.append("Content-Range")
    if status == 202 and route.accepted is not None:
        schema = {"$ref": _SCHEMAS + route.accepted.__name__}
        return {
            "description": "it is stored",
            "headers": _headers(*named, "Location"),
            "content": {JSON: {"schema": schema}},
        }
    about = "a part of the file" if status == 206 else route.summary
    return {"description": about, "headers": _headers(*named), "content": _content(route)}


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"description": _HEADERS[name][0], "required": True, "schema": _HEADERS[name][1]} for name in names}


def _content(route: ApiRoute) -> dict[str, Any]:
    if has_parts(route):
        return {"*/*": {}}
    if route.answer is not None:
        return {JSON: {"schema": {"$ref": _SCHEMAS + route.answer.__name__}}}
    if route.name in DOCUMENTS:
        return {_bare(route.media): {"schema": {"$ref": _SCHEMAS + DOCUMENTS[route.name]}}}
    kind = {"type": "object"} if "json" in route.media else {"type": "string"}
    return {_bare(route.media): {"schema": kind}}


def _bare(media: str) -> str:
    return media.partition(";")[0]


def _open(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a record as a promise to callers: later versions may add keys."""
    return {name: value for name, value in schema.items() if name != "additionalProperties" or value is not False}
