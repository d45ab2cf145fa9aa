"""Read one member of a zip or tar archive as a stream. The archive may be hostile.

Member names are compared and never used as paths; the bytes go to the object store alone. An archive that two readers
could understand differently is refused: a name that occurs twice, a name that leads out of the archive, a zip whose two
tables disagree. The member must be a regular file that is neither encrypted, sparse nor an archive itself.

The standard modules zipfile and tarfile do not serve: they hold the whole table of a zip, and a tar header of any
declared length, in memory.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from kfm.errors import Refused, Unavailable
from kfm.parsing.characters import printable

MOST_MEMBERS = 1_000_000
MOST_HEADER = 1 << 20  # most bytes of a long name or of extended attributes
FREE = 1 << 20  # up to this size a member may have any compression ratio
PIECE = 1 << 20
BLOCK = 512
_NESTED = (
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ\x00",
    b"7z\xbc\xaf\x27\x1c",
    b"\x28\xb5\x2f\xfd",
)
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_MOST_COMMENT = 65_535
_ENCRYPTED = 0x1 | 0x40 | 0x2000


class Limits(NamedTuple):
    most_bytes: int  # most bytes of the member
    max_ratio: int
    tick: Callable[[], None]  # raises when the time is over


def kind_of(start: bytes) -> str:
    """Return "zip", "tar", "gzip" or "" for the first 512 bytes of a file."""
    if start.startswith(_NESTED[:2]):
        return "zip"
    if start.startswith(b"\x1f\x8b"):
        return "gzip"
    return "tar" if start[257:262] == b"ustar" else ""


def is_packed(start: bytes) -> bool:
    return start.startswith(_NESTED) or start[257:262] == b"ustar"


def plain_name(name: str, shown: str) -> str:
    """Return a member name with plain slashes. Raise Refused if it leads out of the archive."""
    name = name.replace("\\", "/")
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or name[1:3] == ":/" or "\0" in name:
        raise Refused(
            f"{shown} holds a member name that leads out of the archive", hint="ask its publisher; KFM read no member"
        )
    return "/".join(part for part in parts if part not in ("", "."))


# ----------------------------------------------------------------------------------------------- zip


class _Entry(NamedTuple):
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    mode: int  # Unix file mode; 0 if another system packed it
    folder: bool
    at: int
    name: bytes


def zip_member(file: BinaryIO, wanted: str, limits: Limits, shown: str) -> Iterator[bytes]:
    file.seek(0, os.SEEK_END)
    end = file.tell()
    table, count, size = _table(file, end, shown)
    found: _Entry | None = None
    file.seek(table)
    left = size
    for number in range(count):
        if number % 1024 == 0:
            limits.tick()
        entry, length = _entry(file, left, shown)
        left -= length
        if wanted not in {plain_name(text, shown) for text in _texts(entry)}:
            continue
        if found is not None:
            raise twice(wanted, shown)
        found = entry
    if found is None:
        raise absent(wanted, shown)
    _check_zipped(found, limits, shown, wanted)
    return _inflated(file, found, table, limits, shown)


def _table(file: BinaryIO, end: int, shown: str) -> tuple[int, int, int]:
    """Return the position of the central directory of a zip, its number of members, and its length in bytes."""
    tail_at = max(0, end - _END.size - _MOST_COMMENT)
    file.seek(tail_at)
    tail = file.read(end - tail_at)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise cut_short(shown)
    _, disk, table_disk, here, count, size, start, comment = _END.unpack_from(tail, at)
    where = tail_at + at
    if where + _END.size + comment > end:
        raise cut_short(shown)
    if 0xFFFF in (here, count) or 0xFFFFFFFF in (size, start):
        locator = where - 20
        if locator < 0:
            raise malformed(shown)
        file.seek(locator)
        sign, _, place, _ = struct.unpack("<4sLQL", file.read(20))
        if sign != b"PK\x06\x07" or place > locator - _END64.size:
            raise malformed(shown)
        file.seek(place)
        sign, _, _, _, disk, table_disk, here, count, size, start = _END64.unpack(file.read(_END64.size))
        if sign != b"PK\x06\x06":
            raise malformed(shown)
        where = place
    if disk or table_disk or here != count:
        raise Refused(f"{shown} is one part of a split archive", hint="join its parts first")
    if start + size != where:  # there are bytes before or inside the central directory that it does not account for
        raise malformed(shown)
    if count > MOST_MEMBERS:
        raise too_many(shown)
    return start, count, size


def _entry(file: BinaryIO, left: int, shown: str) -> tuple[_Entry, int]:
    head = file.read(_ENTRY.size)
    if len(head) < _ENTRY.size or left < _ENTRY.size:
        raise cut_short(shown)
    (
        sign,
        made,
        _,
        flags,
        method,
        _,
        _,
        crc,
        packed,
        size,
        name_size,
        extra_size,
        comment_size,
        _,
        _,
        attributes,
        at,
    ) = _ENTRY.unpack(head)
    length = _ENTRY.size + name_size + extra_size + comment_size
    if sign != b"PK\x01\x02" or length > left:
        raise malformed(shown)
    name, extra = file.read(name_size), file.read(extra_size)
    file.seek(comment_size, os.SEEK_CUR)
    if 0xFFFFFFFF in (packed, size, at):
        size, packed, at = _wide(extra, size, packed, at, shown)
    mode = attributes >> 16 if made >> 8 in (3, 19) else 0
    folder = name.endswith((b"/", b"\\")) or bool(attributes & 0x10)
    return _Entry(flags, method, crc, packed, size, mode, folder, at, name), length


def _wide(extra: bytes, size: int, packed: int, at: int, shown: str) -> tuple[int, int, int]:
    """Return size, packed size and offset of a zip member; those that do not fit into four bytes come from the ZIP64
    field."""
    place = 0
    while place + 4 <= len(extra):
        tag, length = struct.unpack_from("<HH", extra, place)
        if tag == 1:
            body = extra[place + 4 : place + 4 + length]
            given = [size, packed, at]
            need = [index for index, value in enumerate(given) if value == 0xFFFFFFFF]
            if len(body) < 8 * len(need):
                break
            for number, index in enumerate(need):
                given[index] = struct.unpack_from("<Q", body, 8 * number)[0]
            return given[0], given[1], given[2]
        place += 4 + length
    raise malformed(shown)


def _texts(entry: _Entry) -> set[str]:
    """Return the texts that the bytes of a member name may mean: UTF-8, and the old encoding of zip if the flag for
    UTF-8 is missing. Most programs that write UTF-8 do not set the flag."""
    texts = {entry.name.decode("utf-8", "replace")}
    return texts if entry.flags & 0x800 else texts | {entry.name.decode("cp437")}


def _check_zipped(entry: _Entry, limits: Limits, shown: str, wanted: str) -> None:
    if entry.flags & _ENCRYPTED:
        raise Refused(
            f"{printable(wanted, 200)} in {shown} is encrypted",
            hint="publish it without encryption; KFM reads no encrypted archive",
        )
    if entry.folder or (entry.mode & 0o170000) not in (0, 0o100000):
        raise no_file(wanted, shown)
    if entry.method not in (0, 8):
        raise Refused(
            f"{printable(wanted, 200)} in {shown} uses an unsupported compression method", hint="pack it with deflate"
        )
    if entry.method == 0 and entry.size != entry.packed:
        raise malformed(shown)
    if entry.size > limits.most_bytes:
        raise too_large_inside(wanted, shown, limits.most_bytes)
    if entry.size > FREE and entry.size > limits.max_ratio * max(entry.packed, 1):
        raise too_dense(shown, limits.max_ratio)


def _inflated(file: BinaryIO, entry: _Entry, table: int, limits: Limits, shown: str) -> Iterator[bytes]:
    if entry.at + _LOCAL.size > table:
        raise malformed(shown)
    file.seek(entry.at)
    sign, _, flags, method, _, _, _, _, _, name_size, extra_size = _LOCAL.unpack(file.read(_LOCAL.size))
    name = file.read(name_size)
    if sign != b"PK\x03\x04" or name != entry.name or method != entry.method or flags & _ENCRYPTED:
        raise malformed(shown)
    file.seek(extra_size, os.SEEK_CUR)
    if file.tell() + entry.packed > table:
        raise malformed(shown)
    crc = given = 0
    for piece in _unpacked(file, entry, shown):
        limits.tick()
        given += len(piece)
        if given > entry.size:
            raise malformed(shown)
        crc = zlib.crc32(piece, crc)
        yield piece
    if given != entry.size or crc != entry.crc:
        raise malformed(shown)


def _unpacked(file: BinaryIO, entry: _Entry, shown: str) -> Iterator[bytes]:
    left = entry.packed
    inflate = zlib.decompressobj(-15)
    while left:
        chunk = file.read(min(left, 1 << 16))
        if not chunk:
            raise cut_short(shown)
        left -= len(chunk)
        if entry.method == 0:
            yield chunk
            continue
        try:
            pending = True  # zlib may hold more output although it has taken all input
            while (chunk or pending) and not inflate.eof:
                piece = inflate.decompress(chunk, PIECE)
                chunk, pending = inflate.unconsumed_tail, len(piece) == PIECE
                if piece:
                    yield piece
        except zlib.error:
            raise malformed(shown) from None
        if inflate.eof and (left or inflate.unused_data):
            raise malformed(shown)
    if entry.method == 8 and not inflate.eof:
        raise malformed(shown)


# ----------------------------------------------------------------------------------------------- tar


class _Blocks:
    """Reads exact numbers of bytes from a stream of chunks."""

    def __init__(self, chunks: Iterator[bytes], limits: Limits, shown: str) -> None:
        self._chunks = chunks
        self._limits = limits
        self._shown = shown
        self._rest = b""

    def pieces(self, size: int) -> Iterator[bytes]:
        while size:
            if not self._rest:
                self._limits.tick()
                self._rest = next(self._chunks, b"")
                if not self._rest:
                    raise cut_short(self._shown)
            piece, self._rest = self._rest[:size], self._rest[size:]
            size -= len(piece)
            yield piece

    def take(self, size: int) -> bytes:
        return b"".join(self.pieces(size))

    def skip(self, size: int) -> None:
        for _ in self.pieces(size):
            pass

    def drain(self) -> None:
        """Read the stream to its end. Only there does a compressed stream show whether it was complete."""
        for _ in self._chunks:
            self._limits.tick()


def tar_member(chunks: Iterator[bytes], wanted: str, limits: Limits, shown: str) -> Iterator[bytes]:
    """Yield the bytes of one member of a tar archive. The whole archive is read, because the same name may occur again
    later."""
    blocks = _Blocks(chunks, limits, shown)
    found = False
    long_name: str | None = None
    long_size: int | None = None
    for _ in range(MOST_MEMBERS):
        head = blocks.take(BLOCK)
        if not any(head):
            blocks.drain()
            if not found:
                raise absent(wanted, shown)
            return
        name, size, kind = _header(head, shown)
        padding = -size % BLOCK
        if kind == "S":
            raise sparse(shown)
        if kind in "LKxgX":
            if size > MOST_HEADER:
                raise malformed(shown)
            body = blocks.take(size)
            blocks.skip(padding)
            if kind == "L":
                long_name = body.rstrip(b"\0").decode("utf-8", "replace")
            elif kind == "x":
                said = _attributes(body, shown)
                long_name = said.get("path", long_name)
                long_size = _number(said["size"], shown) if "size" in said else long_size
                if any(key.startswith("GNU.sparse") for key in said):
                    raise sparse(shown)
            continue
        if long_size is not None:
            size, padding = long_size, -long_size % BLOCK
        plain = plain_name(name if long_name is None else long_name, shown)
        long_name = long_size = None
        if kind in "123456":  # links, folders and devices have no content, whatever size their header declares
            size = padding = 0
        if plain != wanted:
            blocks.skip(size + padding)
            continue
        if found:
            raise twice(wanted, shown)
        if kind not in ("0", "\0", "7"):
            raise no_file(wanted, shown)
        if size > limits.most_bytes:
            raise too_large_inside(wanted, shown, limits.most_bytes)
        found = True
        yield from blocks.pieces(size)
        blocks.skip(padding)
    raise too_many(shown)


def _header(head: bytes, shown: str) -> tuple[str, int, str]:
    told = _number(head[148:156].split(b"\0")[0].decode("latin-1").strip(" ") or "x", shown, base=8)
    if told != sum(head[:148]) + 8 * 32 + sum(head[156:]):
        raise malformed(shown)
    name = head[:100].split(b"\0")[0]
    prefix = head[345:500].split(b"\0")[0] if head[257:263] == b"ustar\0" else b""
    raw = head[124:136]
    if raw[0] & 0x80:  # the size is too large for octal digits and is written in binary
        size = int.from_bytes(raw[1:], "big")
        if raw[0] != 0x80:
            raise malformed(shown)
    else:
        size = _number(raw.split(b"\0")[0].decode("latin-1").strip(" ") or "0", shown, base=8)
    whole = prefix + b"/" + name if prefix else name
    return whole.decode("utf-8", "replace"), size, chr(head[156])


def _number(text: str, shown: str, base: int = 10) -> int:
    digits = "01234567" if base == 8 else "0123456789"
    if not text or len(text) > 20 or any(c not in digits for c in text):
        raise malformed(shown)
    return int(text, base)


def _attributes(body: bytes, shown: str) -> dict[str, str]:
    """Return the extended attributes of one tar member: the text consists of lines that each begin with their own
    length."""
    found: dict[str, str] = {}
    at = 0
    while at < len(body):
        space = body.find(b" ", at, at + 21)
        length = _number(body[at:space].decode("latin-1") if space > 0 else "", shown)
        line = body[space + 1 : at + length]
        if length < 5 or at + length > len(body) or not line.endswith(b"\n"):
            raise malformed(shown)
        key, _, value = line[:-1].decode("utf-8", "replace").partition("=")
        found[key] = value
        at += length
    return found


# ------------------------------------------------------------------------------------------ refusals


def malformed(shown: str) -> Refused:
    return Refused(f"{shown} is a malformed archive", hint="ask its publisher; KFM read no member")


def cut_short(shown: str) -> Unavailable:
    return Unavailable(f"{shown} ended in the middle of the archive", hint="try again later")


def absent(wanted: str, shown: str) -> Refused:
    return Refused(f"{shown} has no member {printable(wanted, 200)}", hint="list its members, and correct `member:`")


def twice(wanted: str, shown: str) -> Refused:
    return Refused(f"{shown} has {printable(wanted, 200)} twice, so the member is ambiguous", hint="ask its publisher")


def no_file(wanted: str, shown: str) -> Refused:
    return Refused(f"{printable(wanted, 200)} in {shown} is a link, a folder or a device", hint="name a file in it")


def sparse(shown: str) -> Refused:
    return Refused(f"{shown} holds a sparse file", hint="pack it without holes (tar without --sparse)")


def too_many(shown: str) -> Refused:
    return Refused(f"{shown} has more than {MOST_MEMBERS:,} members", hint="pack only the files that are needed")


def too_dense(shown: str, ratio: int) -> Refused:
    return Refused(
        f"{shown} unpacks to more than {ratio} times its size",
        hint="if this ratio is right, unpack it yourself and name the unpacked file as the source",
    )


def too_large_inside(wanted: str, shown: str, limit: int) -> Refused:
    return Refused(
        f"{printable(wanted, 200)} in {shown} is larger than the {limit} bytes allowed",
        hint="raise max_bytes of this source or of network if it should be that large",
        max_bytes=limit,
    )


def nested(shown: str) -> Refused:
    return Refused(
        f"{shown} holds another archive or compressed file, and KFM unpacks one level only",
        hint="a gzipped tar counts as one level: name a `member:` of it; publish anything else unpacked",
    )
