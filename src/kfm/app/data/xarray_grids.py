"""Opens a published grid as an xarray dataset. A run has already checked it against its contract."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from kfm.app.data.version_reader import library
from kfm.errors import Unavailable

EXTRA = "grids"
RASTERS = {"image/tiff": "GTiff", "application/wmo-grib2": "GRIB"}  # media type to GDAL driver
ZARR = "application/vnd.zarr+zip"


def of_netcdf(xr: Any, body: bytes) -> Any:
    engines = set(xr.backends.list_engines())
    if {"h5netcdf", "scipy"} & engines:
        return xr.open_dataset(io.BytesIO(body)).load()
    if "netcdf4" not in engines:
        raise Unavailable("xarray has nothing to read NetCDF with", hint='pip install "kansas-frontier-matrix[grids]"')
    file = library("netCDF4", EXTRA).Dataset("memory", "r", memory=body)
    try:
        return xr.open_dataset(xr.backends.NetCDF4DataStore(file)).load()
    finally:
        file.close()


def of_zarr(xr: Any, body: bytes) -> Any:
    library("zarr", EXTRA)
    storage = library("zarr.storage", EXTRA)
    buffer = library("zarr.core.buffer", EXTRA).cpu.Buffer
    with zipfile.ZipFile(io.BytesIO(body)) as packed:
        files = {name: buffer.from_bytes(packed.read(name)) for name in packed.namelist() if not name.endswith("/")}
    return xr.open_zarr(storage.MemoryStore(store_dict=files, read_only=True), consolidated=False).load()


def of_raster(xr: Any, body: bytes, driver: str) -> Any:
    """Return the bands or messages of a raster, named as in contracts. Missing values are NaN or masked, as stored."""
    rasterio = library("rasterio", EXTRA)
    memory = library("rasterio.io", EXTRA).MemoryFile
    options = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "GDAL_PAM_ENABLED": "NO"}
    with rasterio.Env(**options), memory(body) as held, held.open(driver=driver) as file:
        named = [_name(file, band, driver) for band in file.indexes]
        plain = len(set(named)) < len(named) or "" in named
        place = file.transform
        axes = {
            "x": [place.c + (column + 0.5) * place.a for column in range(file.width)],
            "y": [place.f + (row + 0.5) * place.e for row in range(file.height)],
        }
        if place.b or place.d:  # a rotated grid has no coordinates for single rows and columns
            axes = {}
        about = {"crs": file.crs.to_wkt()} if file.crs else {}
        made = {}
        for band, name in zip(file.indexes, named, strict=True):
            more = {"units": file.units[band - 1]} if file.units[band - 1] else {}
            values = file.read(band, masked=True)
            if values.dtype.kind == "f":
                values = values.filled(float("nan"))
            elif file.nodatavals[band - 1] is not None:
                more["_FillValue"] = file.nodatavals[band - 1]
                values = values.data
            made[str(band) if plain else name] = (("y", "x"), values, more)
        return xr.Dataset(made, coords=axes, attrs=about)


def _name(file: Any, band: int, driver: str) -> str:
    return file.tags(band).get("GRIB_ELEMENT", "") if driver == "GRIB" else file.descriptions[band - 1] or ""
