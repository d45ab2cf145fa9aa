"""The contract says what the server does: one test over the whole table of routes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest

from kfm.api.console.contract_page import contract_page
from kfm.api.openapi import DOCUMENTS, document, statuses
from kfm.api.problems import TITLES
from kfm.api.route_table import ROUTES
from kfm.api.routes import ApiRoute
from tests.api.serving_site import CANARY, CLOSED, OPEN, SECRET, Site, addresses, make, readable, serving

READ = readable(ROUTES)
# Pages that say what time it is are never the same twice.
LASTING = [route for route in READ if route.path not in ("/now", "/v1/now")]
EACH = pytest.mark.parametrize("route", READ, ids=lambda route: route.name)
EACH_LASTING = pytest.mark.parametrize("route", LASTING, ids=lambda route: route.name)


def test_the_document_is_openapi_and_names_every_route_once() -> None:
    described = document(ROUTES)
    operations = [each for path in described["paths"].values() for each in path.values()]
    assert described["openapi"] == "3.1.0"
    assert sorted(each["operationId"] for each in operations) == sorted({route.name for route in ROUTES})
    assert len(operations) == len(ROUTES)
    assert document(ROUTES) == described
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema"})
    for schema in described["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


def test_every_reference_of_the_document_leads_to_a_schema() -> None:
    text = json.dumps(document(ROUTES))
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named and named <= set(document(ROUTES)["components"]["schemas"])


def test_every_route_says_who_may_ask_and_every_status_has_its_words() -> None:
    described = document(ROUTES)
    for route in ROUTES:
        assert route.audiences and set(statuses(route)) - {200, 202, 206, 303, 304} <= set(TITLES), route.name
    assert all(each["x-kfm-audiences"] for path in described["paths"].values() for each in path.values())
    assert set(DOCUMENTS) <= {route.name for route in ROUTES}


def test_the_page_lists_every_route_and_needs_no_script() -> None:
    page = contract_page(document(ROUTES), "Archive").decode()
    for route in ROUTES:
        assert f'id="{route.name}"' in page
    assert "<script" not in page and "src=" not in page and 'href="http' not in page


def test_the_server_answers_with_its_own_description(served: Site) -> None:
    answer = served.ask("/v1/openapi.json")
    assert answer.status == 200 and answer.headers["content-type"].startswith("application/vnd.oai.openapi+json")
    assert json.loads(answer.body) == document(ROUTES)
    assert served.ask("/v1/docs").status == 200


@EACH_LASTING
def test_an_etag_that_the_caller_has_is_answered_with_304(route: ApiRoute, served: Site) -> None:
    at = addresses(route, OPEN, served)
    first = served.ask(at)
    assert first.status == 200 and first.body and first.headers["etag"]
    assert served.ask(at).steady() == first.steady()
    for known in (first.headers["etag"], f'"other", W/{first.headers["etag"]}', "*"):
        again = served.ask(at, headers={"If-None-Match": known})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"]), known
    assert served.ask(at, headers={"If-None-Match": '"other"'}).steady() == first.steady()


@EACH_LASTING
def test_head_answers_as_get_does_without_the_body(route: ApiRoute, served: Site) -> None:
    for dataset in (OPEN, SECRET):
        at = addresses(route, dataset, served)
        got = served.ask(at)
        for headers in ({}, {"Range": "bytes=0-1"}):
            head = served.ask(at, "HEAD", headers)
            assert head.steady()[:2] == got.steady()[:2]
            assert head.body == b""


@pytest.mark.parametrize("route", [*READ, *(r for r in ROUTES if r.method != "GET")], ids=lambda route: route.name)
def test_an_unknown_or_a_repeated_parameter_is_refused(route: ApiRoute, served: Site) -> None:
    at = addresses(route, OPEN, served)
    asked = ["limit=1&limit=1", "a=&a="] + ([] if route.free_query else ["zzz=1", "Limit=1", "%00=1"])
    for query in asked:
        answer = served.ask(f"{at}?{query}", route.method)
        assert answer.status == 400, query
        problem = json.loads(answer.body)
        assert problem["code"] == "input.bad" and problem["detail"]
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("route", [*READ, *(r for r in ROUTES if r.method != "GET")], ids=lambda route: route.name)
def test_a_method_that_is_not_offered_says_which_are(route: ApiRoute, served: Site) -> None:
    at = addresses(route, OPEN, served)
    offered = {each.method for each in ROUTES if each.path == route.path}
    offered |= {"HEAD"} if "GET" in offered else set()
    for method in {"DELETE", "PUT", "PATCH", "OPTIONS", "POST", "TRACE"} - offered:
        answer = served.ask(at, method)
        assert answer.status == 405 and set(answer.headers["allow"].split(", ")) == offered


def test_a_cursor_goes_through_the_datasets_by_name_and_outlives_the_one_it_names(tmp_path: Path, clean: None) -> None:
    make(tmp_path, closing=False)
    with serving(tmp_path) as site:
        first = json.loads(site.ask("/v1/datasets?limit=1").body)
        second = json.loads(site.ask(f"/v1/datasets?limit=1&after={first['next']}").body)
        assert [each["dataset"] for page in (first, second) for each in page["datasets"]] == [OPEN, CLOSED]
        assert (first["next"], second["next"]) == (OPEN, CLOSED)
        site.close_dataset(OPEN)  # the next page is the same, although the dataset that the cursor names is gone
        again = json.loads(site.ask(f"/v1/datasets?limit=1&after={first['next']}").body)
        assert again["datasets"] == second["datasets"]
        assert json.loads(site.ask("/v1/datasets?limit=1").body)["datasets"] == second["datasets"]


@EACH
def test_no_answer_names_what_is_closed(route: ApiRoute, served: Site) -> None:
    answer = served.ask(addresses(route, OPEN, served))
    said = answer.body + repr(answer.headers).encode()
    assert answer.status == 200 and not any(word.encode() in said for word in (CANARY, SECRET, CLOSED))
