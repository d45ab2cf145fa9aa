"""Nobody can tell what does not exist from what may not be shown: the same bytes and headers on every address.

The addresses come from the table of routes, so a new route is tried by itself.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from kfm.api import application
from kfm.api.route_table import ROUTES
from kfm.api.routes import ApiRoute
from tests.api.serving_site import ABSENT, CLOSED, OPEN, SECRET, Site, addresses, make, serving

SHIPPED = application.SECONDS_OF_ABSENCE  # before the server of the tests shortens it
NAMING = [route for route in ROUTES if "{name}" in route.path or "{thing}" in route.path]
HEADERS: tuple[dict[str, str], ...] = (
    {},
    {"Range": "bytes=0-0"},
    {"Range": "bytes=999999-"},
    {"If-None-Match": "*"},
    {"If-None-Match": '"0"'},
    {"Accept": "text/html"},
)
PAIRS = 2000
METHODS = ("POST", "PUT", "DELETE", "PATCH", "OPTIONS")


@pytest.mark.parametrize("route", NAMING, ids=lambda route: route.name)
def test_what_is_closed_is_answered_like_what_does_not_exist(route: ApiRoute, served: Site) -> None:
    at = {name: addresses(route, name, served) for name in (OPEN, SECRET, CLOSED, ABSENT[0])}
    asked = [("", method, headers) for method in ("GET", "HEAD") for headers in HEADERS]
    asked += [("", method, {}) for method in METHODS]
    asked += [(query, "GET", {}) for query in ("?limit=1", "?zzz=1", "?limit=1&limit=1")]
    for query, method, headers in asked:
        absent = served.ask(at[ABSENT[0]] + query, method, headers).steady()
        for closed in (SECRET, CLOSED):
            assert served.ask(at[closed] + query, method, headers).steady() == absent, (method, query, headers)
    assert served.ask(at[OPEN], route.method).status == 200
    assert served.ask(at[ABSENT[0]], route.method).status == 404


@pytest.mark.parametrize(
    "shape", ["{}@0", "{}@sha256:00", "published/{}", "processed/{}", "raw/{}/0", "kfm://dataset/{}"]
)
def test_no_other_name_of_a_closed_dataset_tells_that_it_exists(shape: str, served: Site) -> None:
    """Focus Mode takes refs, versions and runs too."""
    for path in ("/v1/focus/{}", "/focus/{}"):
        absent, *closed = (
            served.ask(path.format(shape.format(name).replace("/", "%2F"))).steady()
            for name in (ABSENT[0], SECRET, CLOSED)
        )
        assert absent[0] == 404
        assert all(each == absent for each in closed)


def test_a_dataset_is_gone_from_every_address_with_the_next_request(tmp_path: Path, clean: None) -> None:
    make(tmp_path)
    with serving(tmp_path) as site:
        asked = [(route, addresses(route, OPEN, site), addresses(route, ABSENT[0], site)) for route in NAMING]
        before = [site.ask(at, route.method).status for route, at, _ in asked]
        assert before == [200] * len(asked)
        tag = site.ask(addresses(NAMING[0], OPEN, site)).headers["etag"]
        site.close_dataset(OPEN)
        for route, at, absent in asked:
            for headers in ({}, {"If-None-Match": tag}):
                answer = site.ask(at, route.method, headers).steady()
                assert answer == site.ask(absent, route.method, headers).steady(), route.name
                assert answer[0] == 404
        for path in ("/", "/v1/datasets", "/stac", "/stac/collections", "/stac/search"):
            assert OPEN.encode() not in site.ask(path).body, path


def area(absent: Sequence[float], closed: Sequence[float]) -> tuple[float, float]:
    """Return the area under the ROC curve of a caller who tells the two by their time, and its standard error (Hanley
    and McNeil)."""
    ranked = sorted([(each, 0) for each in absent] + [(each, 1) for each in closed])
    total = sum(rank for rank, (_, kind) in enumerate(ranked, 1) if kind)
    n, m = len(closed), len(absent)
    auc = (total - n * (n + 1) / 2) / (n * m)
    q1, q2 = auc / (2 - auc), 2 * auc * auc / (1 + auc)
    variance = (auc * (1 - auc) + (n - 1) * (q1 - auc * auc) + (m - 1) * (q2 - auc * auc)) / (n * m)
    return auc, variance**0.5


def test_the_area_finds_a_difference_that_is_planted() -> None:
    draw = random.Random(1)
    same = [draw.gauss(1, 0.1) for _ in range(2000)]
    auc, error = area(same, [draw.gauss(1, 0.1) for _ in range(2000)])
    assert abs(auc - 0.5) < 1.96 * error
    auc, error = area(same, [draw.gauss(1.02, 0.1) for _ in range(2000)])
    assert auc - 0.5 > 1.96 * error


@pytest.mark.long
@pytest.mark.parametrize("closed", [SECRET, CLOSED])
@pytest.mark.parametrize("path", ["/v1/datasets/{}", "/v1/focus/{}", "/stac/collections/{}", "/datasets/{}/"])
def test_the_time_of_an_answer_does_not_tell_either(
    path: str, closed: str, served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "SECONDS_OF_ABSENCE", SHIPPED)
    draw, times = random.Random(7), {closed: [], ABSENT[0]: []}  # type: ignore[var-annotated]
    for name in times:
        for _ in range(50):
            served.ask(path.format(name))
    for _ in range(PAIRS):
        for name in draw.sample(sorted(times), 2):
            began = time.perf_counter_ns()
            assert served.ask(path.format(name)).status == 404
            times[name].append(time.perf_counter_ns() - began)
    auc, error = area(times[ABSENT[0]], times[closed])
    assert auc - 1.96 * error <= 0.5 <= auc + 1.96 * error, (auc, error)
