"""The governed application: every route of the table, in one read transaction each, judged at the moment it is served.

Paths that are not of the table go to the webhooks, which keep their own application.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route

from kfm.api import csrf
from kfm.api.access import Access, Caller, Rules, host_of
from kfm.api.changes.acceptance import Aside, Desk, Writing
from kfm.api.console.account_bar import dressed
from kfm.api.console.sign_in_page import ended_page
from kfm.api.correlation import Visit
from kfm.api.forms import form_of
from kfm.api.problems import PROBLEM, HttpProblem, Problem, as_problem, body_of, not_found
from kfm.api.provider_calls import ProviderCalls
from kfm.api.routes import FORM, HTML, Answer, ApiRoute, Call, Events, Stream, View, encoded, query_of
from kfm.api.session_cookie import clear_cookie
from kfm.app.serving.item_catalog import ItemCatalog
from kfm.app.serving.shelf import CURRENT, Shelf
from kfm.app.sign_in.provider import settings_of
from kfm.clock import SystemClock
from kfm.errors import KfmError, place_of

if TYPE_CHECKING:
    from kfm.api.readers import Readers, Reading
    from kfm.app.session.session import Session
    from kfm.model.ports import Log

MOST_BODY = 256 * 1024
SECONDS_FOR_BODY = 20.0
MOST_LISTENERS = 32  # callers that listen for events at once
LISTENING_S = 1800
SECONDS_OF_ABSENCE = 0.02  # a 404 takes a multiple of this
# Nothing comes from another origin, no page is framed, and no script runs but that of files.
POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self' blob:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without any, a form would send the origin `null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# What may be shown can change with the next request: a cache has to ask each time.
CACHING = {"Cache-Control": "no-cache", "Vary": "Accept, Authorization, Cookie"}
PRIVATE = ("Cache-Control", "private, no-cache")  # of an answer that is not everybody's
SESSION_ENDS = ("session.ended", "session.unconfirmed")  # codes that a browser gets a page about
SIGN_IN = "sign-in"  # the tag of the routes for signing in and out
CLOSING = frozenset({408, 413})  # the rest of the body is not read
Asgi = Callable[..., Any]
_UNCONFIRMED = "the sign-in provider does not say whether your sign-in still holds; try again, or sign out at /sign-in"
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
        rules: Rules | None = None,
        access: Access | None = None,
        log: Log | None = None,
        desk: Desk | None = None,
    ) -> None:
        """`rules` say where the server stands. `log` receives a line for each request. `desk` stores what people
        request."""
        self._is_open = rules is not None and rules.place == "open"
        self._access = access or Access(rules)
        self._provider = ProviderCalls(self._access.sign_ins)
        self._log = log
        self._desk = desk or Desk(None)
        self._monotonic = SystemClock().monotonic
        self._listeners = 0
        self.is_leaving: Callable[[], bool] = lambda: False  # the server stops, so streams of events end
        self._readers = readers
        self._items = items
        self._beyond = beyond
        by_path: dict[str, dict[str, ApiRoute]] = {}
        for each in routes:
            if self._is_open and (each.changes or each.tag == SIGN_IN):
                continue  # the open internet changes nothing, and nobody signs in
            by_path.setdefault(each.path, {})[each.method] = each
        self._routes = [Route(path, _endpoint(self, offered)) for path, offered in by_path.items()]
        for route in self._routes:
            route.methods = None  # the endpoint answers about methods itself

    def close(self) -> None:
        self._provider.close()
        self._readers.close()
        self._items.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if self._beyond is not None:
                await self._beyond(scope, receive, send)
            return
        # The open internet sends no webhook and reads no metrics here.
        elsewhere = ("/livez", "/readyz") if self._is_open else ("/webhooks/", "/livez", "/readyz", "/metrics")
        if self._beyond is not None and scope["path"].startswith(elsewhere):
            await self._beyond(scope, receive, send)
            return
        request, began = Request(scope, receive), self._monotonic()
        visit = scope["kfm.visit"] = Visit(request.headers)

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                message = {**message, "headers": [*message["headers"], *visit.headers()]}
            await send(message)

        try:
            await self._routed(request, visit, scope, receive, sent)
        finally:
            if self._log is not None:
                visit.log(self._log, scope["method"], round((self._monotonic() - began) * 1000))

    async def _routed(self, request: Request, visit: Visit, scope: Any, receive: Any, send: Any) -> None:
        try:
            credential = scope["kfm.credential"] = self._access.credential(request)
            self._access.count(request, credential)
        except HttpProblem as told:
            await _problem(told.problem, dict(told.headers))(scope, receive, send)
            return
        for route in self._routes:
            matched, child = route.matches(scope)
            if matched is Match.FULL:
                scope.update(child)
                visit.route = route.path
                await route.handle(scope, receive, send)
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
                correlation_id=request.scope["kfm.visit"].correlation_id,
                is_secure=self._access.is_secure(request),
                credential=request.scope["kfm.credential"],
            )
            await self._confirm(route, request)
            if route.asks is not None:
                settings = await self._readers.ask(lambda reading: settings_of(reading.session))
                asked = await self._provider.ask(partial(route.asks, self._access.sign_ins, settings, call))
                call = call._replace(asked=asked)
            found, index = await self._readers.ask(partial(self._worked, route, call, request))
            while isinstance(found.body, Writing | Aside):
                made, again = None, route
                if isinstance(found.body, Aside):
                    again = route._replace(work=await self._desk.made(found.body))
                else:  # without an answer another request with its key came first
                    made = await self._desk.written(found.body)
                if made is None:
                    found, index = await self._readers.ask(partial(self._worked, again, call, request))
                else:
                    found = made._replace(body=encoded(made.body), headers=(*made.headers, *found.headers))
        except HttpProblem as told:
            if told.problem.status == 404:
                await _rounded(began)
            if told.problem.code in SESSION_ENDS and route.media == HTML and _takes_pages(request):
                headers = {**SECURITY, **CACHING, **dict(told.headers)}
                body = b"" if is_head else ended_page(told.problem.detail)
                return Response(body, told.problem.status, headers, media_type=HTML)
            return _problem(told.problem, dict(told.headers))
        except KfmError as told:
            return _problem(as_problem(told))
        except ClientDisconnect:
            return _problem(HttpProblem(400).problem)
        except Exception as bug:  # its text may hold data: the log gets the type and the place alone
            _log.error("the API failed: %s at %s", type(bug).__name__, place_of(bug))
            return _problem(HttpProblem(500).problem)
        if isinstance(found.body, Events):
            return await self._events(request, found, route)
        return self._response(request, found, index)

    async def _events(self, request: Request, answer: Answer, route: ApiRoute) -> Response:
        headers = {**SECURITY, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if request.method == "HEAD":
            return Response(headers=headers, media_type=answer.media_type)
        if self._listeners >= MOST_LISTENERS:
            return _problem(HttpProblem(503, "too many callers listen for events; ask again later").problem)
        return EventStream(self, partial(self.news, answer.body, route, request), headers, answer.media_type)

    async def news(self, events: Events, route: ApiRoute, request: Request) -> list[tuple[int, str, object]]:
        """Return the events since the last call, as far as the caller may see them now."""

        await self._confirm(route, request)

        def look(reading: Reading) -> list[tuple[int, str, object]]:
            with reading.session.state.reading():
                return events.news(self._view(route, request, reading))

        return await self._readers.ask(look)

    def _worked(self, route: ApiRoute, call: Call, request: Request, reading: Reading) -> tuple[Answer, int]:
        """Answer in a reading thread, inside one read transaction."""
        with reading.session.state.reading():
            view = self._view(route, request, reading)
            caller = Caller(view.audience, view.person, view.until)
            credential = request.scope["kfm.credential"]
            self._throttle(request, credential, view.shelf, reading, call.path.get("name", ""), caller.audience)
            if route.changes:
                sent = form_of(call.body).get(csrf.FIELD, "") if route.body == FORM else ""
                sent = sent or request.headers.get(csrf.HEADER, "")
                self._check_csrf(request, sent, view)
            answer = route.work(view, call)
            if isinstance(answer.body, Stream):
                answer = answer._replace(body=self._while_valid(answer.body, credential, caller))
            elif not isinstance(answer.body, Events | Writing | Aside):
                answer = answer._replace(body=encoded(answer.body))
            if answer.media_type == HTML and isinstance(answer.body, bytes) and not self._is_open:
                answer = answer._replace(body=dressed(answer.body, view.csrf, view.person, view.audience))
            if caller.audience != "public" and "Cache-Control" not in dict(answer.headers):
                answer = answer._replace(headers=(*answer.headers, PRIVATE))
            return answer, view.entries

    def _view(self, route: ApiRoute, request: Request, reading: Reading) -> View:
        """Return what the caller may see now. The one 404 if this address does not exist for the caller."""
        session = reading.session
        index = next((entry.index for entry in session.state.ledger.entries(reverse=True, limit=1)), 0)
        caller = self._caller(route, request, session)
        request.scope["kfm.visit"].audience = caller.audience
        if caller.audience not in route.audiences:
            raise not_found()
        shelf = Shelf(session, reading.gate, caller.audience)
        token = self._access.csrf(request, caller)
        signs_in = None if self._is_open else self._access.sign_ins
        who = (caller.audience, index, caller.person, caller.until, token, signs_in)
        return View(session, shelf, self._items, *who)

    async def _confirm(self, route: ApiRoute, request: Request) -> None:
        """Ask the provider whether the session of a sign-in still holds. HttpProblem 503 if it does not say so, but on
        the pages for signing in and out."""
        credential = request.scope["kfm.credential"]
        try:
            await self._provider.confirm(credential)
        except KfmError as told:
            if told.__cause__ is not None:  # it was asked just now
                _log.error("the sign-in provider: %s", told.__cause__)
            if not route.for_strangers:
                raise HttpProblem(503, _UNCONFIRMED, SESSION_ENDS[1]) from None
            request.scope["kfm.credential"] = ""

    def _caller(self, route: ApiRoute, request: Request, session: Session) -> Caller:
        """Return who asks. HttpProblem 401 for a token that is not valid, and for a cookie that is not any more."""
        host = host_of(request)
        try:
            return self._access.caller(session, request.scope["kfm.credential"], host)
        except HttpProblem:
            if not self._access.cookie(request):
                raise
            if route.for_strangers:
                return self._access.stranger(session, host)
            cleared = clear_cookie(is_secure=self._access.is_secure(request))
            words = "your sign-in has ended; sign in again at /sign-in"
            raise HttpProblem(401, words, SESSION_ENDS[0], (cleared,)) from None

    def _check_csrf(self, request: Request, sent: str, view: View) -> None:
        """Check a change that a browser may have been made to send. `Authorization` is never sent by itself."""
        if "authorization" not in request.headers:
            csrf.check(request, sent, view.csrf, is_secure=self._access.is_secure(request))

    def _throttle(
        self, request: Request, credential: str, shelf: Shelf, reading: Reading, dataset: str, audience: str
    ) -> None:
        """Obey a decision that lets a dataset be read only so often. One that may not be shown is not counted: it ends
        as one that is not there."""
        shown = shelf.find(dataset) if dataset else None
        if shown is None:
            return
        decision = reading.gate.decision(dataset, shown.version, CURRENT, audience)
        for duty in getattr(decision, "obligations", ()):
            if getattr(duty, "do", "") == "throttle":
                self._access.throttle(request, credential, dataset, duty.per_minute or 1)

    def _while_valid(self, stream: Stream, credential: str, caller: Caller) -> Stream:
        """Return a body that also ends when the token of its caller does."""
        if not credential:
            return stream

        def goes_on(reading: Any) -> bool:
            return self._access.is_still(reading.session, credential, caller) and stream.goes_on(reading)

        return stream._replace(goes_on=goes_on)

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
        return StreamingResponse(self._pieces(stream, request), answer.status, headers, media_type=answer.media_type)

    async def _pieces(self, stream: Stream, request: Request) -> Any:
        """Send a body in pieces, as long as it may be shown. A client whose body ends early sees that it is cut."""
        pieces = iter(stream.pieces)
        try:
            while True:
                try:
                    await self._provider.confirm(request.scope["kfm.credential"])
                except (HttpProblem, KfmError):
                    raise _Withdrawn from None
                piece = await self._readers.ask(partial(_next_piece, stream, pieces))
                if piece is None:
                    raise _Withdrawn
                if not piece:
                    return
                yield piece
        finally:
            _close(stream)


class EventStream(StreamingResponse):
    """Server-sent events until the caller leaves, the server stops or half an hour has passed: then a browser asks
    again by itself and names the last event that it has."""

    def __init__(self, app: GovernedApp, news: Callable[[], Any], headers: dict[str, str], media_type: str) -> None:
        super().__init__(self._lines(news), headers=headers, media_type=media_type)
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._app._listeners += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._app._listeners -= 1

    async def _lines(self, news: Callable[[], Any]) -> AsyncIterator[bytes]:
        yield b"retry: 5000\n\n"
        for second in range(LISTENING_S):
            if self._app.is_leaving():
                return
            try:
                found = await news()
            except (HttpProblem, KfmError, RuntimeError):  # nothing may be shown any more, or the server stops
                return
            for number, name, record in found:
                yield b"id: %d\nevent: %s\ndata: %s\n\n" % (number, name.encode(), encoded(record))
            if not found and second % 15 == 14:
                yield b": still here\n\n"
            await asyncio.sleep(1)


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


def _takes_pages(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


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
