"""Decode gzip and deflate content codings as a stream: one layer only, with a limit on the ratio of output to input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kfm.errors import Refused, Unavailable

_PIECE = 1 << 20  # most bytes of output per step
_FEED = 1 << 16  # most bytes of input per step: zlib copies the rest each time
_FREE = 1 << 20  # up to this size a body may have any compression ratio
_GZIP = 31  # zlib's window bits for a gzip wrapper
_ZLIB = 15
_RAW = -15


def coding_of(header: str, shown: str) -> str:
    """Return the single coding that a Content-Encoding header names: identity, gzip or deflate. Raise Refused
    otherwise.
    """
    names = [name for part in header.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if not names:
        return "identity"
    if len(names) > 1:
        raise Refused(f"{shown} is encoded {len(names)} times over", hint="serve it with one content encoding or none")
    coding = names[0].removeprefix("x-")
    if coding not in ("gzip", "deflate"):
        raise Refused(
            f"{shown} came in a content encoding that KFM did not request", hint="serve it as gzip or without encoding"
        )
    return coding


def decode_content(chunks: Iterable[bytes], coding: str, max_ratio: int, shown: str) -> Iterator[bytes]:
    """Yield the decoded bytes of a gzip or deflate stream. Raise Unavailable if it stops before its end mark."""
    import zlib

    taken = given = 0
    inflate: Any = None  # None: between two members
    begun = False
    carry = b""  # the first byte of a member whose second byte has not arrived
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
                    # zlib may hold more output although it has taken all input.
                    data, pending = inflate.unconsumed_tail, len(out) == _PIECE
                given += len(out)
                if given > _FREE and given > max_ratio * taken:
                    raise Refused(
                        f"{shown} unpacks to more than {max_ratio} times its size",
                        hint="if this ratio is right, unpack it yourself and name the unpacked file as the source",
                    )
                if out:
                    yield out
    except zlib.error:
        raise Refused(f"{shown} is not valid {coding} data", hint="ask the server's operator") from None
    if carry and begun and (coding != "gzip" or carry == b"\0"):
        raise _trailing(shown)
    if inflate is not None or not begun or carry:  # one byte of a second member may have arrived
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
    return Refused(f"{shown} has bytes after the end of its compressed stream", hint="ask the server's operator")
