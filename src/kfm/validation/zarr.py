"""Reads Zarr, versions 2 and 3: a store in one zip file.

The metadata are checked here first, because they choose the decoder. Only codecs that turn bytes into numbers are
allowed: others in the library would run code from a chunk.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

from kfm.errors import BadInput
from kfm.parsing.strict_json import decode
from kfm.validation.grid_reader import (
    MOST_VARIABLES,
    Grid,
    NoGrid,
    Variable,
    checked_block,
    libraries,
    slabs,
    turned,
)

MOST_ENTRIES = 200_000
MOST_METADATA = 4 << 20
_CODECS = (
    "bytes", "gzip", "zlib", "zstd", "blosc", "lz4", "bz2", "lzma", "crc32", "crc32c", "adler32", "fletcher32",
    "transpose", "sharding_indexed", "shuffle", "delta", "fixedscaleoffset", "quantize", "bitround", "packbits",
)  # fmt: skip
_METADATA = (".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json")


def zarr(body: BinaryIO) -> Grid:
    library, _ = libraries("Zarr", "zarr", "numpy")
    body.seek(0)
    if body.read(4) not in (b"PK\x03\x04", b"PK\x05\x06"):
        raise NoGrid("it is no zip file with a Zarr store in it", "zarr.unreadable")
    try:
        with zipfile.ZipFile(body) as packed:
            _check_names(packed)
            for name in packed.namelist():
                if name.rpartition("/")[2] in _METADATA:
                    _check_metadata(packed, name)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zipfile.zlib.error) as problem:  # type: ignore[attr-defined]
        raise NoGrid from problem
    store = library.storage.ZipStore(f"/proc/self/fd/{body.fileno()}", mode="r")
    root = library.open(store=store, mode="r")
    arrays = (
        [(root.basename or "0", root)] if isinstance(root, library.Array) else list(_arrays(library, root, "", [0]))
    )
    found = [(_variable(name, array), array) for name, array in arrays]
    box = _box(found)
    return Grid(
        [variable for variable, _ in found],
        "OGC:CRS84" if box else "",
        box,
        turned(box) if box else None,
        _times(found),
    )


def _check_names(packed: zipfile.ZipFile) -> None:
    entries = packed.infolist()
    if len(entries) > MOST_ENTRIES:
        raise NoGrid(f"it holds more than {MOST_ENTRIES:,} files", "grid.size")
    seen: set[str] = set()
    for entry in entries:
        parts = entry.filename.removesuffix("/").split("/")
        plain = all(part not in ("", ".", "..") for part in parts) and "\\" not in entry.filename
        if not plain or entry.filename in seen or "\0" in entry.orig_filename:
            raise NoGrid("a file in it has a name that leads elsewhere, or that of another one", "zarr.names")
        if entry.flag_bits & 1:
            raise NoGrid("a file in it is encrypted", "zarr.unreadable")
        checked_block(entry.file_size)
        seen.add(entry.filename)


def _check_metadata(packed: zipfile.ZipFile, name: str) -> None:
    entry = packed.getinfo(name)
    if entry.file_size > MOST_METADATA:
        raise NoGrid("its metadata is too long", "grid.size")
    with packed.open(entry) as file:
        text = file.read(MOST_METADATA + 1)
    try:
        said = decode(text, "zarr")
    except BadInput as problem:
        raise NoGrid("its metadata is not JSON", "zarr.unreadable") from problem
    _check_codecs(said)


def _check_codecs(said: Any) -> None:
    """Raise NoGrid if a codec is not allowed, wherever it is named: in shards too, and in the consolidated metadata of
    all arrays."""
    stack = [said]
    while stack:
        each = stack.pop()
        if isinstance(each, list):
            stack.extend(each)
        elif isinstance(each, dict):
            listed: list[Any] = []
            for key in ("codecs", "index_codecs", "filters"):
                if isinstance(each.get(key), list):
                    listed += each[key]
            if each.get("compressor") is not None:
                listed.append(each["compressor"])
            for codec in listed:
                named = codec.get("id", codec.get("name")) if isinstance(codec, dict) else codec
                if not isinstance(named, str) or named.removeprefix("numcodecs.") not in _CODECS:
                    raise NoGrid("a codec in it is not one that is read", "zarr.codec")
            if each.get("storage_transformers"):
                raise NoGrid("a codec in it is not one that is read", "zarr.codec")
            stack.extend(each.values())


def _arrays(library: Any, group: Any, path: str, seen: list[int]) -> Iterator[tuple[str, Any]]:
    for name, member in group.members():
        seen[0] += 1
        if seen[0] > MOST_VARIABLES:
            raise NoGrid("it holds more groups or variables than are looked at", "grid.size")
        if isinstance(member, library.Array):
            yield path + name, member
        else:
            yield from _arrays(library, member, f"{path}{name}/", seen)


def _variable(name: str, array: Any) -> Variable:
    shape = tuple(int(size) for size in array.shape)
    said = dict(array.attrs)
    size = array.dtype.itemsize
    if array.dtype.kind not in "biufcSUM":
        raise NoGrid("an array in it holds what is no number", "zarr.codec")
    for each in array.chunks:
        size *= int(each)
    checked_block(size)
    named = getattr(array.metadata, "dimension_names", None) or said.get("_ARRAY_DIMENSIONS") or ()
    fill = said.get("_FillValue", array.fill_value)
    units = said.get("units")
    return Variable(
        name=name,
        dtype=str(array.dtype.name),
        units=units if isinstance(units, str) else "",
        dimensions=tuple(str(each) for each in named),
        shape=shape,
        nodata=float(fill) if fill is not None and array.dtype.kind in "iuf" else None,
        values=lambda: _values(array, shape),
    )


def _values(array: Any, shape: tuple[int, ...]) -> Iterator[Any]:
    for piece in slabs(shape):
        yield array[piece] if piece else array[...]


def _box(found: list[tuple[Variable, Any]]) -> tuple[float, float, float, float] | None:
    from kfm.validation.netcdf import EAST, NORTH, reach

    ends = []
    for units in (EAST, NORTH):
        axis = next((array for variable, array in found if variable.units in units and "/" not in variable.name), None)
        if axis is None or (span := reach(axis)) is None:
            return None
        ends.append(span)
    return ends[0][0], ends[1][0], ends[0][1], ends[1][1]


def _times(found: list[tuple[Variable, Any]]) -> tuple[str, str] | None:
    from kfm.validation.netcdf import interval

    for variable, array in found:
        if " since " in variable.units and (variable.dimensions in ((variable.name,), ()) or variable.name == "time"):
            return interval(array[...], variable.units, str(dict(array.attrs).get("calendar", "standard")))
    return None
