"""One HTTP/1.1 answer off a socket, strictly framed and bounded in time and bytes.

Not http.client: it takes `-5`, `+5`, `0x5` and `1_0` for lengths (cpython issue 150751), skips interim
answers and trailers without end, has no limit on a whole head, and importing it costs more than a
whole run that finds nothing new. What is here is the little that a GET with `Connection: close` needs.
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
    """The wall time and the bytes one fetch may take, over all its hops."""

    def __init__(self, *, timeout_ms: int, total_ms: int, wire_bytes: int, monotonic: Callable[[], float]) -> None:
        self.received = 0
        self.read = 0  # of what was received, what was looked at: what a server sends beyond its answer does not count
        self.shown = ""  # the hop under way, for messages
        self._monotonic = monotonic
        self._timeout = timeout_ms / 1000
        self._total_ms = total_ms
        self._deadline = monotonic() + total_ms / 1000
        self._wire_bytes = wire_bytes
        self._total_ends_first = False  # and not the patience of the call under way

    def patience(self) -> float:
        """Seconds the next blocking call may take."""
        left = self._deadline - self._monotonic()
        if left <= 0:
            raise self._late()
        self._total_ends_first = left < self._timeout
        return min(left, self._timeout)

    def _late(self) -> Unavailable:
        return Unavailable(
            f"{self.shown} was not done after {self._total_ms} ms",
            hint="try again later, or raise total_ms of this source",
        )

    def silence(self) -> Unavailable:
        """The error of a call that used up its patience; raises that of the whole time if this was what ran out."""
        if self._total_ends_first:  # also where the call came back a moment early, as timers do
            raise self._late()
        self.patience()
        return Unavailable(
            f"{self.shown} was silent for {round(self._timeout * 1000)} ms",
            hint="try again later, or raise timeout_ms of this source",
        )

    def count(self, received: int) -> None:
        self.received += received
        if self.received > self._wire_bytes:
            raise Refused(
                f"{self.shown} sent more than the {self._wire_bytes} bytes it may",
                hint="raise max_bytes of this source if it should be that large",
            )


class Wire(io.RawIOBase):
    """A connected socket as a raw stream. Every receive looks at the clock, so that a peer that
    sends a byte now and then is bounded by the total time and not by the time between two bytes."""

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
        """So that a buffered reader over this one can tell how far it was read."""
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
    name, number = named(error)
    return Unavailable(f"the connection to {shown} broke ({name})", hint="try again later", errno=number)


def named(error: OSError) -> tuple[str, int | None]:
    """What the system calls an error, and its number. Errors of TLS have numbers of their own, which are not told."""
    if type(error).__module__ == "ssl":
        return "TLS", None
    return errno.errorcode.get(error.errno or 0, "unknown"), error.errno


class Head:
    """Status and header fields of an answer."""

    def __init__(self, status: int, fields: dict[str, list[str]]) -> None:
        self.status = status
        self._fields = fields

    def all(self, name: str) -> list[str]:
        return self._fields.get(name, [])

    def one(self, name: str) -> str:
        """The value of a field that came exactly once; otherwise empty."""
        values = self.all(name)
        return values[0] if len(values) == 1 else ""


def read_head(stream: BinaryIO, shown: str) -> Head:
    """The final answer's head; interim ones (1xx) are passed over, a few of them."""
    lines = _Lines(stream, shown, MAX_HEAD)
    for _ in range(_MAX_INTERIM):
        status = _status(lines.next(), shown)
        fields = _fields(lines, shown)
        if status >= 200:
            return Head(status, fields)
        if status == 101:
            break
    raise Refused(f"{shown} did not come to an answer", hint="ask whoever serves it")


class _Lines:
    """Lines of a head or trailer, within a number of bytes for all of them."""

    def __init__(self, stream: BinaryIO, shown: str, room: int) -> None:
        self._stream = stream
        self._shown = shown
        self._room = room

    def next(self) -> str:
        line = self._stream.readline(self._room + 1)
        self._room -= len(line)
        if self._room < 0:
            raise Refused(f"{self._shown} sent more than {MAX_HEAD} bytes of headers", hint="ask whoever serves it")
        if not line.endswith(b"\n"):
            raise Unavailable(f"{self._shown} closed the connection before its answer", hint="try again later")
        text = line[:-2].decode("latin-1")
        if not line.endswith(b"\r\n") or not _VISIBLE.issuperset(text):
            raise Refused(f"{self._shown} sent a malformed head", hint="ask whoever serves it")
        return text


def _status(line: str, shown: str) -> int:
    if line[:9] not in ("HTTP/1.1 ", "HTTP/1.0 ") or not _DIGITS.issuperset(line[9:12]) or line[12:13] not in ("", " "):
        raise Refused(f"{shown} does not answer in HTTP/1.1", hint="check the address and port of the source")
    status = int(line[9:12] or "0")
    if not 100 <= status <= 599:
        raise Refused(f"{shown} answers with an impossible status", hint="ask whoever serves it")
    return status


def _fields(lines: _Lines, shown: str) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for _ in range(MAX_FIELDS + 1):
        line = lines.next()
        if not line:
            return fields
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        name = name.lower()
        if not colon or not name or not _TOKEN.issuperset(name):
            raise Refused(f"{shown} sent a malformed header", hint="ask whoever serves it")
        fields.setdefault(name, []).append(value)
    raise Refused(f"{shown} sent more than {MAX_FIELDS} headers", hint="ask whoever serves it")


class Body:
    """How the body of an answer is framed, and its bytes."""

    def __init__(self, stream: BinaryIO, head: Head, shown: str) -> None:
        self._stream = stream
        self._shown = shown
        codings = [c.strip().lower() for value in head.all("transfer-encoding") for c in value.split(",")]
        lengths = head.all("content-length")
        if codings and codings != ["chunked"]:
            raise self._misframed("in a transfer encoding that was not asked for")
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
        """Does the answer itself say where it ends? Otherwise a cut looks like an end."""
        return self._chunked or self.length is not None

    @property
    def at(self) -> int:
        """How many bytes of the connection were looked at so far."""
        return self._stream.tell()

    def chunks(self) -> Iterator[bytes]:
        """The body in pieces of at most 1 MiB. A body that ends before its declared end is Unavailable."""
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
        _fields(_Lines(self._stream, self._shown, MAX_HEAD), self._shown)

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
        return Refused(f"{self._shown} sent its body {how}", hint="ask whoever serves it")
