"""Grids of each format, small and made here, and a site that publishes one."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.engine.installations import Installation

KANSAS = (-102.0, 37.0, -94.5, 40.0)
SUFFIX = {"geotiff": "tif", "grib2": "grib2", "netcdf": "nc", "zarr": "zarr.zip"}

CONFIG = """\
kfm: 1
accept_weak_storage: true
catalog: file:catalog
datasets:
  rain:
    version: "1.0.0"
    title: Rain of a day
    description: How much rain fell on a day.
    license: CC0-1.0
    sensitivity: public
    sources:
      day:
        uri: day.grid
        format: {form}
{expect}    outputs:
      day: {{from: day}}
"""


def site_of(place: Path, form: str, body: bytes, expect: str = "") -> Installation:
    said = f"        expect: {expect}\n" if expect else ""
    (place / "kfm.yml").write_text(CONFIG.format(form=form, expect=said))
    (place / "day.grid").write_bytes(body)
    return Installation(place)


def rain(height: int = 30, width: int = 75, seed: int = 7) -> Any:
    values = np.random.default_rng(seed).gamma(1, 5, (height, width)).astype("float32")
    values[0, 0] = -9999
    return values


def geotiff(values: Any = None, crs: str = "EPSG:4326", driver: str = "GTiff", **options: Any) -> bytes:
    from rasterio.io import MemoryFile
    from rasterio.transform import from_bounds

    values = rain() if values is None else values
    bands = values if values.ndim == 3 else values[None]
    units, names = options.pop("units", "mm"), options.pop("names", None)
    bounds = options.pop("bounds", KANSAS)
    transform = from_bounds(*bounds, bands.shape[2], bands.shape[1])
    about = {"crs": crs, "transform": transform, "dtype": str(bands.dtype), "nodata": -9999.0, **options}
    if bands.dtype.kind == "u":
        about["nodata"] = options.get("nodata", 255)
    with MemoryFile() as memory:
        with memory.open(
            driver="GTiff", count=len(bands), height=bands.shape[1], width=bands.shape[2], **about
        ) as file:
            file.write(bands)
            if units:
                file.units = [units] * len(bands)
            if names:
                file.descriptions = names
        body = bytes(memory.read())
    if driver != "COG":
        return body
    from rasterio.shutil import copy

    with MemoryFile(body) as first, MemoryFile() as second:
        copy(first.name, second.name, driver="COG", BLOCKSIZE=128, OVERVIEWS="AUTO", OVERVIEW_COUNT=2)
        return bytes(second.read())


def netcdf(values: Any = None, model: str = "NETCDF4", days: tuple[int, ...] = (0, 1), **options: Any) -> bytes:
    import netCDF4

    values = np.stack([rain(), rain(seed=8)]) if values is None else values
    file = netCDF4.Dataset("memory", "w", format=model, memory=1)
    for name, size in zip(("time", "lat", "lon"), values.shape, strict=True):
        file.createDimension(name, size)
    west, south, east, north = KANSAS
    for name, units, numbers in (
        ("time", "days since 2026-06-01 00:00:00", days),
        ("lat", "degrees_north", np.linspace(south, north, values.shape[1])),
        ("lon", "degrees_east", np.linspace(west, east, values.shape[2])),
    ):
        axis = file.createVariable(name, "f8", (name,))
        axis.units = units
        axis[:] = numbers
    fill = {"zlib": True} if model == "NETCDF4" else {}
    data = file.createVariable("rain", "f4", ("time", "lat", "lon"), fill_value=-9999.0, **fill, **options)
    data.units = "mm"
    data[:] = values
    return bytes(file.close())


def zarr(values: Any = None, version: int = 3, **options: Any) -> bytes:
    from zarr import create_group
    from zarr.storage import MemoryStore

    values = np.stack([rain(), rain(seed=8)]) if values is None else values
    store = MemoryStore()
    root = create_group(store=store, zarr_format=version)
    west, south, east, north = KANSAS
    names = ("time", "lat", "lon")
    for name, units, numbers in (
        ("time", "days since 2026-06-01", np.arange(values.shape[0], dtype="f8")),
        ("lat", "degrees_north", np.linspace(south, north, values.shape[1])),
        ("lon", "degrees_east", np.linspace(west, east, values.shape[2])),
        ("rain", "mm", values),
    ):
        dims = names if name == "rain" else (name,)
        about: dict[str, Any] = {"dimension_names": dims} if version == 3 else {}
        more = options if name == "rain" else {}
        array = root.create_array(name, shape=numbers.shape, dtype=numbers.dtype, **about, **more)
        array.attrs["units"] = units
        if version == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = list(dims)
        array[...] = numbers
    return packed({key: bytes(value.to_bytes()) for key, value in store._store_dict.items()})


def packed(files: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        for name, body in files.items():
            made.writestr(zipfile.ZipInfo(name), body, method)
    return out.getvalue()


def unpacked(body: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(body)) as made:
        return {name: made.read(name) for name in made.namelist()}


def grib2(values: Any = None) -> bytes:
    """By GDAL, which writes GRIB2 by a copy."""
    from rasterio.io import MemoryFile
    from rasterio.shutil import copy

    with (
        MemoryFile(geotiff(np.maximum(rain(), 0) if values is None else values)) as first,
        MemoryFile(ext=".grib2") as second,
    ):
        copy(first.name, second.name, driver="GRIB", DISCIPLINE="0", IDS_REF_TIME="2026-06-01T00:00:00Z",
             PDS_PDTN="0", PDS_TEMPLATE_NUMBERS="1 8 2 0 96 0 0 0 1 0 0 0 6 1 0 0 0 0 0 255 0 0 0 0 0")  # fmt: skip
        return bytes(second.read())


MADE = {"geotiff": geotiff, "grib2": grib2, "netcdf": netcdf, "zarr": zarr}
