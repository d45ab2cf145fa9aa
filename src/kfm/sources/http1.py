"""Read one HTTP/1.1 answer from a socket, strictly framed and bounded in time and bytes.

The standard http.client does not serve: it accepts `-5`, `+5`, `0x5` and `1_0` as lengths (cpython issue 150751), skips
any number of interim answers and trailers, has no limit on the size of a head, and importing it costs more than a whole
run that finds nothing new. This module holds only what a GET with `Connection: close` needs.
"""

from __future__ import annotations

import errno
import io
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from kfm.errors import Refused, Unavailable
from kfm.sources.staging import CHUNK

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_HEAD = 64 * 1024
MAX_FIELDS = 200
_MAX_INTERIM = 8
_MAX_CHUNK_LINE = 1024
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
_VISIBLE = frozenset("\t" + "".join(chr(c) for c in range(0x20, 0x100) if c != 0x7F))
_DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")


class Budget:
    """The time and the bytes that one fetch may use, over all its redirects."""

    def __init__(self, *, timeout_ms: int, total_ms: int, wire_bytes: int, monotonic: Callable[[], float]) -> None:
        self.received = 0
        self.read = 0  # bytes of the answers themselves; bytes that a server sends after its answer do not count
        self.shown = ""  # the current address, for messages
        self._monotonic = monotonic
        self._timeout = timeout_ms / 1000
        self._total_ms = total_ms
        self._deadline = monotonic() + total_ms / 1000
        self._wire_bytes = wire_bytes
        self._total_ends_first = False  # true if the total time ends before the time limit of the current call

    def patience(self) -> float:
        """Return the seconds that the next blocking call may take. Raise Unavailable if the total time is over."""
        left = self._deadline - self._monotonic()
        if left <= 0:
            raise self._late()
        self._total_ends_first = left < self._timeout
        return min(left, self._timeout)

    def _late(self) -> Unavailable:
        return Unavailable(
            f"{self.shown} was not fetched within {self._total_ms} ms",
            hint="try again later, or raise total_s of this source or of network",
        )

    def silence(self) -> Unavailable:
        """Return the error for a call that timed out. If the total time of the fetch is over, raise that error
        instead."""
        if self._total_ends_first:  # a timer may return a moment early, so the clock alone does not decide
            raise self._late()
        self.patience()
        return Unavailable(
            f"{self.shown} was silent for {round(self._timeout * 1000)} ms",
            hint="try again later, or raise timeout_s of this source or of network",
        )

    def count(self, received: int) -> None:
        self.received += received
        if self.received > self._wire_bytes:
            raise Refused(
                f"{self.shown} sent more than the {self._wire_bytes} bytes allowed",
                hint="raise max_bytes of this source or of network if it should be that large",
            )


class Wire(io.RawIOBase):
    """A connected socket as a raw stream.

    Every receive checks the clock, so a server that sends one byte now and then is bounded by the total time.
    """

    def __init__(self, sock: socket.socket, budget: Budget) -> None:
        super().__init__()
        self._sock = sock
        self._budget = budget
        self._set = -1.0
        self._received = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._arm()
        try:
            received = self._sock.recv_into(buffer)
        except TimeoutError:
            raise self._budget.silence() from None
        except OSError as error:
            raise broken_off(self._budget.shown, error) from None
        self._received += received
        self._budget.count(received)
        return received

    def tell(self) -> int:
        """Return the number of bytes received, so that a buffered reader over this stream knows its position."""
        return self._received

    def send(self, body: bytes) -> None:
        self._arm()
        try:
            self._sock.sendall(body)
        except TimeoutError:
            raise self._budget.silence() from None
        except OSError as error:
            raise broken_off(self._budget.shown, error) from None

    def _arm(self) -> None:
        patience = self._budget.patience()
        if patience != self._set:
            self._sock.settimeout(patience)
            self._set = patience


def broken_off(shown: str, error: OSError) -> Unavailable:
    name, number = error_name(error)
    return Unavailable(f"the connection to {shown} broke ({name})", hint="try again later", errno=number)


def error_name(error: OSError) -> tuple[str, int | None]:
    """Return the system's name and number of an error. TLS errors have other numbers, which are left out."""
    if type(error).__module__ == "ssl":
        return "TLS", None
    return errno.errorcode.get(error.errno or 0, "unknown"), error.errno


class Head:
    """The status and header fields of an answer."""

    def __init__(self, status: int, fields: dict[str, list[str]]) -> None:
        self.status = status
        self._fields = fields

    def all(self, name: str) -> list[str]:
        return self._fields.get(name, [])

    def one(self, name: str) -> str:
        """Return the value of a header field that occurs exactly once; otherwise ""."""
        values = self.all(name)
        return values[0] if len(values) == 1 else ""


def read_head(stream: BinaryIO, shown: str) -> Head:
    """Return the head of the final answer. A few interim answers (1xx) are skipped; more raise Refused."""
    lines = _HeadLines(stream, shown, MAX_HEAD)
    for _ in range(_MAX_INTERIM):
        status = _status(lines.next(), shown)
        fields = _fields(lines, shown)
        if status >= 200:
            return Head(status, fields)
        if status == 101:
            break
    raise Refused(f"{shown} sent too many interim answers", hint="ask the server's operator")


