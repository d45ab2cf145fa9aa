"""Read STAC: a static catalog by its links, an API by its pages. Each collection is a finding, each asset an offer."""

from __future__ import annotations

from collections import deque
from typing import Any

from kfm.clock import parse_instant
from kfm.errors import BadInput, Refused
from kfm.model.reports.discovered_datasets import Finding, words
from kfm.sources.catalogs.crawl import Crawl, Group, box, finish, shown

_API = "https://api.stacspec.org/"
_ASIDE = frozenset({"thumbnail", "overview", "metadata"})  # roles of assets that describe the data


def is_stac(value: dict[str, Any]) -> bool:
    return isinstance(value.get("stac_version"), str) or _is_items(value)


def is_api(value: dict[str, Any]) -> bool:
    said = value.get("conformsTo")
    return (isinstance(said, list) and any(isinstance(each, str) and each.startswith(_API) for each in said)) or (
        _is_items(value)
    )


def _is_items(value: dict[str, Any]) -> bool:
    features = value.get("features")
    if value.get("type") != "FeatureCollection" or not isinstance(features, list):
        return False
    return all(isinstance(each, dict) and isinstance(each.get("stac_version"), str) for each in features)


class _Groups:
    """Collects items by collection. An item without a collection is a finding of its own."""

    def __init__(self, crawl: Crawl) -> None:
        self.crawl = crawl
        self.all: dict[str, Group] = {}
        self._items: dict[tuple[str, str], str] = {}

    def collection(self, uri: str, value: dict[str, Any]) -> Group:
        name = _id(uri, value)
        group = self.all.setdefault(name, Group(name, uri))
        group.title = words(value.get("title"), 200)
        group.description = words(value.get("description"), 1000)
        group.license = _license(value.get("license"))
        group.attribution = _attribution(value.get("providers"))
        extent = value.get("extent")
        if isinstance(extent, dict):
            boxes, times = _first(extent.get("spatial"), "bbox"), _first(extent.get("temporal"), "interval")
            group.bbox, group.interval = box(boxes), _interval(times)
        _take_assets(self.crawl, group, uri, "", value.get("assets"))
        return group

    def item(self, uri: str, value: dict[str, Any], within: str) -> None:
        name = _id(uri, value)
        said = value.get("collection")
        of = said if isinstance(said, str) and said else within
        group = self.all.setdefault(of or name, Group(of or name, uri))
        if self._items.setdefault((of, name), uri) != uri:
            raise Refused(f"{shown(uri)} describes one item in two ways", hint="ask the server's operator")
        if not of:
            properties = value.get("properties")
            said = properties if isinstance(properties, dict) else {}
            group.title = words(said.get("title"), 200)
            group.description = words(said.get("description"), 1000)
            group.license = _license(said.get("license"))
            group.bbox = box(value.get("bbox"))
            at = said.get("datetime")
            group.interval = _interval([at, at] if at else [said.get("start_datetime"), said.get("end_datetime")])
        _take_assets(self.crawl, group, uri, name, value.get("assets"))


def read_static(crawl: Crawl, uri: str, value: dict[str, Any]) -> list[Finding]:
    groups = _Groups(crawl)
    waiting: deque[tuple[str, dict[str, Any] | None, str]] = deque([(uri, value, "")])
    while waiting:
        here, said, within = waiting.popleft()
        if said is None:
            if not crawl.may_follow(here):
                continue
            said = crawl.document(here)
        kind = said.get("type")
        if not isinstance(said.get("stac_version"), str) or kind not in ("Catalog", "Collection", "Feature"):
            raise BadInput(f"{shown(here)} is not a STAC document", hint="ask the server's operator")
        if kind == "Feature":
            groups.item(here, said, within)
            continue
        if kind == "Collection":
            within = groups.collection(here, said).name
        waiting.extend((there, None, within) for there in _links(crawl, here, said, ("child", "item")))
    return finish(list(groups.all.values()), "stac", crawl)


def read_api(crawl: Crawl, uri: str, value: dict[str, Any]) -> list[Finding]:
    groups = _Groups(crawl)
    if _is_items(value):
        _items(crawl, groups, uri, value, "")
    elif value.get("type") == "Collection":
        _collection(crawl, groups, uri, value)
    else:
        data = _links(crawl, uri, value, ("data",))
        if len(data) != 1 or not crawl.may_follow(data[0]):
            raise BadInput(
                f"{shown(uri)} does not have exactly one link to its collections", hint="ask the server's operator"
            )
        for here, page in _pages(crawl, data[0], crawl.document(data[0])):
            listed = page.get("collections")
            if not isinstance(listed, list):
                raise BadInput(f"{shown(here)} lists no collections", hint="ask the server's operator")
            for each in listed:
                if not isinstance(each, dict):
                    raise BadInput(
                        f"{shown(here)} lists an entry that is not a collection", hint="ask the server's operator"
                    )
                _collection(crawl, groups, here, each)
    return finish(list(groups.all.values()), "stac-api", crawl)


