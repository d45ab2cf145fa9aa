"""Schemathesis asks a real server what its own description permits, and what it does not.

Every answer must have a status, a type and a body that the description has for it; none may be a server's mistake, and
none may name what is closed. Some requests have headers on top that no description lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.core.failures import FailureGroup

from tests.api.serving_site import ABSENT, CANARY, CLOSED, OPEN, SECRET, Site

load_all_checks()
CHECKS = [
    schemathesis.checks.CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "response_headers_conformance",
        "negative_data_rejection",
    )
]
LENIENT = [each for each in CHECKS if each.__name__ != "negative_data_rejection"]
NAMES = st.sampled_from([OPEN, OPEN, SECRET, CLOSED, *ABSENT, "all", "current.json", "..", "%", "a\nb", "\U0001f40d"])
HEADERS = {
    "Range": st.sampled_from(
        ["bytes=0-3", "bytes=-2", "bytes=5-1", "bytes=99999-", "bytes=0-0,2-3", "lines=1-2", "x" * 99]
    ),
    "If-Range": st.sampled_from(['"0"', "*", "yesterday"]),
    "If-None-Match": st.sampled_from(["*", '"0"', 'W/"1", "2"', "," * 99, "\xe9"]),
    "Accept": st.sampled_from(["*/*", "text/html", "image/png;q=0", "a/b;c=d,,;", "\xff/*", "application/json"]),
    "Host": st.sampled_from(["example.org", "[::1]:80", "a/b", '"><x', "x" * 300, "127.0.0.1:99999"]),
    "X-Forwarded-Host": st.just("example.org"),
    "Accept-Encoding": st.sampled_from(["gzip", "identity;q=0", "*;q=0"]),
    "Authorization": st.sampled_from(["Basic eDp4", "Bearer"]),
}
MORE = st.fixed_dictionaries({}, optional=HEADERS)


def strategies(site: Site) -> Iterator[Any]:
    schema = schemathesis.openapi.from_url(f"{site.base}/v1/openapi.json")
    for found in schema.get_all_operations():
        operation = found.ok()
        if "text/event-stream" in str(operation.definition.raw["responses"]):  # its answer has no end
            continue
        yield operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
        takes = [each for each in operation.query if each.name != "If-None-Match"] or operation.body
        if takes:
            yield operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)


def judged(site: Site, wanted: int, number: int) -> tuple[int, set[int]]:
    """Ask so many times and return how often it was asked, and every status that was seen."""
    pairs = list(strategies(site))
    asked, seen = 0, set[int]()
    session = requests.Session()
    for strategy in pairs:

        @seed(number)
        @settings(
            max_examples=wanted // len(pairs) + 1,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy, names=st.lists(NAMES, min_size=2, max_size=2), more=MORE, is_plain=st.booleans())
        def ask(case: Any, names: list[str], more: dict[str, str], *, is_plain: bool) -> None:
            nonlocal asked
            if not is_plain:
                for key, name in zip(list(case.path_parameters or {}), names, strict=False):
                    case.path_parameters[key] = name
            answer = case.call(session=session, headers=None if is_plain else more)
            asked += 1
            seen.add(answer.status_code)
            case.validate_response(answer, checks=CHECKS if is_plain else LENIENT)
            said = answer.content + repr(dict(answer.headers)).encode()
            assert CANARY.encode() not in said

        ask()
    return asked, seen


def test_500_requests_are_answered_as_the_description_says(served: Site) -> None:
    asked, seen = judged(served, 480, 1)
    assert asked >= 480
    assert {200, 304, 400, 404} <= seen <= {200, 206, 303, 304, 400, 401, 403, 404, 413, 415, 416, 429}


@pytest.mark.long
@pytest.mark.parametrize("number", range(10))
def test_20_000_requests_are_answered_as_the_description_says(number: int, served: Site) -> None:
    asked, seen = judged(served, 2000, number + 100)
    assert asked >= 2000 and {200, 304, 400, 404} <= seen


def test_an_answer_that_the_description_does_not_have_is_found(served: Site) -> None:
    """The judge is real: a description without what the server answers fails."""
    wrong = served.ask("/v1/openapi.json").body.replace(
        b'"ledger_entries":{"type":"integer"}', b'"ledger_entries":{"type":"string"}'
    )
    schema = schemathesis.openapi.from_dict(json.loads(wrong))
    case = schema["/v1"]["GET"].Case()
    answer = case.call(base_url=served.base)
    with pytest.raises(FailureGroup):
        case.validate_response(answer, checks=CHECKS)
