"""Content codings undone in a stream, with a leash: one layer, and never much more out than in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kfm.errors import Refused, Unavailable

_PIECE = 1 << 20  # most bytes one step may give
_FEED = 1 << 16  # most bytes one step is fed: what is left over is copied each time
_FREE = 1 << 20  # a small body may be as dense as it likes
_GZIP = 31  # zlib's window bits for a gzip wrapper
_ZLIB = 15
_RAW = -15


def coding_of(header: str, shown: str) -> str:
    """The one coding a Content-Encoding header names: identity, gzip or deflate."""
    names = [name for part in header.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if not names:
        return "identity"
    if len(names) > 1:
        raise Refused(f"{shown} is encoded {len(names)} times over", hint="serve it with one content encoding or none")
    coding = names[0].removeprefix("x-")
    if coding not in ("gzip", "deflate"):
        raise Refused(
            f"{shown} came in a content encoding that was not asked for", hint="serve it as gzip or without encoding"
        )
    return coding


def decoded(chunks: Iterable[bytes], coding: str, max_ratio: int, shown: str) -> Iterator[bytes]:
    """The bytes behind a gzip or deflate coding. A stream that stops before its end mark is Unavailable."""
    import zlib

    taken = given = 0
    inflate: Any = None  # None: between two members
    begun = False
    carry = b""  # a first byte whose second has not come yet
    try:
        for piece in _fed(chunks):
            taken += len(piece)
            data, carry, pending = carry + piece, b"", False
            while data or pending:
                if inflate is None:
                    if len(data) < 2:
                        carry = data
                        break
                    if begun and (coding != "gzip" or data[:2] != b"\x1f\x8b"):
                        raise _trailing(shown)
                    inflate = zlib.decompressobj(_window(coding, data))
                    begun = True
                out = inflate.decompress(data, _PIECE)
                if inflate.eof:
                    data, inflate, pending = inflate.unused_data, None, False
                else:
                    # A full piece may leave output waiting inside zlib although all input is taken.
                    data, pending = inflate.unconsumed_tail, len(out) == _PIECE
                given += len(out)
                if given > _FREE and given > max_ratio * taken:
                    raise Refused(
                        f"{shown} unpacks to more than {max_ratio} times its size",
                        hint="if it is really that dense, unpack it yourself and name what comes out",
                    )
                if out:
                    yield out
    except zlib.error:
        raise Refused(f"{shown} is not the {coding} it says it is", hint="ask whoever serves it") from None
    if carry and begun and (coding != "gzip" or carry == b"\0"):
        raise _trailing(shown)
    if inflate is not None or not begun or carry:  # of a second member one byte may have come
        raise Unavailable(f"{shown} ended in the middle of its {coding} stream", hint="try again later")


def _fed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), _FEED):
            yield chunk[start : start + _FEED]


def _window(coding: str, data: bytes) -> int:
    if coding == "gzip":
        return _GZIP
    # "deflate" means the zlib wrapper, but some servers send the bare stream.
    return _ZLIB if data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0 else _RAW


def _trailing(shown: str) -> Refused:
    return Refused(f"{shown} has bytes after the end of its compressed stream", hint="ask whoever serves it")
