"""Fetch a source over HTTP into the object store.

A validator (ETag, Last-Modified) can only save a download: the content hash decides whether anything changed, and after
`revalidate_ms` the whole body is fetched whatever the validators say. Nothing is stored unless the body arrived in
full. Content codings are decoded first, so the hash covers the data and not its compression.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from time import monotonic as system_monotonic
from typing import TYPE_CHECKING

from kfm.errors import BadInput, Denied, KfmError, Refused, Unavailable
from kfm.model.ports import Objects
from kfm.model.records import Checkpoint, Fetched, FetchRequest, SourceRef
from kfm.model.secret_refs import decoded as decoded_text
from kfm.sources.addresses import is_allowed
from kfm.sources.connect import Dial, Resolve, connect, dial_tcp, system_resolve, verifying_tls
from kfm.sources.content_encoding import coding_of, decode_content
from kfm.sources.host_limits import PER_HOST, one_request
from kfm.sources.http1 import Budget, Head, HttpBody, Wire, read_head
from kfm.sources.revalidation import may_revalidate
from kfm.sources.staging import Intake, check_expectation, too_large
from kfm.sources.urls import ParsedUrl, parse

if TYPE_CHECKING:
    import ssl

MAX_REDIRECTS = 5
MAX_RETRY_AFTER_S = 3600
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRY_LATER = frozenset({408, 425, 429})
_GONE = frozenset({404, 410})
_OURS = frozenset(
    {
        "accept-encoding", "connection", "content-length", "expect", "host", "if-match", "if-modified-since",
        "if-none-match", "if-range", "if-unmodified-since", "range", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_HTTP_DATE = (  # RFC 9110, the one date form that a sender may use
    "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), ([0-9]{2}) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) ([0-9]{4}) "
    "([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT"
)
_NAME = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")


class HttpSource:
    """Fetches http and https URLs. Proxies of the environment are ignored: a proxy would choose the address."""

    def __init__(
        self,
        *,
        resolve: Resolve = system_resolve,
        dial: Dial = dial_tcp,
        tls: Callable[[], ssl.SSLContext] = verifying_tls,
        monotonic: Callable[[], float] = system_monotonic,
        per_host: int = PER_HOST,
    ) -> None:
        """`per_host` is the most requests to one host at a time; the time limits begin when a request may."""
        self._resolve = resolve
        self._dial = dial
        self._tls = tls
        self._monotonic = monotonic
        self._per_host = per_host

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched:
        """Fetch the source into the object store. `known` is the checkpoint of the last fetch, used only to ask the
        server whether anything changed."""
        first = here = parse(request.address or request.uri)
        check_expectation(request)
        _check_headers(request)
        condition = known if known is not None and _may_ask(request, known, objects) else None
        budget: Budget | None = None
        for _ in range(MAX_REDIRECTS + 1):
            with one_request(here.host, self._per_host):
                budget = budget or self._budget(request)
                budget.shown = here.shown()
                there = self._ask(first, here, request, condition, objects, budget)
            if isinstance(there, Fetched):
                return there
            here = there
        raise Refused(
            f"{first.shown()} redirects more than {MAX_REDIRECTS} times", hint="give the final address as the source"
        )

    def _budget(self, request: FetchRequest) -> Budget:
        return Budget(
            timeout_ms=request.timeout_ms,
            total_ms=request.total_ms,
            wire_bytes=request.max_bytes + request.max_bytes // 8 + (1 << 20),  # room for heads and chunk sizes
            monotonic=self._monotonic,
        )

    def _ask(
        self,
        first: ParsedUrl,
        here: ParsedUrl,
        request: FetchRequest,
        condition: Checkpoint | None,
        objects: Objects,
        budget: Budget,
    ) -> Fetched | ParsedUrl:
        """Return what the server at this address answers, or the address that it redirects to."""
        with connect(here, request.allow, budget, resolve=self._resolve, dial=self._dial, tls=self._tls) as sock:
            wire = Wire(sock, budget)
            wire.send(_question(here, first, request, condition))
            stream = io.BufferedReader(wire, 1 << 16)
            head = read_head(stream, budget.shown)
            if head.status in _REDIRECTS:
                budget.read += stream.tell()
                return _next_hop(first, here, head, request)
            if head.status == 304:
                budget.read += stream.tell()
                return _unchanged(request, condition, budget)
            _check_status(head, request, budget.shown)
            return _receive(request, HttpBody(stream, head, budget.shown), head, objects, budget)


def _may_ask(request: FetchRequest, known: Checkpoint, objects: Objects) -> bool:
    """Return whether a 304 answer would help: the server gave a validator, and the stored bytes may stand for it."""
    return bool(_condition_line(known)) and may_revalidate(request, known, objects)


def _condition_line(known: Checkpoint) -> str:
    """Return the conditional header for a checkpoint, or "".

    An ETag goes back exactly as it came, W/ included. With an ETag the date is not sent: a server that compares only
    the date would miss a second change within one second.
    """
    if known.etag and _is_etag(known.etag):
        return f"If-None-Match: {known.etag}"
    if known.last_modified and _is_plain(known.last_modified):
        return f"If-Modified-Since: {known.last_modified}"
    return ""


def _question(here: ParsedUrl, first: ParsedUrl, request: FetchRequest, condition: Checkpoint | None) -> bytes:
    """Build the request. The source's own headers may hold credentials, so they go to the origin they were given for
    only.
    """
    own = request.headers if here.origin == first.origin else ()
    named = {name.lower() for name, _ in own}
    lines = [f"GET {here.target} HTTP/1.1", f"Host: {here.authority}"]
    lines += [f"{name}: {value}" for name, value in own]
    if "user-agent" not in named:
        lines.append("User-Agent: kfm")
    if "accept" not in named:
        lines.append(f"Accept: {request.media_type}, */*;q=0.1" if _is_plain(request.media_type) else "Accept: */*")
    if condition is not None:
        lines.append(_condition_line(condition))
    lines += ["Accept-Encoding: gzip, identity", "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _check_headers(request: FetchRequest) -> None:
    for name, value in request.headers:
        lowered = name.lower() if name.isascii() else ""
        if not lowered or not _NAME.issuperset(lowered) or lowered in _OURS:
            raise BadInput("the source sets a header that KFM sets itself", hint=f"remove {', '.join(sorted(_OURS))}")
        if any((c < " " and c != "\t") or c == "\x7f" or c > "\xff" for c in value):
            raise BadInput(f"the value of header {name} holds a character that a header cannot carry")


def _next_hop(first: ParsedUrl, here: ParsedUrl, head: Head, request: FetchRequest) -> ParsedUrl:
    shown = here.shown()
    if not head.one("location"):
        raise Refused(f"{shown} redirects without one clear Location", hint="ask the server's operator")
    try:
        there = here.follow(head.one("location"))
    except BadInput as error:
        raise Refused(
            f"{shown} redirects to an address that is refused: {error.message}",
            hint="give the final address as the source",
        ) from None
    if there.host != first.host and not is_allowed(there.host, there.port, (*request.hosts, *request.allow)):
        raise Denied(
            f"{shown} redirects to {there.host}, a host that this source does not allow",
            hint=f"if you want this, add '{there.host}' to the source's `hosts:`",
        )
    if here.scheme == "https" and there.scheme == "http":
        raise Denied(
            f"{shown} redirects from https to http", hint="if you want this, give the http address as the source"
        )
    if there.origin != first.origin and _gives_away(there.target, request.secrets):
        raise Denied(
            f"{shown} redirects to {there.host} with a secret of this source in the address",
            hint="ask the server's operator; if you want this, give the final address as the source",
        )
    if request.protected:
        from kfm.model.source_identity import is_part_of

        address = f"{there.scheme}://{there.authority}{there.target}"
        if any(is_part_of(address, one, "") for one in request.protected):
            raise Denied(
                f"{shown} redirects to an address that a label protects",
                hint="give that address as the source, so that its label is applied",
                rule="label.redirect",
            )
    return there


def _gives_away(target: str, secrets: Sequence[str]) -> bool:
    """Say whether a redirect target holds one of the secrets. Secrets under 8 characters would match by chance."""
    seen = (target, decoded_text(target))
    return any(len(secret) >= 8 and any(secret in text for text in seen) for secret in secrets)


def _check_status(head: Head, request: FetchRequest, shown: str) -> None:
    status = head.status
    if status == 200:
        return
    error: KfmError
    if status >= 500 or status in _TRY_LATER:
        wait = _retry_after(head.one("retry-after"), request.now_ms)
        error = Unavailable(f"{shown} answers {status}", hint="try again later", status=status, retry_after_s=wait)
    elif status in _GONE:
        hint = "published versions stay; correct the address, or remove the source from kfm.yml"
        error = Refused(f"{shown} answers {status}: the source is gone", hint=hint, status=status)
    elif status in (401, 403, 407):
        hint = "check what the source's `headers:` and `query:` refer to"
        error = Refused(f"{shown} answers {status}: access is denied", hint=hint, status=status)
    else:
        hint = "check the address of the source"
        error = Refused(f"{shown} answers {status}, which carries no data", hint=hint, status=status)
    raise error


def _retry_after(text: str, now_ms: int) -> int | None:
    """Return the seconds to wait that Retry-After gives as a number or a date; at most an hour, None if unreadable."""
    if text.isascii() and text.isdigit():
        return min(int(text[:9]), MAX_RETRY_AFTER_S)
    if not text or len(text) > 64:
        return None
    import re
    from datetime import UTC, datetime

    found = re.fullmatch(_HTTP_DATE, text)
    if found is None:
        return None
    day, month, year, hour, minute, second = found.groups()
    try:
        moment = datetime(
            int(year), _MONTHS.index(month) // 3 + 1, int(day), int(hour), int(minute), int(second), tzinfo=UTC
        )
    except ValueError:
        return None
    seconds = (int(moment.timestamp()) * 1000 - now_ms) // 1000
    return min(max(seconds, 0), MAX_RETRY_AFTER_S)


def _unchanged(request: FetchRequest, condition: Checkpoint | None, budget: Budget) -> Fetched:
    if condition is None:
        raise Unavailable(
            f"{budget.shown} answers 304 to an unconditional request",
            hint="try again later; a cache of this server is broken",
            status=304,
        )
    from msgspec.structs import replace

    # The validators stay those of the answer that carried the bytes; those of this 304 are ignored.
    checkpoint = replace(condition, checked_ms=request.now_ms)
    return Fetched(
        # Only a body that arrived in full leaves validators (see _receive), so the stored one is complete.
        ref=_ref(request, checkpoint, complete=request.complete),
        checkpoint=checkpoint,
        not_modified=True,
        bytes_on_wire=budget.read,
    )


def _receive(request: FetchRequest, body: HttpBody, head: Head, objects: Objects, budget: Budget) -> Fetched:
    shown = budget.shown
    media_type = head.one("content-type")
    if not _is_plain(media_type):
        media_type = ""
    _check_media_type(request, media_type, shown)
    coding = coding_of(",".join(head.all("content-encoding")), shown)
    if body.length is not None and body.length > request.max_bytes:
        raise too_large(shown, request.max_bytes)
    chunks = body.chunks()
    if coding != "identity":
        chunks = decode_content(chunks, coding, request.max_ratio, shown)
    total = body.length if coding == "identity" and body.length is not None else 0
    with Intake(request, objects, shown, lambda start: _check_not_html(request, start, shown), total) as intake:
        for chunk in chunks:
            intake.write(chunk)
        if intake.size == 0 and not request.expect_hash:
            raise Refused(
                f"{shown} answers 200 with an empty body",
                hint="if it may be empty, set expect_hash to the SHA-256 of no bytes",
            )
        content_hash, size = intake.commit()
    # A body without a declared end may have been cut: no validator is kept, so the next fetch reads it whole.
    etag, last_modified = head.one("etag"), head.one("last-modified")
    checkpoint = Checkpoint(
        uri=request.uri,
        content_hash=content_hash,
        size=size,
        media_type=media_type,
        etag=etag if body.has_end and _is_etag(etag) else "",
        last_modified=last_modified if body.has_end and _is_plain(last_modified) else "",
        fetched_ms=request.now_ms,
        checked_ms=request.now_ms,
    )
    return Fetched(
        ref=_ref(request, checkpoint, complete=request.complete and body.has_end),
        checkpoint=checkpoint,
        not_modified=False,
        bytes_on_wire=budget.read + body.at,
    )


def _ref(request: FetchRequest, checkpoint: Checkpoint, *, complete: bool) -> SourceRef:
    return SourceRef(
        uri=request.uri,
        content_hash=checkpoint.content_hash,
        size=checkpoint.size,
        name=request.name,
        media_type=request.media_type or checkpoint.media_type,
        partition=request.partition,
        etag=checkpoint.etag,
        last_modified=checkpoint.last_modified,
        complete=complete,
    )


def _check_media_type(request: FetchRequest, media_type: str, shown: str) -> None:
    essence = media_type.partition(";")[0].strip().lower()
    if essence in ("text/html", "application/xhtml+xml") and request.media_type and "html" not in request.media_type:
        raise _html(shown)


def _check_not_html(request: FetchRequest, start: bytes, shown: str) -> None:
    """Raise Refused for an error page that was served with status 200 and the expected media type."""
    if not request.media_type or "html" in request.media_type or "xml" in request.media_type:
        return
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:16].lower()
    if text.startswith((b"<!doctype html", b"<html")):
        raise _html(shown)


def _html(shown: str) -> Refused:
    return Refused(f"{shown} answers with a web page, not with data", hint="open it in a browser to see what it says")


def _is_plain(text: str) -> bool:
    return 0 < len(text) <= 200 and text.isascii() and text.isprintable()


def _is_etag(text: str) -> bool:
    """Say whether a text is one entity tag. A bare token passes because many servers send it; `*` and lists do not,
    because a server would match them with anything.
    """
    opaque = text.removeprefix("W/")
    if not text or len(text) > 1024 or any(c <= " " or c == "\x7f" for c in text):
        return False
    if opaque.startswith('"'):
        return len(opaque) >= 2 and opaque.endswith('"') and '"' not in opaque[1:-1]
    return text != "*" and "," not in text and '"' not in text
