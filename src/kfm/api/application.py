"""The governed application: every route of the table, in one read transaction each, judged at the moment it is served.

Paths that are not of the table go to the webhooks, which keep their own application.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route

from kfm.api.problems import PROBLEM, HttpProblem, Problem, as_problem, body_of, not_found
from kfm.api.routes import Answer, ApiRoute, Call, Stream, View, encoded, query_of
from kfm.app.authority import keyring
from kfm.app.serving.item_catalog import ItemCatalog
from kfm.app.serving.shelf import Shelf
from kfm.errors import KfmError, place_of

if TYPE_CHECKING:
    from kfm.api.readers import Readers, Reading

MOST_BODY = 256 * 1024
SECONDS_FOR_BODY = 20.0
SECONDS_OF_ABSENCE = 0.02  # a 404 takes a multiple of this
# Nothing comes from another origin, no page is framed, and no script runs but that of files.
POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self' blob:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# What may be shown can change with the next request: a cache has to ask each time.
CACHING = {"Cache-Control": "no-cache", "Vary": "Accept, Authorization"}
CLOSING = frozenset({408, 413})  # the rest of the body is not read
Asgi = Callable[..., Any]
_log = logging.getLogger("uvicorn.error")


class GovernedApp:
    """Serves the table of routes, and hands everything else to the webhooks."""

    def __init__(
        self,
        routes: Sequence[ApiRoute],
        readers: Readers,
        items: ItemCatalog,
        beyond: Asgi | None,
        *,
        is_open: bool = False,
    ) -> None:
        """`is_open`: the server answers the open internet, and shows everybody what is public alone."""
        self._is_open = is_open
        self._readers = readers
        self._items = items
        self._beyond = beyond
        by_path: dict[str, dict[str, ApiRoute]] = {}
        for each in routes:
            by_path.setdefault(each.path, {})[each.method] = each
        self._routes = [Route(path, _endpoint(self, offered)) for path, offered in by_path.items()]
        for route in self._routes:
            route.methods = None  # the endpoint answers about methods itself

    def close(self) -> None:
        self._readers.close()
        self._items.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if self._beyond is not None:
                await self._beyond(scope, receive, send)
            return
        for route in self._routes:
            matched, child = route.matches(scope)
            if matched is Match.FULL:
                scope.update(child)
                await route.handle(scope, receive, send)
                return
        if self._beyond is not None and scope["path"].startswith(("/webhooks/", "/livez", "/readyz", "/metrics")):
            await self._beyond(scope, receive, send)
            return
        await _problem(not_found().problem)(scope, receive, send)

    async def answer(self, request: Request, offered: dict[str, ApiRoute]) -> Response:
        """Answer a request whose path is in the table. HEAD answers as GET of the whole does, without the body."""
        is_head = request.method == "HEAD"
        began = asyncio.get_running_loop().time()
        method = "GET" if is_head else request.method
        route = offered.get(method)
        if route is None:
            allowed = ", ".join(sorted({*offered, "HEAD"} if "GET" in offered else offered))
            return _problem(HttpProblem(405, f"this address takes: {allowed}").problem, {"Allow": allowed})
        try:
            query, given = query_of(route, list(request.query_params.multi_items()))
            body = await _body(request, route.body) if route.body else b""
            call = Call(
                path=request.path_params,
                query=query,
                given=given,
                body=body,
                base=_base(request),
                headers=_headers(request, is_head=is_head),
            )
            found, index = await self._readers.ask(partial(self._worked, route, call))
        except HttpProblem as told:
            if told.problem.status == 404:
                await _rounded(began)
            return _problem(told.problem, dict(told.headers))
        except KfmError as told:
            return _problem(as_problem(told))
        except ClientDisconnect:
            return _problem(HttpProblem(400).problem)
        except Exception as bug:  # its text may hold data: the log gets the type and the place alone
            _log.error("the API failed: %s at %s", type(bug).__name__, place_of(bug))
            return _problem(HttpProblem(500).problem)
        return self._response(request, found, index)

    def _worked(self, route: ApiRoute, call: Call, reading: Reading) -> tuple[Answer, int]:
        """Answer in a reading thread, inside one read transaction."""
        session = reading.session
        with session.state.reading():
            index = next((entry.index for entry in session.state.ledger.entries(reverse=True, limit=1)), 0)
            audience = self._audience(reading)
            if audience not in route.audiences:
                raise not_found()
            shelf = Shelf(session, reading.gate, audience)
            view = View(session, shelf, self._items, audience, index)
            answer = route.work(view, call)
            if not isinstance(answer.body, Stream):
                answer = answer._replace(body=encoded(answer.body))
            return answer, index

    def _audience(self, reading: Reading) -> str:
        """Return who asks. Without a key list there is one user, unless the server is for the open internet."""
        if self._is_open or keyring.in_force(reading.session) is not None:
            return "public"
        return "single"

    def _response(self, request: Request, answer: Answer, index: int) -> Response:
        headers = {**SECURITY, **CACHING, "KFM-Ledger-Entries": str(index), **dict(answer.headers)}
        stream = answer.body if isinstance(answer.body, Stream) else None
        if request.method in ("GET", "HEAD") and answer.status in (200, 206):
            tag = answer.etag or f'"{hashlib.sha256(answer.body).hexdigest()[:32]}"'
            headers["ETag"] = tag
            if _names(request.headers.get("if-none-match", ""), tag):
                _close(stream)
                headers.pop("Content-Range", None)
                return Response(status_code=304, headers=headers)
        if stream is None:
            return Response(answer.body, answer.status, headers, media_type=answer.media_type)
        headers |= {"Content-Length": str(stream.size), "Accept-Ranges": "bytes"}
        if request.method == "HEAD":
            _close(stream)
            return Response(status_code=answer.status, headers=headers, media_type=answer.media_type)
        return StreamingResponse(self._pieces(stream), answer.status, headers, media_type=answer.media_type)

    async def _pieces(self, stream: Stream) -> Any:
        """Send a body in pieces, as long as it may be shown. A client whose body ends early sees that it is cut."""
        pieces = iter(stream.pieces)
        try:
            while True:
                piece = await self._readers.ask(partial(_next_piece, stream, pieces))
                if piece is None:
                    raise _Withdrawn
                if not piece:
                    return
                yield piece
        finally:
            _close(stream)


class _Withdrawn(Exception):
    """The bytes that are being sent may no longer be shown."""


def _next_piece(stream: Stream, pieces: Any, reading: Reading) -> bytes | None:
    with reading.session.state.reading():
        if not stream.goes_on(reading):  # type: ignore[arg-type]
            return None
    return next(pieces, b"")


def _endpoint(app: GovernedApp, offered: dict[str, ApiRoute]) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        return await app.answer(request, offered)

    return endpoint


def _close(stream: Stream | None) -> None:
    """Close the file of a body that is not sent, or not to its end."""
    close = getattr(stream.pieces, "close", None) if stream is not None else None
    if close is not None:
        with suppress(ValueError):  # a reading thread is still at it; it ends with its piece
            close()


def _headers(request: Request, *, is_head: bool) -> dict[str, str]:
    """Return the headers of a request. RFC 9110 gives Range a meaning for GET alone."""
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers.raw}
    if is_head:
        found.pop("range", None)
    return found


def _names(header: str, tag: str) -> bool:
    """Return whether If-None-Match names this tag."""
    return any(each.strip().removeprefix("W/") in (tag, "*") for each in header.split(","))


def _problem(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """Return the response of a problem. Every 404 has the same body and headers."""
    more = dict(headers or {})
    if problem.status == 503:
        more["Retry-After"] = "5"
    if problem.status in CLOSING:
        more["Connection"] = "close"
    return Response(body_of(problem), problem.status, {**SECURITY, **CACHING, **more}, media_type=PROBLEM)


async def _rounded(began: float) -> None:
    """Wait until a whole number of steps has passed since then. What is closed takes some 0.1 ms longer to look up than
    what does not exist, and 2,000 requests would show it."""
    passed = asyncio.get_running_loop().time() - began
    await asyncio.sleep(SECONDS_OF_ABSENCE - passed % SECONDS_OF_ABSENCE)


async def _body(request: Request, media: str) -> bytes:
    """Return the body of a request. HttpProblem if it is of another type, too large or too slow."""
    given = request.headers.get("content-type")
    if given is not None and given.partition(";")[0].strip().lower() != media:
        raise HttpProblem(415, f"send the body as {media}", "input.bad")
    declared = request.headers.get("content-length", "0")
    if not declared.isdigit() or int(declared[:12]) > MOST_BODY:
        raise HttpProblem(413, f"send at most {MOST_BODY} bytes", "input.bad")
    parts, size = [], 0
    try:
        async with asyncio.timeout(SECONDS_FOR_BODY):
            async for part in request.stream():
                size += len(part)
                if size > MOST_BODY:
                    raise HttpProblem(413, f"send at most {MOST_BODY} bytes", "input.bad")
                parts.append(part)
    except TimeoutError:
        raise HttpProblem(408, f"send the body within {SECONDS_FOR_BODY:.0f} seconds", "input.bad") from None
    return b"".join(parts)


def _base(request: Request) -> str:
    """Return the address of this server as the client named it. A Host that is no plain name counts as loopback."""
    host = request.headers.get("host", "")
    plain = host and len(host) < 256 and all(sign.isascii() and (sign.isalnum() or sign in ".-:[]") for sign in host)
    return f"{request.url.scheme}://{host}" if plain else "http://127.0.0.1"
