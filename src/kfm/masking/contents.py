"""Opens what may hide a table: archives, compressed files, databases, column files, and encodings within a text.

`Contents.texts` yields everything as text, to a depth of three layers. It counts what it could not read, so that the
caller can put that to a person.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import html
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from kfm.masking import sqlite_records
from kfm.masking.notations import ascii_numbers, binary_numbers
from kfm.masking.tile_contents import TileContents
from kfm.masking.tile_grid import Places
from kfm.parsing import pmtiles

LARGEST = 1 << 30  # bytes that one file may have when it is decompressed
DEPTH = 3  # layers of encodings and archives that are opened
_SMALL = 4096  # bytes; a longer encoded passage that decodes to nothing readable is reported
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|%([0-9a-fA-F]{2})")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});")
_HEX = re.compile(
    r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){8,}(?:\r?\n(?:[0-9A-Fa-f]{2}){8,})*(?:\r?\n(?:[0-9A-Fa-f]{2})+)?(?![0-9A-Fa-f])"
)
_BASE64 = re.compile(
    r"[A-Za-z0-9+/_-]{16,}(?:\r?\n[A-Za-z0-9+/_-]{16,})*(?:\r?\n[A-Za-z0-9+/_-]{1,76}(?![^\s=]))?={0,2}"
)
_WHOLE = (sqlite_records.MAGIC, b"PAR1", pmtiles.MAGIC)  # how files begin that are read as a whole
_CONTROL = bytes(n for n in range(32) if n not in (9, 10, 11, 12, 13, 27)) + b"\x7f"


Body = TypeVar("Body", bytes, str)


class _Unreadable(Exception):
    """A layer that is broken, encrypted, too large or too deep."""


class Contents:
    """The texts of one or more files."""

    def __init__(self, finest: int | None = None) -> None:
        """`finest` is the resolution of the cells that these files may show, if they are masked."""
        self.unreadable = 0  # count of files, members and passages that could not be read
        self.faults: Counter[str] = Counter()  # rules that map tiles broke, whatever matches
        self._finest = finest
        self._room = LARGEST

    def texts(self, body: bytes) -> Iterator[str | Places]:
        """Yield the texts in a file: its own, or those of everything packed or encoded in it; of map tiles also the
        places."""
        self._room = LARGEST
        yield from self._of(body, 0)

    def _of(self, body: bytes, depth: int) -> Iterator[str | Places]:
        try:
            if body.startswith(pmtiles.MAGIC):
                yield from self._of_tiles(body, depth)
                return
            layer = self._layer(body)
            if layer is not None:
                if depth >= DEPTH:
                    raise _Unreadable
                for inner in layer:
                    yield from self._of(inner, depth + 1)
                return
            rows = _rows(body)
            if rows is not None:
                yield from self._of_rows(rows, depth)
                return
        except _Unreadable:
            self.unreadable += 1
            yield from binary_numbers(body)
            return
        text = _decoded(body)
        if text is None:
            self.unreadable += 1
            yield from binary_numbers(body)
            yield body.decode("latin-1")
            return
        yield from self._of_text(text, depth)

    def _of_tiles(self, body: bytes, depth: int) -> Iterator[str | Places]:
        found = None
        try:
            found = TileContents(body, self._room, self._finest)
            for part in found.parts():
                if isinstance(part, str):
                    yield from self._of_text(part, depth)
                else:
                    yield part
        except pmtiles.NoTiles:
            raise _Unreadable from None
        finally:
            if found is not None:
                self._room = max(self._room - found.tiles.used, 1)
                self.faults += found.faults

    def _layer(self, body: bytes) -> Iterable[bytes] | None:
        """Return what is packed in a file; None if it is no archive and not compressed."""
        if body[:2] == b"\x1f\x8b":
            return [self._inflated(body, 31)]
        if body[:3] == b"BZh" and body[4:10] == b"1AY&SY":
            return [self._expanded(bz2.BZ2Decompressor, body)]
        if body[:6] == b"\xfd7zXZ\0" or body[:3] == b"\x5d\0\0":
            return [self._expanded(lzma.LZMADecompressor, body)]
        if body[:2] in (b"\x78\x01", b"\x78\x9c", b"\x78\xda"):
            return [self._inflated(body, 15)]
        if body[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
            return self._members(body)
        if body[257:262] == b"ustar":
            return self._tar(body)
        return None

    def _take(self, body: Body) -> Body:
        self._room -= len(body)
        if self._room <= 0:
            raise _Unreadable
        return body

    def _inflated(self, body: bytes, wbits: int) -> bytes:
        """Return the content of all members of a gzip file, or of one zlib stream."""
        out = bytearray()
        while body:
            reader = zlib.decompressobj(wbits=wbits)
            try:
                out += reader.decompress(body, self._room)
            except zlib.error:
                raise _Unreadable from None
            if not reader.eof or len(out) >= self._room:
                raise _Unreadable
            body = reader.unused_data.lstrip(b"\0")
        return self._take(bytes(out))

    def _expanded(self, new: Any, body: bytes) -> bytes:
        out = bytearray()
        while body:
            reader = new()
            try:
                out += reader.decompress(body, self._room)
            except (OSError, EOFError, lzma.LZMAError):
                raise _Unreadable from None
            if not reader.eof or len(out) >= self._room:
                raise _Unreadable
            body = reader.unused_data.lstrip(b"\0")
        return self._take(bytes(out))

    def _members(self, body: bytes) -> Iterator[bytes]:
        try:
            with zipfile.ZipFile(io.BytesIO(body)) as archive:
                for member in archive.infolist():
                    yield member.filename.encode("utf-8", "replace")
                    if not member.is_dir():
                        with archive.open(member) as file:
                            yield self._take(file.read(self._room))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError, zlib.error):
            raise _Unreadable from None

    def _tar(self, body: bytes) -> Iterator[bytes]:
        try:
            with tarfile.open(fileobj=io.BytesIO(body), mode="r:") as archive:
                for member in archive:
                    yield member.name.encode("utf-8", "replace")
                    file = archive.extractfile(member) if member.isreg() else None
                    if file is not None:
                        yield self._take(file.read(self._room))
        except (tarfile.TarError, OSError, EOFError, ValueError):
            raise _Unreadable from None

    def _of_rows(self, rows: Iterator[Iterable[Any]], depth: int) -> Iterator[str | Places]:
        """Yield rows of a database or column file as lines; bytes in them as what they contain."""
        lines: list[str] = []
        blobs: list[bytes] = []
        try:
            for row in rows:
                blobs += [self._take(value) for value in row if isinstance(value, bytes)]
                lines.append("\t".join(str(value) for value in row if not isinstance(value, bytes)))
                self._take(lines[-1])
                if len(lines) == 4096:
                    yield from self._of_text("\n".join(lines), depth)
                    lines = []
        except Exception as problem:  # whatever a reader of foreign bytes raises
            raise _Unreadable from problem
        if lines:
            yield from self._of_text("\n".join(lines), depth)
        if blobs:
            yield from binary_numbers(b"".join(blobs))
        for blob in blobs:
            yield from self._passage(blob, depth)

    def _of_text(self, text: str, depth: int) -> Iterator[str | Places]:
        text = _unescaped(ascii_numbers(text))
        yield text
        for pattern, decode in ((_HEX, _of_hex), (_BASE64, _of_base64)):
            for found in pattern.finditer(text):
                body = decode(found[0])
                if body is not None:
                    yield from self._passage(body, depth)

    def _passage(self, body: bytes, depth: int) -> Iterator[str | Places]:
        """Yield the texts of an encoded passage. Random bytes are common there (digests, keys), so only long ones
        that cannot be read are counted."""
        try:
            is_layer = self._layer(body) is not None or body.startswith(_WHOLE)
        except _Unreadable:
            is_layer = False
        if is_layer or (_decoded(body) is not None and b"\0" not in body):
            if depth < DEPTH:
                yield from self._of(body, depth + 1)
            else:
                self.unreadable += 1
            return
        if len(body) > _SMALL:
            self.unreadable += 1
        yield from binary_numbers(body)


def _rows(body: bytes) -> Iterator[Iterable[Any]] | None:
    """Return the rows of a database or a column file; None if it is neither. Raise _Unreadable without the library."""
    if body[:16] == sqlite_records.MAGIC:
        return iter(sqlite_records.rows(body))
    if body[:4] == b"PAR1" or body[:6] == b"ARROW1":
        return _arrow_rows(body)
    return None


def _arrow_rows(body: bytes) -> Iterator[Iterable[Any]]:
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise _Unreadable from None
    try:
        if body[:4] == b"PAR1":
            batches = pyarrow.parquet.ParquetFile(io.BytesIO(body)).iter_batches()
        else:
            file = pyarrow.ipc.open_file(io.BytesIO(body))
            batches = (file.get_batch(n) for n in range(file.num_record_batches))
    except Exception as problem:  # whatever the library raises for foreign bytes
        raise _Unreadable from problem
    return (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _decoded(body: bytes) -> str | None:
    """Return bytes as text; None if they are none."""
    if body[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        return _as(body, "utf-32")
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return _as(body, "utf-16")
    if b"\0" in body:
        half = len(body) // 2
        for offset, name in ((1, "utf-16-le"), (0, "utf-16-be")):
            if body[offset::2].count(0) > 0.6 * half and body[1 - offset :: 2].count(0) == 0:
                return _as(body, name)
        return None
    if body.isascii():
        return body.decode("ascii") if len(body.translate(None, _CONTROL)) >= 0.98 * len(body) else None
    text = _as(body, "utf-8")
    if text is not None:
        return text
    plain = body.translate(None, _CONTROL)
    foreign = len(plain.translate(None, bytes(range(128, 256))))
    return body.decode("latin-1") if len(plain) == len(body) and foreign >= 0.7 * len(body) else None


def _as(body: bytes, encoding: str) -> str | None:
    try:
        return body.decode(encoding)
    except UnicodeDecodeError:
        return None


def _unescaped(text: str) -> str:
    """Return the text without percent encoding, unicode escapes and HTML entities, as often as they are nested."""
    for _ in range(DEPTH):
        before = text
        if _ESCAPED.search(text):
            text = _ESCAPED.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
        if "&" in text and _ENTITY.search(text):
            text = html.unescape(text)
        if text == before:
            break
        text = ascii_numbers(text)
    return text


def _of_hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


_URL_SAFE = str.maketrans("-_", "+/", "\r\n")


def _of_base64(text: str) -> bytes | None:
    plain = text.translate(_URL_SAFE).rstrip("=")
    if len(plain) % 4 == 1:
        plain = plain[:-1]
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
