"""Catalogs with hostile values anywhere give an answer or a clear error, and never exceed the limits."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kfm.app.previews.config_edit import declared
from kfm.errors import KfmError
from kfm.model.reports.discovered_datasets import Discovery
from kfm.parsing.characters import is_printable
from kfm.projections.discovery_draft import documents
from kfm.sources.catalogs.catalog_kinds import read_catalog
from kfm.sources.catalogs.crawl import PageBody
from tests.app.discovery import catalogs
from tests.app.discovery.catalogs import Site, collection, item

Count = Callable[..., None]
HOME = "https://survey.example"
CONFIG = b"datasets:\n  mine:\n    updater: a.py:A\n"
JUNK: tuple[Any, ...] = (
    None, True, -1, 1e308, 2**70, "", "x" * 3000, "\ud800", "a\nb: {", "../../up", "http://", "http://[::1", "%00",
    "\x00", [], {}, [[]], {"a": {}}, [None], {"href": None}, "file:///etc/passwd", "//x.example/x", "https://u:p@x.org/",
    "javascript:x", {"@id": 7}, {"@value": None}, "con", "…" * 90, "- &a *a", "#", "'\"`|",
)  # fmt: skip


def whole() -> dict[str, dict[str, Any]]:
    """A site for each kind: path to document."""
    web = Site()
    web.url = HOME
    catalogs.api(web, {"wells": [item(f"w{n}", f"{HOME}/w{n}.csv", "wells") for n in range(3)]})
    api = {path: json.loads(body) for path, (_, _, body) in web.files.items()}
    links = [{"rel": "item", "href": "./i.json"}, {"rel": "child", "href": "./d.json"}]
    static = {
        "/c.json": collection("c", links=links),
        "/i.json": item("i", "./i.csv", **{"file:checksum": "1220" + "ab" * 32, "file:size": 7}),
        "/d.json": collection("d", assets={"data": {"href": "d.csv"}}),
    }
    return {"/stac": api, "/c.json": static, "/dcat": {"/dcat": catalogs.dcat(HOME)}}


class Served:
    def __init__(self, files: dict[str, Any]) -> None:
        self.files = files
        self.asked: list[str] = []

    def get(self, uri: str) -> PageBody:
        self.asked.append(uri)
        assert uri.startswith(HOME + "/"), uri  # it never leaves
        body = json.dumps(self.files.get(uri.removeprefix(HOME), {}), allow_nan=False).encode()
        return PageBody("sha256:" + hashlib.sha256(body).hexdigest(), "application/json", body)

    def folder(self, _uri: str) -> list[str] | None:
        return None


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield from places(each, (*path, name))


def broken(files: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    files = copy.deepcopy(files)
    for _ in range(chance.randint(1, 3)):
        path = chance.choice([each for each in places(files) if len(each) > 1])
        inner: Any = files
        try:
            for name in path[:-1]:
                inner = inner[name]
            inner[path[-1]] = copy.deepcopy(chance.choice(JUNK))
        except (TypeError, KeyError, IndexError):  # an earlier one took its place
            continue
    return files


def look(start: str, files: dict[str, Any]) -> Discovery | KfmError:
    served = Served(files)
    try:
        found = read_catalog(served, HOME + start, None, 30)
    except KfmError as problem:
        assert is_printable(str(problem)), problem
        return problem
    assert len(served.asked) == len(set(served.asked)) <= 30
    return found


@pytest.mark.parametrize("start", whole())
def test_every_hostile_value_is_reported_or_accepted_and_nothing_else_happens(start: str, count: Count) -> None:
    chance = random.Random(start)
    taken = refused = 0
    for _ in range(250):
        found = look(start, broken(whole()[start], chance))
        if isinstance(found, KfmError):
            refused += 1
            continue
        taken += 1
        for finding in found.findings:
            said = [finding.title, finding.description, finding.license, finding.attribution, finding.id]
            assert all(map(is_printable, said)) and len(finding.title) <= 200
            assert all(offer.uri.startswith("http") and is_printable(offer.uri) for offer in finding.offers)
            documents(finding, finding.id, found.pages)
        try:  # what was taken can be declared, or is refused as a whole
            declared(CONFIG, "kfm.yml", found)
        except KfmError as problem:
            assert is_printable(str(problem))
    assert taken and refused
    count("catalogs broken at random", taken + refused)


@pytest.mark.parametrize("start", whole())
def test_unbroken_it_is_found_and_can_be_declared(start: str) -> None:
    found = look(start, whole()[start])
    assert isinstance(found, Discovery) and found.findings
    body, done, by_hand = declared(CONFIG, "kfm.yml", found)
    assert len(done) == len(found.findings) and not by_hand and body.startswith(CONFIG)
