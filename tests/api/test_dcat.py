"""The DCAT catalog over HTTP: the records of the published one, judged when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kfm.app.metadata.catalog_validation import check
from kfm.app.metadata.catalogs import catalog_messages
from kfm.app.session.session import open_session
from kfm.config import load
from tests.api.serving_site import CANARY, CLOSED, OPEN, SECRET, STORY, Site
from tests.projections import samples

AT = "/catalog.jsonld"


def catalog(site: Site) -> dict[str, Any]:
    answer = site.ask(AT)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/ld+json")
    found: dict[str, Any] = json.loads(answer.body)
    return found


def addresses(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        yield from (part[name] for name in ("accessURL", "downloadURL") if name in part)
        part = list(part.values())
    for each in part if isinstance(part, list) else []:
        yield from addresses(each)


def test_it_is_valid_and_holds_what_may_be_shown_and_nothing_else(served: Site) -> None:
    found = catalog(served)
    assert check(found) == ("dcat", [], [])
    assert [each["@id"] for each in found["dataset"]] == [f"kfm://dataset/{name}" for name in (OPEN, STORY)]
    text = json.dumps(found)
    assert not any(word in text for word in (CANARY, SECRET, CLOSED))
    found["dataset"][0].pop("title")
    assert check(found)[1], "the same check finds a fault"


def test_it_says_what_the_published_catalog_says_at_addresses_of_the_server(served: Site) -> None:
    with open_session(load(str(served.folder / "kfm.yml"), {}), mode="read") as session:
        published = catalog_messages(session).of(OPEN).catalogued().dcat
    entry = catalog(served)["dataset"][0]
    assert {name for name in entry if entry[name] != published[name]} == {"distribution"}
    assert [each["@id"] for each in entry["distribution"]] == [each["@id"] for each in published["distribution"]]
    found = list(addresses(entry))
    assert found and all(served.ask(at.removeprefix(served.base)).status == 200 for at in found), found


def test_people_and_programs_find_the_way_to_it(served: Site) -> None:
    links = json.loads(served.ask("/stac").body)["links"]
    assert {"rel": "alternate", "href": served.base + AT, "type": "application/ld+json"}.items() <= next(
        each for each in links if each["rel"] == "alternate"
    ).items()
    assert AT in [each["href"] for each in json.loads(served.ask("/v1").body)["links"]]
    assert f'href="{AT}"'.encode() in served.ask("/").body


@pytest.mark.long
def test_it_has_the_shapes_of_dcat_us(served: Site) -> None:
    import pyshacl
    import rdflib

    shapes = rdflib.Graph().parse(samples.STANDARDS / "dcat-us-3/shacl/dcat-us_3.0_shacl_shapes.ttl")
    for broken in (False, True):
        found = catalog(served)
        if broken:
            del found["dataset"][0]["publisher"]
        data = rdflib.Graph().parse(data=json.dumps(found), format="json-ld", publicID=served.base + AT)
        conforms, _, text = pyshacl.validate(data, shacl_graph=shapes)
        assert conforms is not broken, text
