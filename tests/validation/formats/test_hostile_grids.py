"""Grids from anyone: cut off, spoilt, swollen, absurd, pointing elsewhere. One clear line, bounded, nothing changed."""

from __future__ import annotations

import base64
import io
import json
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kfm.engine.isolation import sandbox
from kfm.model.format_rules import expecting
from kfm.model.records import DataContract
from kfm.model.transform_config import Expected
from kfm.parsing.tiff import NoTiff, images, is_cloud_optimized
from kfm.validation.source_check import Inspection
from tests.abilities import needs_confinement
from tests.validation.formats.grids import MADE, geotiff, grib2, netcdf, packed, site_of, unpacked, zarr
from tests.validation.formats.test_grids import look as look_here
from tests.validation.formats.test_hostile_parquet import standing, tree

VRT = b"""<VRTDataset rasterXSize="2" rasterYSize="2"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>
<SourceFilename>/etc/passwd</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>"""


def look(form: str, body: bytes, crs: str = "") -> Inspection:
    """In a process of its own."""
    needs_confinement()
    contract = msgspec.convert({"format": form}, DataContract)
    if crs:
        contract = expecting(contract, Expected(crs=crs))
    return sandbox.inspect_apart(io.BytesIO, lambda: io.BytesIO(body), contract, "day", lambda _: None, lambda _: None)


def tiff(entries: dict[int, tuple[int, int]], tail: bytes = b"") -> bytes:
    """A classic TIFF of one directory: tag, type, value; `tail` stands behind it."""
    body = struct.pack("<2sHIH", b"II", 42, 8, len(entries))
    for tag, (kind, value) in sorted(entries.items()):
        body += struct.pack("<HHII", tag, kind, 1, value)
    return body + struct.pack("<I", 0) + tail


def plane(width: int, height: int, *, compression: int = 1, body: bytes = b"\0" * 64, rows: int = 0) -> bytes:
    at = 8 + 2 + 10 * 12 + 4
    return tiff(
        {256: (4, width), 257: (4, height), 258: (3, 8), 259: (3, compression), 262: (3, 1), 273: (4, at),
         277: (3, 1), 278: (4, rows or height), 279: (4, len(body)), 339: (3, 1)},
        body,
    )  # fmt: skip


def classic(size: int) -> bytes:
    """NetCDF classic whose one dimension has so many values."""
    name = b"\0\0\0\x01x\0\0\0"
    dims = struct.pack(">II", 10, 1) + name + struct.pack(">I", size)
    none = struct.pack(">II", 0, 0)
    var = struct.pack(">II", 11, 1) + name + struct.pack(">II", 1, 0) + none + struct.pack(">IIQ", 6, 0xFFFFFFFF, 96)
    return b"CDF\x02" + struct.pack(">I", 0) + dims + none + var + bytes(64)


def store(change: Callable[[dict[str, bytes]], None]) -> bytes:
    files = unpacked(zarr())
    change(files)
    return packed(files)


def said(name: str, **more: object) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        files[name] = json.dumps({**json.loads(files[name]), **more}).encode()

    return change


def twisted() -> bytes:
    """A version 2 array whose chunks are pickles."""
    files = unpacked(zarr(version=2))
    about = json.loads(files["rain/.zarray"])
    about |= {"dtype": "|O", "filters": [{"id": "pickle", "protocol": 4}], "fill_value": None}
    files["rain/.zarray"] = json.dumps(about).encode()
    return packed(files)


def swollen_store() -> bytes:
    """A chunk of 200 MB of zeros where one of 9 kB is announced."""
    files = unpacked(zarr(compressors=None))
    about = json.loads(files["rain/zarr.json"])
    about["codecs"].append({"name": "gzip", "configuration": {"level": 9}})
    files["rain/zarr.json"] = json.dumps(about).encode()
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    chunk = b"".join(pack.compress(bytes(1 << 20)) for _ in range(200)) + pack.flush()
    for name in [name for name in files if name.startswith("rain/c/")]:
        files[name] = chunk
    return packed(files)