def _collection(crawl: Crawl, groups: _Groups, uri: str, value: dict[str, Any]) -> None:
    group = groups.collection(uri, value)
    for there in _links(crawl, uri, value, ("items",)):
        if crawl.may_follow(there):
            _items(crawl, groups, there, crawl.document(there), group.name)


def _items(crawl: Crawl, groups: _Groups, uri: str, value: dict[str, Any], within: str) -> None:
    count, promised = 0, None
    for here, page in _pages(crawl, uri, value):
        features = page.get("features")
        if page.get("type") != "FeatureCollection" or not isinstance(features, list):
            raise BadInput(f"{shown(here)} lists no items", hint="ask the server's operator")
        matched = page.get("numberMatched")
        promised = matched if isinstance(matched, int) else promised
        for each in features:
            if not isinstance(each, dict) or each.get("type") != "Feature":
                raise BadInput(f"{shown(here)} lists an entry that is not an item", hint="ask the server's operator")
            groups.item(f"{here}#{_id(here, each)}", each, within)
        count += len(features)
    if promised is not None and promised != count:
        raise Refused(
            f"{shown(uri)} announces {promised} items and returns {count}",
            hint="it may have changed meanwhile: try again, then ask the server's operator",
        )


def _pages(crawl: Crawl, uri: str, value: dict[str, Any]) -> Any:
    """Yield this page and all following pages. A page that was read already is a loop and raises Refused."""
    while True:
        yield uri, value
        after = [each for each in _link_list(value) if each.get("rel") == "next"]
        if not after:
            return
        if len(after) > 1 or str(after[0].get("method", "GET")).upper() != "GET":
            raise Refused(
                f"{shown(uri)} has a next page that KFM cannot follow", hint="KFM follows one GET link per page"
            )
        there = crawl.at(uri, after[0].get("href"))
        if there not in crawl.pages and not crawl.may_follow(there):
            raise Refused(f"{shown(uri)} continues at another server", hint="ask the server's operator")
        uri, value = there, crawl.document(there)


def _links(crawl: Crawl, uri: str, value: dict[str, Any], wanted: tuple[str, ...]) -> list[str]:
    found = [crawl.at(uri, each.get("href")) for each in _link_list(value) if each.get("rel") in wanted]
    return [each for each in dict.fromkeys(found) if each]


def _link_list(value: dict[str, Any]) -> list[dict[str, Any]]:
    links = value.get("links")
    return [each for each in links if isinstance(each, dict)] if isinstance(links, list) else []


def _take_assets(crawl: Crawl, group: Group, uri: str, item: str, assets: object) -> None:
    if not isinstance(assets, dict):
        return
    wanted = {}
    for name, asset in assets.items():
        roles = asset.get("roles") if isinstance(asset, dict) else None
        aside = isinstance(roles, list) and any(role in _ASIDE for role in roles if isinstance(role, str))
        if isinstance(asset, dict) and not aside:
            wanted[name] = asset
    for name, asset in wanted.items():
        there = crawl.offered(uri.partition("#")[0], asset.get("href"))
        if there:
            called = item if item and len(wanted) == 1 else f"{item}-{name}".strip("-")
            checksum = asset.get("file:checksum")
            sha256 = isinstance(checksum, str) and checksum.startswith("1220") and len(checksum) == 68
            digest = f"sha256:{str(checksum)[4:].lower()}" if sha256 else ""
            group.add(called, there, asset.get("type"), asset.get("file:size"), digest)


def _id(uri: str, value: dict[str, Any]) -> str:
    found = value.get("id")
    if not isinstance(found, str) or not found or len(found) > 1000:
        raise BadInput(f"{shown(uri)} has no id", hint="ask the server's operator")
    return found


def _license(said: object) -> str:
    text = words(said, 100)
    return "" if text in ("proprietary", "various", "other") else text


def _attribution(providers: object) -> str:
    if not isinstance(providers, list):
        return ""
    found = [words(each.get("name"), 100) for each in providers if isinstance(each, dict)]
    return ", ".join(name for name in found if name)[:200]


def _first(value: object, name: str) -> object:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner[0] if isinstance(inner, list) and inner else None


def _interval(value: object) -> tuple[str | None, ...]:
    """Return the first and the last instant of an interval; () if one of them cannot be read."""
    if not isinstance(value, list) or len(value) != 2 or value == [None, None]:
        return ()
    for each in value:
        try:
            if each is not None:
                parse_instant(each if isinstance(each, str) else "", "")
        except BadInput:
            return ()
    return tuple(value)