class _HeadLines:
    """The lines of a head or trailer, with one limit of bytes for all of them."""

    def __init__(self, stream: BinaryIO, shown: str, room: int) -> None:
        self._stream = stream
        self._shown = shown
        self._room = room

    def next(self) -> str:
        line = self._stream.readline(self._room + 1)
        self._room -= len(line)
        if self._room < 0:
            raise Refused(f"{self._shown} sent more than {MAX_HEAD} bytes of headers", hint="ask the server's operator")
        if not line.endswith(b"\n"):
            raise Unavailable(f"{self._shown} closed the connection before its answer", hint="try again later")
        text = line[:-2].decode("latin-1")
        if not line.endswith(b"\r\n") or not _VISIBLE.issuperset(text):
            raise Refused(f"{self._shown} sent a malformed head", hint="ask the server's operator")
        return text


def _status(line: str, shown: str) -> int:
    if line[:9] not in ("HTTP/1.1 ", "HTTP/1.0 ") or not _DIGITS.issuperset(line[9:12]) or line[12:13] not in ("", " "):
        raise Refused(f"{shown} does not answer in HTTP/1.1", hint="check the address and port of the source")
    status = int(line[9:12] or "0")
    if not 100 <= status <= 599:
        raise Refused(f"{shown} answers with an impossible status", hint="ask the server's operator")
    return status


def _fields(lines: _HeadLines, shown: str) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for _ in range(MAX_FIELDS + 1):
        line = lines.next()
        if not line:
            return fields
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        name = name.lower()
        if not colon or not name or not _TOKEN.issuperset(name):
            raise Refused(f"{shown} sent a malformed header", hint="ask the server's operator")
        fields.setdefault(name, []).append(value)
    raise Refused(f"{shown} sent more than {MAX_FIELDS} headers", hint="ask the server's operator")


class HttpBody:
    """The body of an HTTP answer: how its end is marked, and its bytes."""

    def __init__(self, stream: BinaryIO, head: Head, shown: str) -> None:
        self._stream = stream
        self._shown = shown
        codings = [c.strip().lower() for value in head.all("transfer-encoding") for c in value.split(",")]
        lengths = head.all("content-length")
        if codings and codings != ["chunked"]:
            raise self._misframed("in a transfer encoding that KFM did not request")
        if codings and lengths:
            raise self._misframed("both chunked and with a length")
        if len(lengths) > 1:
            raise self._misframed("with more than one length")
        if lengths and not (0 < len(lengths[0]) <= 18 and _DIGITS.issuperset(lengths[0])):
            raise self._misframed("with a length that is no number")
        self.length = int(lengths[0]) if lengths else None
        self._chunked = bool(codings)

    @property
    def has_end(self) -> bool:
        """Say whether the answer declares where it ends. Without that, a cut looks like an end."""
        return self._chunked or self.length is not None

    @property
    def at(self) -> int:
        """The number of bytes that were read from the connection so far."""
        return self._stream.tell()

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in pieces of at most 1 MiB. Raise Unavailable if it stops before its declared end."""
        if self._chunked:
            yield from self._in_chunks()
        elif self.length is not None:
            yield from self._exactly(self.length)
        else:
            while chunk := self._stream.read(CHUNK):
                yield chunk

    def _exactly(self, length: int) -> Iterator[bytes]:
        left = length
        while left:
            want = min(left, CHUNK)
            chunk = self._stream.read(want)
            if len(chunk) < want:
                raise self._cut()
            left -= want
            yield chunk

    def _in_chunks(self) -> Iterator[bytes]:
        while size := self._chunk_size():
            yield from self._exactly(size)
            end = self._stream.readline(3)
            if end != b"\r\n":
                raise self._cut() if b"\r\n".startswith(end) else self._misframed("with a chunk longer than it says")
        _fields(_HeadLines(self._stream, self._shown, MAX_HEAD), self._shown)

    def _chunk_size(self) -> int:
        line = self._stream.readline(_MAX_CHUNK_LINE + 1)
        if len(line) > _MAX_CHUNK_LINE:
            raise self._misframed("with an endless chunk header")
        if not line.rstrip(b"\r"):
            raise self._cut()
        digits = line.decode("latin-1").partition(";")[0].rstrip("\r\n")
        if not (0 < len(digits) <= 15 and _HEX.issuperset(digits)):
            raise self._misframed("with a chunk size that is no number")
        if not line.endswith(b"\n"):
            raise self._cut()
        if not line.endswith(b"\r\n") or not _VISIBLE.issuperset(line[:-2].decode("latin-1")):
            raise self._misframed("with a malformed chunk header")
        return int(digits, 16)

    def _cut(self) -> Unavailable:
        return Unavailable(f"{self._shown} closed the connection before the end of the body", hint="try again later")

    def _misframed(self, how: str) -> Refused:
        return Refused(f"{self._shown} sent its body {how}", hint="ask the server's operator")
