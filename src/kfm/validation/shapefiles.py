"""A shapefile is several files, so a source is one zip of them. Readers get a new zip that contains only the known
parts.

Names and sizes in the zip are not trusted. Other files next to the shapefile are ignored.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import BinaryIO

MOST_MEMBERS = 10_000
MOST_UNPACKED = 512 << 20  # bytes of all parts together
NEEDED = ("shp", "shx", "dbf")
WELCOME = ("prj", "cpg")
_MAGIC = b"\x00\x00\x27\x0a"
_PIECE = 1 << 20
_HEADER = 100  # bytes of the head of .shp and .shx


class NoShapefile(ValueError):
    """Raised for a zip that is no usable shapefile; `rule` is the rule under which it is quarantined."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = f"shapefile.{rule}"


class Shapefile:
    """The parts of a shapefile by their suffix, and the number of rows in them."""

    def __init__(self, body: BinaryIO) -> None:
        start = body.read(4)
        if start == _MAGIC:
            raise NoShapefile("members", "it is a .shp without its other parts: publish them as one zip")
        body.seek(0)
        try:
            with zipfile.ZipFile(body) as archive:
                self.parts = _parts(archive)
        except NoShapefile:
            raise
        except MemoryError:
            raise
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, struct.error) as problem:
            raise NoShapefile("unreadable", "it is no zip archive that can be read") from problem
        self.rows = _rows(self.parts)

    def packed(self) -> bytes:
        """Return a zip of these parts alone, under fixed names, not compressed."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for suffix in (*NEEDED, *WELCOME):
                if suffix in self.parts:
                    archive.writestr(zipfile.ZipInfo(f"shapes.{suffix}"), self.parts.pop(suffix))
        return out.getvalue()


def _parts(archive: zipfile.ZipFile) -> dict[str, bytes]:
    chosen = _chosen(archive.infolist())
    found: dict[str, bytes] = {}
    left = MOST_UNPACKED
    for suffix, info in chosen.items():
        pieces = []
        with archive.open(info) as member:
            while piece := member.read(_PIECE):
                left -= len(piece)
                if left < 0:
                    raise NoShapefile("limits", f"its parts are larger than {MOST_UNPACKED >> 20} MiB together")
                pieces.append(piece)
        found[suffix] = b"".join(pieces)
    return found


def _chosen(infos: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    if len(infos) > MOST_MEMBERS:
        raise NoShapefile("members", f"there are more than {MOST_MEMBERS:,} files in it")
    by_name: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename.replace("\\", "/")
        if name.startswith("/") or ".." in name.split("/") or name[1:2] == ":":
            raise NoShapefile("members", "a name in it leads out of it")
        if info.is_dir() or name.startswith("__MACOSX/"):
            continue
        if name.lower() in by_name:
            raise NoShapefile("members", "a name is in it twice, but for capital letters")
        by_name[name.lower()] = info
    mains = [name for name in by_name if name.endswith(".shp")]
    if len(mains) > 1:
        raise NoShapefile("members", "there is more than one .shp in it: publish each in a zip of its own")
    if not mains:
        nested = any(name.endswith((".zip", ".gz", ".tgz", ".tar", ".7z")) for name in by_name)
        what = "another archive is in it, and no .shp: publish the inner one" if nested else "there is no .shp in it"
        raise NoShapefile("members", what)
    stem = mains[0].removesuffix("shp")
    found = {suffix: by_name[stem + suffix] for suffix in (*NEEDED, *WELCOME) if stem + suffix in by_name}
    for suffix in NEEDED:
        if suffix not in found:
            raise NoShapefile("members", f"its .{suffix} is not in it, under the same name as its .shp")
    return found


def _rows(parts: dict[str, bytes]) -> int:
    """Return the number of rows in the index and the table, which must agree; rows marked as deleted do not count."""
    shp, shx, dbf = (parts[suffix] for suffix in NEEDED)
    if not (shp.startswith(_MAGIC) and shx.startswith(_MAGIC)) or min(len(shp), len(shx)) < _HEADER or len(dbf) < 32:
        raise NoShapefile("unreadable", "its parts do not begin as those of a shapefile do")
    said = [int.from_bytes(part[24:28], "big") * 2 for part in (shp, shx)]
    if said[0] > len(shp) or said[1] > len(shx):
        raise NoShapefile("unreadable", "its .shp or .shx is shorter than it says, as if it were cut off")
    count = (said[1] - _HEADER) // 8
    records, first, width = struct.unpack_from("<IHH", dbf, 4)
    if records != count:
        raise NoShapefile("rows", "its .dbf and its .shx differ in how many rows there are")
    if width < 1 or first + records * width > len(dbf):
        raise NoShapefile("unreadable", "its .dbf is shorter than it says, as if it were cut off")
    _check_index(shp, shx, count)
    return int(count) - dbf[first : first + records * width : width].count(b"*")


def _check_index(shp: bytes, shx: bytes, count: int) -> None:
    """Raise NoShapefile if the index leads to one shape twice, or to the shape of another row: readers with the index
    and readers without it would then answer differently. Numbers that a writer never counted are not compared."""
    listed = enumerate(struct.iter_unpack(">ii", shx[_HEADER : _HEADER + count * 8]), 1)
    places = {row: at * 2 for row, (at, length) in listed if at or length}  # some writers give no shape no place
    if any(not _HEADER <= at <= len(shp) - 8 for at in places.values()):
        raise NoShapefile("unreadable", "its .shx leads out of its .shp")
    numbers = [int.from_bytes(shp[at : at + 4], "big") for at in places.values()]
    ordered = list(places)
    if len(set(places.values())) < len(places) or (numbers != ordered and sorted(numbers) == ordered):
        raise NoShapefile("index", "its .shx gives rows the shapes of other rows")
