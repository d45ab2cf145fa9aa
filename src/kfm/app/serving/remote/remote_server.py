"""Reads from a server that `kfm serve` runs somewhere else.

The address is the caller's own, so it may be of a private network. Every answer is bounded in time and bytes. No
redirect is followed: it could carry the token elsewhere.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from kfm.clock import SystemClock
from kfm.errors import (
    BadInput,
    Conflict,
    Corrupt,
    Denied,
    KfmError,
    Refused,
    Unavailable,
    kind_of,
)
from kfm.model.keys import digest
from kfm.model.secret import Secret
from kfm.parsing.characters import escaped
from kfm.sources.addresses import not_global
from kfm.sources.connect import Resolve, connect, dial_tcp, system_resolve, verifying_tls
from kfm.sources.http1 import Budget, Head, HttpBody, Wire, read_head
from kfm.sources.urls import ParsedUrl, parse

if TYPE_CHECKING:
    import ssl

R = TypeVar("R", bound=msgspec.Struct)
MOST_ANSWER = 64 << 20  # bytes of a JSON answer
MOST_FILE = 8 << 30
TIMEOUT_MS, TOTAL_MS = 60_000, 3_600_000
_KINDS: dict[int, type[KfmError]] = {
    400: BadInput, 401: Denied, 403: Denied, 404: BadInput, 409: Conflict, 422: Refused, 429: Unavailable,
}  # fmt: skip


class _Problem(msgspec.Struct):
    title: str = ""
    detail: str = ""
    code: str = ""


class RemoteServer:
    """A server by its address, asked as a person by a token, or as the public."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        resolve: Resolve = system_resolve,
        tls: Callable[[], ssl.SSLContext] = verifying_tls,
    ) -> None:
        """BadInput for an address that is not that of a server. Refused if the token would be readable on its way."""
        self._at = parse(url)
        if self._at.target not in ("", "/"):
            raise BadInput(
                "the address of a server has no path and no query",
                hint=f"give {self._at.scheme}://{self._at.authority}",
            )
        self._token = Secret(_checked(token).encode()) if token is not None else None
        self._resolve = resolve
        self._tls = tls
        if token is not None and self._at.scheme == "http" and not _is_loopback(self._at.host):
            raise Refused(
                f"a token would go to {self._at.authority} unencrypted", hint="give an https address, or no token"
            )

    @property
    def url(self) -> str:
        return f"{self._at.scheme}://{self._at.authority}"

    def record(self, kind: type[R], path: str, query: Mapping[str, Any] | None = None) -> R:
        """Return an answer of /v1 as a record. Fields that this version does not know are left out."""
        return self.converted(kind, self.json(path, query))

    def converted(self, kind: type[R], plain: Any) -> R:
        """Return a decoded answer as a record."""
        try:
            found: R = msgspec.convert(_known(msgspec.inspect.type_info(kind), plain), kind)
        except msgspec.ValidationError:
            raise Refused(
                f"{self.url} answers in another form than this version of KFM reads", hint="use the server's version"
            ) from None
        return found

    def json(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        body = self.body(path, query, most=MOST_ANSWER)
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            raise Refused(f"{self.url} answers with what is not JSON", hint="check the address") from None

    def object(self, path: str, wanted: str) -> bytes:
        """Return the bytes at a path. Corrupt if they do not have this digest."""
        body = self.body(path, most=MOST_FILE)
        if digest(body) != wanted:
            raise Corrupt(
                f"{self.url} sent other bytes than those of {wanted[:19]}", hint="ask again; tell the server's operator"
            )
        return body

    def body(self, path: str, query: Mapping[str, Any] | None = None, *, most: int) -> bytes:
        """Return the bytes at a path. Raise the error of the tree in errors.py that the server's problem names."""
        with self.opened(path, query, most=most) as (body, _):
            return b"".join(body.chunks())

    @contextmanager
    def opened(
        self, path: str, query: Mapping[str, Any] | None = None, *, most: int, headers: Mapping[str, str] | None = None
    ) -> Iterator[tuple[HttpBody, socket.socket]]:
        """Yield the body at a path, to be read, and its connection. Raises like `body`."""
        said = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        target = quote(path, safe="/:@!$&'()*+,;=~%") + (f"?{urlencode(said)}" if said else "")
        here = self._at._replace(target=target)
        budget = Budget(
            timeout_ms=TIMEOUT_MS, total_ms=TOTAL_MS, wire_bytes=most + (1 << 20), monotonic=SystemClock().monotonic
        )
        budget.shown = self.url
        own = (f"{here.host}:{here.port}" if ":" not in here.host else f"[{here.host}]:{here.port}",)
        with connect(here, own, budget, resolve=self._resolve, dial=dial_tcp, tls=self._tls) as sock:
            wire = Wire(sock, budget)
            wire.send(self._question(here, headers or {}))
            stream = io.BufferedReader(wire, 1 << 16)
            head = read_head(stream, budget.shown)
            if 300 <= head.status < 400:
                raise Refused(
                    f"{self.url} redirects, and a client follows no redirect",
                    hint="give the final address",
                    status=head.status,
                )
            if head.all("content-encoding"):
                raise Refused(f"{self.url} answers in an encoding that was not asked for", hint="check the address")
            found = HttpBody(stream, head, budget.shown)
            if found.length is not None and found.length > most:
                raise Refused(f"{self.url} answers with {found.length} bytes; the most is {most}", hint="ask for less")
            if not found.has_end:
                raise Refused(f"{self.url} does not say where its answer ends", hint="check the address")
            if head.status != 200:
                raise self._problem(head, b"".join(found.chunks()), path)
            yield found, sock

    def _question(self, here: ParsedUrl, headers: Mapping[str, str]) -> bytes:
        lines = [f"GET {here.target} HTTP/1.1", f"Host: {here.authority}", "User-Agent: kfm", "Accept: */*"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if self._token is not None:
            lines.append(f"Authorization: Bearer {self._token.reveal().decode()}")
        lines += ["Accept-Encoding: identity", "Connection: close", "", ""]
        return "\r\n".join(lines).encode("latin-1")

    def _problem(self, head: Head, body: bytes, path: str) -> KfmError:
        """Return the error that a problem document tells. Its words are the server's, so they are escaped and cut."""
        try:
            said = msgspec.json.decode(body, type=_Problem)
        except (msgspec.MsgspecError, RecursionError):
            said = _Problem()
        kind = kind_of(said.code) if said.code else KfmError
        if kind is KfmError:
            kind = _KINDS.get(head.status, Unavailable if head.status >= 500 else Refused)
        text = escaped((said.detail or said.title)[:300])
        wait = head.one("retry-after")
        is_whole = wait.isascii() and wait.isdigit() and len(wait) <= 6
        if head.status == 404:
            message, hint = f"{self.url} has nothing at {escaped(path[:100])} that may be shown", "see Client.datasets"
        elif head.status == 401:
            message, hint = f"{self.url} does not accept the token", "make one: `kfm token new`"
        else:
            message = f"{self.url} answers {head.status}" + (f": {text}" if text else "")
            hint = "try again later" if issubclass(kind, Unavailable) else "change the request"
        return kind(message, hint=hint, status=head.status, retry_after_s=int(wait) if is_whole else None)


def _checked(token: object) -> str:
    if (
        not isinstance(token, str)
        or not (0 < len(token) <= 200 and token.isascii() and token.isprintable())
        or " " in token
    ):
        raise BadInput("the token is not one that `kfm token new` prints", hint="give it as a text, or leave it out")
    return token


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host == "::1" or (host.startswith("127.") and bool(not_global(host)))


def _known(kind: Any, plain: Any) -> Any:
    """Return a decoded answer without the fields that a record does not have."""
    inspect = msgspec.inspect
    if isinstance(kind, inspect.UnionType):
        fits = [one for one in kind.types if isinstance(one, inspect.StructType)]
        return _known(fits[0], plain) if fits and isinstance(plain, dict) else plain
    if isinstance(kind, inspect.StructType) and isinstance(plain, dict):
        return {
            each.encode_name: _known(each.type, plain[each.encode_name])
            for each in kind.fields
            if each.encode_name in plain
        }
    if isinstance(kind, (inspect.ListType, inspect.VarTupleType)) and isinstance(plain, list):
        return [_known(kind.item_type, each) for each in plain]
    if isinstance(kind, inspect.DictType) and isinstance(plain, dict):
        return {name: _known(kind.value_type, each) for name, each in plain.items()}
    return plain
