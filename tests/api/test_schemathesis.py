"""Schemathesis asks real servers, in every role, what their own description permits and what it does not.

Every answer must have a status, a type, headers and a body that the description has for it; none may be a server's
mistake, give a role what the table of routes does not give it, or name what is closed. Some requests have headers on
top that no description lists. Routes that change something are in the table, too, so they are asked like all others.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.core.failures import FailureGroup

from kfm.api import application
from kfm.api.route_table import ROUTES
from kfm.api.routes import STAFF
from kfm.api.server import MAX_HEAD
from tests.api.conftest import environment
from tests.api.roles_site import NOWHERE, ROLES, Roles, served_roles, shows, template_of, wrongs
from tests.api.serving_site import (
    ABSENT,
    CANARY,
    CLOSED,
    OPEN,
    REQUESTED,
    SECRET,
    Answer,
    Site,
    addresses,
    is_endless,
)

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


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    """Servers of their own: what is asked here may change something."""
    shipped, application.SECONDS_OF_ABSENCE = application.SECONDS_OF_ABSENCE, 0.001
    try:
        with environment(), served_roles(tmp_path_factory.mktemp("roles")) as found:
            yield found
    finally:
        application.SECONDS_OF_ABSENCE = shipped


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


class Seen:
    """What was asked and answered."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()  # by role
        self.shown: Counter[str] = Counter()  # by role: answers that show something of the public dataset
        self.refused: Counter[str] = Counter()  # by role: answers 404 where others have something
        self.statuses: Counter[int] = Counter()
        self.cut = 0  # heads that were too long


def judged(roles: Roles, wanted: int, number: int, who: Sequence[str]) -> Seen:
    """Ask so many times, as these roles in turn, and return what was seen."""
    pairs, seen, session = list(strategies(roles.listed)), Seen(), requests.Session()
    nowhere = {role: roles.ask(role, NOWHERE) for role in who}
    turn = itertools.cycle(who)
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
            role = next(turn)
            if not is_plain:
                for key, name in zip(list(case.path_parameters or {}), names, strict=False):
                    case.path_parameters[key] = name
            headers = {**roles.headers(role), **({} if is_plain else more)}
            try:
                answer = case.call(base_url=roles.site(role).base, session=session, headers=headers)
            except requests.ConnectionError as cut:
                assert len(cut.request.url) + 4096 > MAX_HEAD, (
                    "only a head that is too long is cut off without an answer"
                )
                seen.cut += 1
                return
            at = answer.request.url.removeprefix(roles.site(role).base)
            told = Answer(answer.status_code, {n.lower(): v for n, v in answer.headers.items()}, answer.content)
            # `..` and `/` in a name lead elsewhere
            if template_of(at) in ("", case.path):
                case.validate_response(answer, checks=CHECKS if is_plain else LENIENT)
            found = wrongs(role, str(case.method), at, told, nowhere[role])
            assert not found, (role, case.method, at, found, told)
            seen.asked[role] += 1
            seen.shown[role] += shows(told)
            seen.refused[role] += told.status == 404
            seen.statuses[told.status] += 1

        ask()
    return seen


def test_500_requests_of_all_roles_are_answered_as_the_description_says(roles: Roles) -> None:
    seen = judged(roles, 500, 1, ROLES)
    assert seen.asked.total() >= 500 and min(seen.asked[role] for role in ROLES) > 70
    assert all(seen.shown[role] and seen.refused[role] for role in ROLES)
    assert {200, 400, 401, 404} <= set(seen.statuses)


@pytest.mark.long
@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("role", ROLES)
def test_20_000_requests_are_answered_as_the_description_says(role: str, number: int, roles: Roles) -> None:
    seen = judged(roles, 1700, number + 100, [role])
    assert seen.asked[role] >= 1667 and seen.shown[role] > 10 and {200, 304, 400, 404} <= set(seen.statuses)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_gets_what_the_table_gives_it_and_nothing_else(role: str, roles: Roles) -> None:
    """Every route, also those whose answers have no end: the table's audiences against the answers."""
    nowhere, statuses = roles.ask(role, NOWHERE), Counter[int]()
    for route in ROUTES:
        if route.method != "GET" or (is_endless(route) and role in route.audiences):
            continue
        at = addresses(route, OPEN, roles.site(role))
        answer = roles.ask(role, at)
        is_there = role in route.audiences and route.asks is None and not REQUESTED & set(route.path.split("/"))
        assert (answer.status == 200) == is_there, (route.name, answer)
        assert not wrongs(role, "GET", at, answer, nowhere)
        if not is_there:
            assert answer.steady() == nowhere.steady()
        statuses[answer.status] += 1
    assert statuses[200] > 20 and (statuses[404] > 3 or role in STAFF)


def test_the_rules_of_the_roles_find_what_is_planted(roles: Roles) -> None:
    """An answer of another role, a canary, a closed name, a telling 404 and a mistake of the server are all found."""
    nowhere, staff = roles.ask("public", NOWHERE), roles.ask("operator", "/v1/governance")
    assert staff.status == 200 and wrongs("operator", "GET", "/v1/governance", staff, nowhere) == []
    assert wrongs("public", "GET", "/v1/governance", staff, nowhere)
    plain = roles.ask("public", "/v1/datasets")
    assert shows(plain) and wrongs("public", "GET", "/v1/datasets", plain, nowhere) == []
    for planted in (
        plain._replace(body=plain.body + CANARY.encode()),
        plain._replace(headers={**plain.headers, "etag": CANARY}),
        plain._replace(body=plain.body + SECRET.encode()),
        plain._replace(status=404),
        plain._replace(status=500),
    ):
        assert wrongs("public", "GET", "/v1/datasets", planted, nowhere)
    assert wrongs("viewer", "GET", f"/v1/datasets/{CLOSED}", plain, nowhere)
    assert wrongs("viewer", "POST", "/v1/datasets", plain, nowhere), "no such method there"


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
