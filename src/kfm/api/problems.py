"""Answers about errors, as RFC 9457 problem documents. They say what to do next and quote no data."""

from __future__ import annotations

import msgspec

from kfm.errors import (
    BadInput,
    Busy,
    Conflict,
    Corrupt,
    Denied,
    Frozen,
    KfmError,
    Refused,
    Unavailable,
)

PROBLEM = "application/problem+json"
# The status of an error, by the first of these types that it is.
STATUSES: tuple[tuple[type[KfmError], int], ...] = (
    (BadInput, 400),
    (Refused, 422),
    (Denied, 403),
    (Frozen, 409),
    (Busy, 503),
    (Conflict, 409),
    (Unavailable, 503),
    (Corrupt, 503),
    (KfmError, 503),
)
TITLES = {
    400: "the request has a mistake",
    401: "the token is missing or is not valid",
    403: "this is not allowed",
    404: "there is nothing at this address",
    405: "this method is not offered here",
    406: "no form that was asked for is offered here",
    408: "the request took too long",
    409: "the state does not permit this now",
    412: "the state has changed since it was read",
    413: "the request is too large",
    415: "the body has another form than is taken here",
    416: "the range lies outside the file",
    422: "the request was refused",
    429: "too many requests",
    500: "the server made a mistake",
    503: "try again later",
}


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, and what to do."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = ""
    code: str = ""


class HttpProblem(Exception):
    """Ends a request with a problem document."""

    def __init__(
        self, status: int, detail: str = "", code: str = "", headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(detail)
        self.headers = headers
        self.problem = Problem(title=TITLES[status], status=status, detail=detail, code=code)


def not_found() -> HttpProblem:
    """Return the one answer about what is absent and about what may not be shown."""
    return HttpProblem(404)


def as_problem(problem: KfmError) -> Problem:
    """Return the problem document of an error. One that is not the caller's mistake keeps its text to itself."""
    status = next(status for kind, status in STATUSES if isinstance(problem, kind))
    shown = problem.without_names()
    detail = str(shown) if status < 500 else ""
    return Problem(title=TITLES[status], status=status, detail=detail, code=problem.code)


def body_of(problem: Problem) -> bytes:
    return msgspec.json.encode(problem) + b"\n"