HOSTILE: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "geotiff: nothing": ("geotiff", "geotiff.unreadable", lambda: b""),
    "geotiff: a VRT": ("geotiff", "geotiff.unreadable", lambda: VRT),
    "geotiff: an address": ("geotiff", "geotiff.unreadable", lambda: b"/vsicurl/http://127.0.0.1/x.tif"),
    "geotiff: a NetCDF": ("geotiff", "geotiff.unreadable", netcdf),
    "geotiff: a header alone": ("geotiff", "geotiff.unreadable", lambda: b"II*\0\x08\0\0\0"),
    "geotiff: a directory that leads to itself": (
        "geotiff", "geotiff.unreadable", lambda: b"II*\0\x08\0\0\0\0\0\x08\0\0\0",
    ),
    "geotiff: 2^31 x 2^31": ("geotiff", "grid.size", lambda: plane(1 << 31, 1 << 31)),
    "geotiff: a strip of a gigabyte": ("geotiff", "", lambda: plane(1 << 15, 1 << 15)),
    "geotiff: no pixels": ("geotiff", "geotiff.unreadable", lambda: plane(300, 300, body=b"")),
    "geotiff: spoilt pixels": ("geotiff", "geotiff.unreadable", lambda: plane(9, 9, compression=8, body=b"x" * 30)),
    "geotiff: cut in the pixels": (
        "geotiff", "geotiff.unreadable", lambda: geotiff(compress="deflate", units="")[:-900],
    ),
    "grib2: nothing": ("grib2", "grib2.unreadable", lambda: b""),
    "grib2: GRIB1": ("grib2", "grib2.unreadable", lambda: b"GRIB\0\0\x54\x01" + bytes(90)),
    "grib2: a header alone": ("grib2", "grib2.unreadable", lambda: grib2()[:16]),
    "grib2: the second of two cut off": ("grib2", "grib2.unreadable", lambda: grib2() + grib2()[:-9]),
    "grib2: the second of two is another edition": (
        "grib2", "grib2.unreadable", lambda: grib2() + grib2().replace(b"\0\0\0\x02", b"\0\0\0\x01", 1),
    ),
    "grib2: absurd numbers": ("grib2", "", lambda: grib2()[:67] + b"\x7f\xff\xff\xff" * 2 + grib2()[75:]),
    "netcdf: nothing": ("netcdf", "netcdf.unreadable", lambda: b""),
    "netcdf: a text that names a server": ("netcdf", "netcdf.unreadable", lambda: b"http://127.0.0.1/x.nc"),
    "netcdf: HDF5 without an end": ("netcdf", "netcdf.unreadable", lambda: netcdf()[:600]),
    "netcdf: 2^31 - 4 values": ("netcdf", "", lambda: classic((1 << 31) - 4)),
    "zarr: nothing": ("zarr", "zarr.unreadable", lambda: b""),
    "zarr: no zip": ("zarr", "zarr.unreadable", lambda: b'{"zarr_format": 3}'),
    "zarr: an empty zip": ("zarr", "zarr.unreadable", lambda: packed({})),
    "zarr: no store": ("zarr", "zarr.unreadable", lambda: packed({"readme.txt": b"hello"})),
    "zarr: a name that leads out": ("zarr", "zarr.names", lambda: store(lambda files: files.update({"../x": b"x"}))),
    "zarr: an absolute name": ("zarr", "zarr.names", lambda: store(lambda files: files.update({"/etc/x": b"x"}))),
    "zarr: a name of Windows": ("zarr", "zarr.names", lambda: store(lambda files: files.update({"a\\..\\x": b"x"}))),
    "zarr: metadata that are no JSON": (
        "zarr", "zarr.unreadable", lambda: store(lambda files: files.update({"rain/zarr.json": b"{"})),
    ),
    "zarr: 2^31 x 2^31": ("zarr", "grid.size", lambda: store(said("rain/zarr.json", shape=[1, 1 << 31, 1 << 31]))),
    "zarr: pickles": ("zarr", "zarr.codec", twisted),
    "zarr: a codec of its own": (
        "zarr", "zarr.codec", lambda: store(said("rain/zarr.json", codecs=[{"name": "bytes"}, {"name": "evil"}])),
    ),
    "zarr: a chunk that is none": (
        "zarr", "zarr.unreadable",
        lambda: store(lambda files: files.update({name: b"x" for name in files if name.startswith("rain/c/")})),
    ),
    "zarr: a swollen chunk": ("zarr", "", swollen_store),
}  # fmt: skip
# A pick of each format with every commit.
FIRST = (
    "geotiff: 2^31 x 2^31", "netcdf: 2^31 - 4 values", "zarr: a name that leads out", "zarr: pickles",
)  # fmt: skip


