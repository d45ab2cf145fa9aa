"""Checks catalog documents against the schemas they name: STAC, DCAT-US, PROV-JSON, OpenLineage, CloudEvents.

It works offline. A part without an installed schema is reported as unchecked, never as valid.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from kfm.app.metadata import schema_store
from kfm.errors import BadInput
from kfm.model.records import Record
from kfm.parsing.characters import printable
from kfm.projections import openlineage

MOST = 20  # problems that are reported of one document
_STAC = "https://schemas.stacspec.org/v{version}/{part}-spec/json-schema/{part}.json"
_PARTS = {"Feature": "item", "Collection": "collection", "Catalog": "catalog"}
_VERSIONS = ("1.0.0", "1.1.0")
_CLOUDEVENTS = "https://github.com/cloudevents/spec/cloudevents/formats/cloudevents.json"
_WHOLE, _LINES = (".json", ".jsonld", ".geojson"), (".ndjson", ".jsonl")
_INSIDE = frozenset(  # relations whose links must lead to a file of the catalog
    ("root", "parent", "child", "item", "collection", "predecessor-version", "successor-version", "latest-version")
)
_ENDS = {  # the ends of each kind of statement in PROV-JSON
    "used": {"prov:activity": "activity", "prov:entity": "entity"},
    "wasGeneratedBy": {"prov:activity": "activity", "prov:entity": "entity"},
    "wasInvalidatedBy": {"prov:activity": "activity", "prov:entity": "entity"},
    "wasAssociatedWith": {"prov:activity": "activity", "prov:agent": "agent", "prov:plan": "entity"},
    "wasAttributedTo": {"prov:entity": "entity", "prov:agent": "agent"},
    "wasDerivedFrom": {"prov:generatedEntity": "entity", "prov:usedEntity": "entity"},
}

_STATEMENTS = frozenset({"entity", "activity", "agent", *_ENDS, "specializationOf", "alternateOf", "hadMember"})
_CATALOGS = ("dcat:Catalog", "Catalog", "http://www.w3.org/ns/dcat#Catalog")
_DCAT_US_1_1 = ("https://project-open-data.cio.gov/v1.1/schema", "http://project-open-data.cio.gov/v1.1/schema")


class Problem(Record, frozen=True):
    """A mistake in a document, and its place."""

    place: str  # a JSON pointer
    reason: str
    schema: str = ""


class Checked(Record, frozen=True):
    """One document, and the result of its check."""

    path: str
    line: int  # the line in a file with one document per line; else 0
    kind: str  # stac | dcat | prov | openlineage | cloudevents | unknown
    problems: tuple[Problem, ...]
    unchecked: tuple[str, ...]  # parts without an installed schema

    @property
    def verdict(self) -> str:
        return "broken" if self.problems else "unchecked" if self.unchecked else "valid"


def validate(path: str) -> Iterator[Checked]:
    """Check a file, or every document below a folder in name order; yield the results. BadInput if there is no such
    path."""
    if os.path.isdir(path):
        for folder, folders, files in os.walk(path):
            folders.sort()
            for name in sorted(files):
                if name.endswith((*_WHOLE, *_LINES)):
                    yield from _file(os.path.join(folder, name))
    elif os.path.isfile(path):
        yield from _file(path)
    elif os.path.exists(path):
        raise BadInput(f"{printable(path)} is neither a file nor a folder", hint="name a catalog folder, or a document")
    else:
        raise BadInput(f"there is no {printable(path)}", hint="name a catalog folder, or a document of one")


def _file(path: str) -> Iterator[Checked]:
    try:
        # Opened without blocking, because a name may belong to a pipe.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                yield Checked(path=path, line=0, kind="unknown", problems=(_NO_FILE,), unchecked=())
                return
            bodies = list(file) if path.endswith(_LINES) else [file.read()]
    except OSError as problem:
        raise BadInput(f"{printable(path)} cannot be read: {problem.strerror}", hint="see its permissions") from None
    for number, body in enumerate(bodies, 1):
        line = number if path.endswith(_LINES) else 0
        try:
            document = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield Checked(path=path, line=line, kind="unknown", problems=(_NOT_JSON,), unchecked=())
            continue
        kind, problems, unchecked = check(document)
        problems += _links(path, document) if kind == "stac" and not line else []
        yield Checked(path=path, line=line, kind=kind, problems=tuple(problems[:MOST]), unchecked=tuple(unchecked))


_NOT_JSON = Problem(place="", reason="is not JSON")
_NO_FILE = Problem(place="", reason="is no plain file")


def check(document: Any) -> tuple[str, list[Problem], list[str]]:
    """Return the kind of a document, its problems, and the parts that were not checked."""
    if isinstance(document, list) and document and all(isinstance(each, dict) for each in document):
        return _several(document)
    if not isinstance(document, dict):
        return "unknown", [Problem(place="", reason="is no object")], []
    if "stac_version" in document:
        return "stac", *_stac(document)
    if document.get("type") == "FeatureCollection" and isinstance(document.get("features"), list):
        return "stac", *_item_collection(document["features"])
    if "specversion" in document:
        return "cloudevents", _against(_CLOUDEVENTS, document), []
    if "eventTime" in document and "schemaURL" in document:
        return "openlineage", *_openlineage(document)
    if _is_prov(document):
        return "prov", _prov(document), []
    if document.get("@type") in _CATALOGS:
        return "dcat", *_dcat(document)
    if "@context" in document:
        return "unknown", [], ["JSON-LD that is no dcat:Catalog"]
    return "unknown", [], ["not a known kind of catalog document"]


def _dcat(document: dict[str, Any]) -> tuple[list[Problem], list[str]]:
    """Check a DCAT-US 3 catalog. A catalog that says it conforms to another version is unchecked, not broken."""
    said = document.get("conformsTo")
    if isinstance(said, str) and said.rstrip("/#") in _DCAT_US_1_1:
        return [], ["DCAT-US 1.1: only version 3 is checked"]
    return _against(schema_store.DCAT_US, document), []


def _several(documents: list[dict[str, Any]]) -> tuple[str, list[Problem], list[str]]:
    """Check a list of documents, such as the events of a run."""
    kinds: set[str] = set()
    problems: list[Problem] = []
    unchecked: dict[str, None] = {}
    for number, each in enumerate(documents):
        kind, found, others = check(each)
        kinds.add(kind)
        problems += [msgspec.structs.replace(one, place=f"/{number}{one.place}") for one in found]
        unchecked.update(dict.fromkeys(others))
    return (kinds.pop() if len(kinds) == 1 else "unknown"), problems, list(unchecked)


def _against(address: str, value: Any, place: str = "") -> list[Problem]:
    found = schema_store.validator(address)
    if found.is_valid(value):
        return []
    name = address.partition("#")[0]
    return [
        Problem(place=place + _pointer(error.instance_path), reason=error.message, schema=name)
        for error in (_plainest(error) for error in found.iter_errors(value))
    ]


def _plainest(error: Any) -> Any:
    """Return the error that a person would name, if a schema only says "none of these": the deepest error of the
    alternative whose `type` fits."""
    context = [branch for branch in (getattr(error.kind, "context", None) or []) if branch]
    if not context:
        return error
    meant = [branch for branch in context if not any(each.instance_path[-1:] == ["type"] for each in branch)]
    best = max(meant or context, key=lambda branch: max(len(each.instance_path) for each in branch))
    return _plainest(max(best, key=lambda each: len(each.instance_path)))


def _pointer(path: list[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _stac(document: dict[str, Any], place: str = "") -> tuple[list[Problem], list[str]]:
    version, kind = document["stac_version"], document.get("type")
    if version not in _VERSIONS:
        return [Problem(place=f"{place}/stac_version", reason=f"is none of {', '.join(_VERSIONS)}")], []
    part = _PARTS.get(kind) if isinstance(kind, str) else None
    if part is None:
        return [Problem(place=f"{place}/type", reason=f"is none of {', '.join(_PARTS)}")], []
    problems = _against(_STAC.format(version=version, part=part), document, place)
    unchecked = []
    extensions = document.get("stac_extensions") or []
    for address in extensions if isinstance(extensions, list) else []:
        if isinstance(address, str) and schema_store.known(address):
            problems += _against(address.partition("#")[0], document, place)
        else:
            unchecked.append(printable(str(address), 200)[1:-1])
    return problems, unchecked


def _item_collection(features: list[Any]) -> tuple[list[Problem], list[str]]:
    problems: list[Problem] = []
    unchecked: dict[str, None] = {}
    for number, each in enumerate(features):
        if not isinstance(each, dict) or "stac_version" not in each:
            problems.append(Problem(place=f"/features/{number}", reason="is no STAC item"))
            continue
        found, others = _stac(each, f"/features/{number}")
        problems += found
        unchecked.update(dict.fromkeys(others))
    return problems, list(unchecked)


def _links(path: str, document: dict[str, Any]) -> list[Problem]:
    """Return the relative links that should lead to a document of the catalog and do not."""
    return [
        Problem(place=f"/links/{number}/href", reason="leads to no file")
        for number, href in inside(document)
        if not os.path.isfile(os.path.join(os.path.dirname(path), href.partition("#")[0]))
    ]


def inside(document: Any) -> Iterator[tuple[int, str]]:
    """Yield the links of a document that lead to others of its catalog, with their positions."""
    links = document.get("links") if isinstance(document, dict) and "stac_version" in document else None
    for number, link in enumerate(links if isinstance(links, list) else []):
        href = link.get("href") if isinstance(link, dict) and link.get("rel") in _INSIDE else None
        if isinstance(href, str) and "://" not in href and not os.path.isabs(href):
            yield number, href


def _openlineage(event: dict[str, Any]) -> tuple[list[Problem], list[str]]:
    problems = _against(openlineage.SPEC, event)
    unchecked: dict[str, None] = {}
    for place, facets in _facets(event):
        for name, facet in facets.items():
            address = facet.get("_schemaURL") if isinstance(facet, dict) else None
            definition = _definition(address) if isinstance(address, str) else ""
            if definition:
                problems += _against(definition, facet, f"{place}/{name}")
            else:
                unchecked[f"facet {printable(name, 100)[1:-1]}"] = None
    return problems, list(unchecked)


@lru_cache(maxsize=1024)  # each event has a dozen facets
def _definition(address: str) -> str:
    """Return the address of the definition that a facet must follow, or "" if it is not installed.

    The file of a facet describes the facet in a definition of the file's name; an address without a fragment means
    that one, because the file itself allows any object.
    """
    bare, _, fragment = address.partition("#")
    if not schema_store.known(bare):
        return ""
    defined = schema_store.schema(bare).get("$defs", {})
    name = fragment.removeprefix("/$defs/") if fragment else bare.rpartition("/")[2].removesuffix(".json")
    return f"{bare}#/$defs/{name}" if name in defined else ""


def _facets(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    things = [("/run", event.get("run")), ("/job", event.get("job"))]
    for side in ("inputs", "outputs"):
        found = event.get(side)
        things += [(f"/{side}/{number}", each) for number, each in enumerate(found if isinstance(found, list) else [])]
    for place, thing in things:
        for kind in ("facets", "inputFacets", "outputFacets"):
            if isinstance(thing, dict) and isinstance(thing.get(kind), dict):
                yield f"{place}/{kind}", thing[kind]


def _is_prov(document: dict[str, Any]) -> bool:
    """Return whether a document is PROV-JSON: it has statements, of its own or in bundles."""
    own = _STATEMENTS & document.keys()
    bundles = document.get("bundle")
    bundled = isinstance(bundles, dict) and any(
        isinstance(one, dict) and _STATEMENTS & one.keys() for one in bundles.values()
    )
    return bundled or (bool(own) and ("prefix" in document or len(own) > 1))


def _prov(document: dict[str, Any]) -> list[Problem]:
    """Check a PROV-JSON document, for which there is no schema to ship: each name has a declared prefix, and in what
    KFM wrote each statement connects things that its bundle describes. Others may leave things undescribed.
    """
    prefixes, bundles = document.get("prefix", {}), document.get("bundle", {})
    if not isinstance(prefixes, dict) or not isinstance(bundles, dict):
        return [Problem(place="", reason="prefix and bundle are no objects")]
    problems = _statements(document, "", prefixes) if _STATEMENTS & document.keys() else []
    for name, bundle in bundles.items():
        here = f"/bundle/{_pointer([name])[1:]}"
        if not isinstance(bundle, dict):
            problems.append(Problem(place=here, reason="is no bundle"))
            continue
        own = bundle.get("prefix", {})
        problems += _statements(bundle, here, {**prefixes, **(own if isinstance(own, dict) else {})})
    return problems


def _statements(bundle: dict[str, Any], here: str, prefixes: dict[str, Any]) -> list[Problem]:
    """Return the problems of the statements of one bundle, or of the document itself."""
    if not all(isinstance(part, dict) for part in bundle.values()):
        return [Problem(place=here, reason="is no bundle")]
    known = {*prefixes, "prov", "xsd", "_"}
    problems = [
        Problem(place=f"{here}/{kind}", reason="a name has a prefix that is not declared")
        for kind in ("entity", "activity", "agent")
        for one in bundle.get(kind, {})
        if (one.partition(":")[0] if ":" in one else "default") not in known
    ]
    for kind, ends in _ENDS.items() if "kfm" in prefixes else ():
        for id, said in bundle.get(kind, {}).items():
            for end, wanted in ends.items():
                if isinstance(said, dict) and end in said and said[end] not in bundle.get(wanted, {}):
                    reason = f"is no {wanted} that the bundle describes"
                    problems.append(Problem(place=f"{here}/{kind}/{id}/{end}", reason=reason))
    return problems
