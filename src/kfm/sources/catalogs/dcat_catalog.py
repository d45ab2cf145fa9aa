"""Read DCAT as JSON-LD or as the `data.json` of DCAT-US. Each dataset is a finding, each download an offer.

A term is recognized by its last part (`dcat:distribution`, `distribution`). A node that is only referenced is looked up
in the graph of the document. No JSON-LD context is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kfm.errors import BadInput
from kfm.model.reports.discovered_datasets import Finding, words
from kfm.sources.catalogs.crawl import Crawl, Group, finish, shown

_MEDIA = "media-types/"  # in the IRIs that IANA assigns to media types
MOST_DEEP = 8


def is_dcat(value: dict[str, Any]) -> bool:
    return "@graph" in value or bool(_all(value, "dataset")) or "Catalog" in _kinds(value)


def read_dcat(crawl: Crawl, uri: str, value: dict[str, Any]) -> list[Finding]:
    groups: dict[str, Group] = {}
    while True:
        nodes = {str(node["@id"]): node for node in _nodes(value, 0) if isinstance(node.get("@id"), str)}
        for node in _datasets(value, nodes):
            group = _dataset(crawl, uri, node, nodes)
            if group is not None:
                groups.setdefault(f"{group.name}\n{group.page}", group)
        there = _next(crawl, uri, value)
        if not there:
            return finish(list(groups.values()), "dcat", crawl)
        uri, value = there, crawl.document(there)


def _datasets(value: dict[str, Any], nodes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    seen: set[int] = set()
    for node in _nodes(value, 0):
        listed = [_whole(each, nodes) for each in _all(node, "dataset")]
        for each in [*listed, *([node] if "Dataset" in _kinds(node) else [])]:
            if each is not None and id(each) not in seen and _all(each, "distribution"):
                seen.add(id(each))
                yield each


def _dataset(crawl: Crawl, uri: str, node: dict[str, Any], nodes: dict[str, Any]) -> Group | None:
    title = _text(node, "title")
    name = title or _text(node, "identifier") or (str(node.get("@id")) if isinstance(node.get("@id"), str) else "")
    if not name:
        raise BadInput(f"{shown(uri)} has a dataset without title and identifier", hint="ask the server's operator")
    group = Group(name, uri)
    group.title, group.description = words(title, 200), words(_text(node, "description"), 1000)
    group.license = words(_text(node, "license"), 100)
    publisher = _whole(next(iter(_all(node, "publisher")), None), nodes)
    group.attribution = words(_text(publisher, "name"), 200) if publisher else ""
    for position, each in enumerate(_all(node, "distribution"), 1):
        distribution = _whole(each, nodes)
        if distribution is None:
            crawl.skipped["no address"] += 1
            continue
        there = crawl.offered(uri, _text(distribution, "downloadURL"))
        if there:
            called = _text(distribution, "title") or there.partition("?")[0].rpartition("/")[2] or f"file-{position}"
            size = _text(distribution, "byteSize")
            group.add(
                called,
                there,
                _media_type(_text(distribution, "mediaType")),
                int(size) if size.isascii() and size.isdigit() and len(size) < 16 else None,
                _checksum(distribution, nodes),
            )
    return group if group.offers else None


def _checksum(node: dict[str, Any], nodes: dict[str, Any]) -> str:
    for each in _all(node, "checksum"):
        said = _whole(each, nodes)
        if said is not None and _text(said, "algorithm").lower().replace("-", "_").endswith(("sha256", "sha_256")):
            return f"sha256:{_text(said, 'checksumValue').lower()}"
    return ""


def _media_type(text: str) -> str:
    return text.rpartition(_MEDIA)[2] if _MEDIA in text else text


def _next(crawl: Crawl, uri: str, value: dict[str, Any]) -> str:
    """Return the address of the next part of a paged list (Hydra), or ""."""
    for node in _nodes(value, 0):
        if {"PartialCollectionView", "PagedCollection"} & _kinds(node):
            said = _text(node, "next") or _text(node, "nextPage")
            there = crawl.at(uri, said) if said else ""
            if there and (there in crawl.pages or crawl.may_follow(there)):
                return there
            if said:
                raise BadInput(f"{shown(uri)} continues at another server", hint="ask the server's operator")
    return ""


def _nodes(value: object, depth: int) -> Iterator[dict[str, Any]]:
    """Yield every object of the document up to a depth of MOST_DEEP, outer objects first."""
    if depth > MOST_DEEP:
        return
    if isinstance(value, list):
        for each in value:
            yield from _nodes(each, depth + 1)
    elif isinstance(value, dict):
        yield value
        for name, each in value.items():
            if name != "@context":
                yield from _nodes(each, depth + 1)


def _last(name: str) -> str:
    return name.replace("#", "/").replace(":", "/").rpartition("/")[2]


def _all(node: dict[str, Any], wanted: str) -> list[Any]:
    found = [each for name, each in node.items() if name[:1] != "@" and _last(name) == wanted]
    return [one for each in found for one in (each if isinstance(each, list) else [each])]


def _whole(value: object, nodes: dict[str, Any]) -> dict[str, Any] | None:
    """Return a node of a JSON-LD document; a reference is looked up in `nodes`. Return None if there is no such
    node."""
    if isinstance(value, str):
        value = {"@id": value}
    if not isinstance(value, dict):
        return None
    inner = [name for name in value if name != "@id"]
    found = value if inner else nodes.get(str(value.get("@id")))
    return found if isinstance(found, dict) else None


def _text(node: dict[str, Any], wanted: str) -> str:
    for each in _all(node, wanted):
        said = each.get("@value", each.get("@id")) if isinstance(each, dict) else each
        if isinstance(said, (str, int)) and not isinstance(said, bool):
            return str(said)
    return ""


def _kinds(node: dict[str, Any]) -> set[str]:
    said = node.get("@type")
    return {_last(each) for each in (said if isinstance(said, list) else [said]) if isinstance(each, str)}