def hold_to(kind: str) -> None:
    form, rule, body = HOSTILE[kind]
    found = look(form, body())
    assert found.held and found.cause is not None, kind
    rules = (rule,) if rule else ("grid.size", f"{form}.unreadable", f"{form}.limits")
    assert found.cause.rule in rules, (kind, found.cause)
    assert found.cause.message.endswith("; the source is held")


@pytest.mark.parametrize("kind", FIRST)
def test_what_cannot_be_read_is_held_for_a_reason(kind: str) -> None:
    hold_to(kind)


@pytest.mark.long
@pytest.mark.parametrize("kind", [kind for kind in HOSTILE if kind not in FIRST])
def test_all_that_cannot_be_read_is_held_for_a_reason(kind: str) -> None:
    hold_to(kind)


@pytest.mark.usefixtures("confinement")
def test_one_clear_line_and_nothing_changed(place: Path) -> None:
    site = site_of(place, "geotiff", geotiff(), '{crs: "EPSG:4326", variables: [{name: rain, mode: evolve}]}')
    site.kfm("run")
    site.kfm("promote", "rain")
    before, refs = tree(place / "public"), standing(site)
    for body, rule in ((VRT, "source.kind"), (geotiff(crs="EPSG:3857", bounds=(0, 0, 9e5, 9e5)), "geo.crs")):
        (place / "day.grid").write_bytes(body)
        told = site.kfm("run", expect=3).err
        assert "source day (day.grid) is held: " in told and f"({rule})" in told
        assert "Traceback" not in told
        assert tree(place / "public") == before
        assert standing(site) == refs


def bomb() -> bytes:
    """Half a gigabyte of zeros in half a megabyte, in pieces that are small."""
    return geotiff(
        np.zeros((1, 20_000, 25_000), "uint8"), compress="deflate", zlevel=9, tiled=True, nodata=255, units=""
    )


@pytest.mark.long
def test_what_takes_too_much_time_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 1)
    found = look("geotiff", bomb())
    assert found.held and found.cause is not None
    assert found.cause.rule == "geotiff.limits"


@pytest.mark.long
def test_a_bomb_that_is_within_bounds_is_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in pieces, however much of it there is: in less memory than its values take."""
    monkeypatch.setattr(sandbox, "MEMORY", 320 << 20)
    assert not look("geotiff", bomb()).held


@pytest.mark.long
def test_what_takes_too_much_memory_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MEMORY", 160 << 20)
    values = np.zeros((1, 1, 60_000_000), "float32")
    found = look("netcdf", netcdf(values, days=(0,), chunksizes=values.shape, complevel=9))
    assert found.held and found.cause is not None
    assert found.cause.rule in ("netcdf.limits", "netcdf.unreadable", "grid.size")


def test_another_file_that_hdf5_names_is_not_read(tmp_path: Path) -> None:
    """External storage: the bytes of a dataset lie in another file, here one that anybody may read."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"SECRET!!" * 8)
    body = external(str(secret))
    import netCDF4

    (tmp_path / "x.nc").write_bytes(body)
    with netCDF4.Dataset(str(tmp_path / "x.nc")) as file:  # so it can be read, where nothing prevents it
        assert bytes(np.asarray(file["inside"][:8]).astype("uint8")) == b"SECRET!!"
    found = look("netcdf", body)
    assert found.held and found.cause is not None
    assert found.cause.rule == "netcdf.unreadable"


# An HDF5 file of one dataset of 64 bytes, `inside`, that lie in a file of this name, padded with slashes.
NAME = b"/" * 200
EXTERNAL = (
    "eNrr9HBx4+WS4mLi4GCAgf9QcJ0JwjeAiufIajr5e7gEMSm0bv+dhYwrmISQNcIAFxMDIwMDmyADkGLLzCvOTEk9DLPEmYEa4Py5CZ1gJymiO4mBkVGEgYGJ"
    "kZHRAaoWRjPzMDAKMIDcBAIcDKxAVzJzsWsAdYBFGRnuQ6QYONBsg5nAAfQtMyPMlzBRhh6GQQVYp+u993B1DACxb0DFGGFRzIiqVn+YAJh/AN6DbqI="
)


def external(path: str) -> bytes:
    name = path.encode().rjust(len(NAME), b"/")
    body = zlib.decompress(base64.b64decode(EXTERNAL))
    assert body.count(NAME) == 1
    return body.replace(NAME, name)


@pytest.mark.usefixtures("confinement")
def test_files_next_to_a_source_are_not_read(place: Path) -> None:
    site = site_of(place, "geotiff", geotiff(), "{bands: 1, variables: [{name: '1', units: mm, required: true}]}")
    (place / "day.grid.aux.xml").write_text(
        "<PAMDataset><PAMRasterBand band='1'><UnitType>inch</UnitType></PAMRasterBand></PAMDataset>"
    )
    (place / "day.grid.ovr").write_bytes(VRT)
    site.kfm("run")


@pytest.mark.parametrize("form", MADE)
def test_a_file_that_is_cut_off_is_held(form: str) -> None:
    """At any place: what is missing is missing. (Zeros at the end of what HDF5 laid out are nothing.)"""
    body = MADE[form]() if form != "netcdf" else netcdf(model="NETCDF3_CLASSIC")
    pick = random.Random(form)
    cut = pick.randrange(len(body) - 8)
    assert look(form, body[:cut]).held, cut


@pytest.mark.long
@pytest.mark.parametrize("form", MADE)
def test_a_file_that_is_cut_off_anywhere_is_held(form: str) -> None:
    body = MADE[form]() if form != "netcdf" else netcdf(model="NETCDF3_CLASSIC")
    for cut in range(0, len(body) - 8, len(body) // 40):
        assert look(form, body[:cut]).held, cut


@pytest.mark.parametrize("form", MADE)
@pytest.mark.parametrize("seed", [pytest.param(n, marks=pytest.mark.long) for n in range(40)])
def test_spoilt_bytes_never_end_in_anything_but_an_answer(form: str, seed: int) -> None:
    """It is held for a reason, or its values can be read; whatever the library does over it."""
    pick = random.Random(f"{form} {seed}")
    body = bytearray(MADE[form]())
    for _ in range(pick.choice((1, 3, 20))):
        body[pick.randrange(len(body))] = pick.randrange(256)
    check_spoilt(look(form, bytes(body)))


def test_spoilt_bytes_of_each_end_in_an_answer() -> None:
    """In one process: the same as the long sweep, for what crashes in none of them."""
    for form in MADE:
        body = bytearray(MADE[form]())
        body[len(body) // 2] ^= 0x55
        body[60] ^= 0x55
        check_spoilt(look_here(form, bytes(body)))


def check_spoilt(found: Inspection) -> None:
    assert found.held is (found.cause is not None)
    assert "Traceback" not in str(found.cause)


def test_directories_are_read_as_far_as_they_can_be_believed() -> None:
    good = geotiff(np.zeros((1, 700, 700), "uint8"), driver="COG")
    assert len(images(io.BytesIO(good))) == 3
    pick = random.Random(13)
    for _ in range(500):
        body = bytearray(good[:2000])
        for _ in range(3):
            body[pick.randrange(len(body))] = pick.randrange(256)
        is_cloud_optimized(io.BytesIO(bytes(body)))
    for cut in range(0, 400, 7):
        with pytest.raises(NoTiff):
            images(io.BytesIO(good[:cut]))
