"""Reads GeoTIFF and GRIB2 with GDAL: each with the one driver of its name, and no file next to it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO

from kfm.parsing.tiff import NoTiff, images
from kfm.validation.grid_reader import (
    MOST_VALUES,
    MOST_VARIABLES,
    Grid,
    NoGrid,
    Variable,
    checked_block,
    libraries,
    turned,
)

_OPTIONS = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",  # no .aux.xml, .ovr, .msk or .tfw next to it
    "GDAL_PAM_ENABLED": "NO",
    "GDAL_CACHEMAX": 64,
    "GDAL_NUM_THREADS": "1",
    "GDAL_MAX_DATASET_POOL_SIZE": "2",
    "GDAL_HTTP_MAX_RETRY": "0",
    "CPL_LOG": "/dev/null",
}
JUNK = 64  # bytes between messages
_ROWS = 1 << 22  # values that are read together


def geotiff(body: BinaryIO) -> Grid:
    (rasterio,) = libraries("GeoTIFF", "rasterio")
    try:
        (first, *_) = images(body)
    except NoTiff:
        raise NoGrid from None
    if first.width * first.height > MOST_VALUES:
        raise NoGrid(f"it holds more than {MOST_VALUES:,} values", "grid.size")
    grid = _opened(rasterio, body, "GTiff", _bands)
    _check_overviews(rasterio, body)
    return grid


def _check_overviews(rasterio: Any, body: BinaryIO) -> None:
    """Raise NoGrid unless every value of every overview can be read. A map shows overviews long before it shows the
    values themselves."""
    from rasterio.errors import RasterioError

    path = f"/proc/self/fd/{body.fileno()}"
    try:
        with rasterio.open(path, driver="GTiff") as file:
            levels = max((len(file.overviews(band)) for band in range(1, file.count + 1)), default=0)
        for level in range(levels):
            with rasterio.open(path, driver="GTiff", overview_level=level) as smaller:
                for _ in _values(smaller, list(range(1, smaller.count + 1))):
                    pass
    except RasterioError as problem:
        raise NoGrid from problem


def grib2(body: BinaryIO) -> Grid:
    (rasterio,) = libraries("GRIB2", "rasterio")
    messages = _counted(body)
    grid = _opened(rasterio, body, "GRIB", _messages, USE_IDX="NO")
    if sum(variable.shape[0] for variable in grid.variables) < messages:  # one of them may hold several fields
        raise NoGrid
    return grid


def _counted(body: BinaryIO) -> int:
    """Return the number of GRIB2 messages in a file. Raise NoGrid if one is cut off, because GDAL would silently skip
    it. A few foreign bytes between messages are accepted, because some servers insert them."""
    size = body.seek(0, 2)
    at = count = 0
    while True:
        body.seek(at)
        head = body.read(16 + JUNK)
        begin = 0 if not count else head.find(b"GRIB")
        if count and begin < 0 and size - at <= JUNK:
            return count
        head = head[begin : begin + 16] if begin >= 0 else b""
        length = int.from_bytes(head[8:], "big")
        if len(head) < 16 or head[:4] != b"GRIB" or head[7] != 2 or not 16 < length <= size - at - begin:
            raise NoGrid
        at += begin + length
        body.seek(at - 4)
        if body.read(4) != b"7777" or count == MOST_VARIABLES:
            raise NoGrid
        count += 1


def _opened(rasterio: Any, body: BinaryIO, driver: str, variables: Any, **options: str) -> Grid:
    from rasterio.errors import CRSError, RasterioError

    env = rasterio.Env(**_OPTIONS)
    env.__enter__()  # open while the values are read; this process does nothing else
    try:
        file = rasterio.open(f"/proc/self/fd/{body.fileno()}", driver=driver, **options)
    except (RasterioError, CRSError) as problem:
        raise NoGrid from problem
    if file.count * file.width * file.height > MOST_VALUES:
        raise NoGrid(f"it holds more than {MOST_VALUES:,} values", "grid.size")
    for height, width in file.block_shapes:
        checked_block(height * width * 16)
    crs = _code(file.crs)
    bounds = None if file.transform.is_identity else tuple(file.bounds)
    return Grid(
        variables=variables(file),
        crs=crs,
        bounds=_upright(bounds),
        box=_degrees(file, bounds),
        times=_times(file, driver),
    )


def _code(crs: Any) -> str:
    """Return the code of a coordinate system. One that GDAL only guesses has no code."""
    if not crs:
        return ""
    found = crs.to_authority(confidence_threshold=100)
    return f"{found[0]}:{found[1]}" if found else ""


def _upright(bounds: Any) -> tuple[float, float, float, float] | None:
    if bounds is None:
        return None
    left, bottom, right, top = bounds
    return min(left, right), min(bottom, top), max(left, right), max(bottom, top)


def _degrees(file: Any, bounds: Any) -> tuple[float, float, float, float] | None:
    from rasterio.errors import RasterioError
    from rasterio.warp import transform_bounds

    box = _upright(bounds)
    if box is None or not file.crs:
        return None
    if file.crs.is_geographic:
        return turned(box)
    try:
        found = transform_bounds(file.crs, "OGC:CRS84", *box, densify_pts=21)
    except (RasterioError, ValueError, RuntimeError):
        return None
    return tuple(found) if all(each - each == 0 for each in found) else None


def _values(file: Any, bands: list[int]) -> Iterator[Any]:
    from rasterio.errors import RasterioError
    from rasterio.windows import Window

    height = max(1, _ROWS // max(1, file.width))
    tall = file.block_shapes[0][0]
    height = max(tall, height // tall * tall)
    for band in bands:
        for start in range(0, file.height, height):
            window = Window(0, start, file.width, min(height, file.height - start))
            try:
                yield file.read(band, window=window, masked=True)
            except RasterioError as problem:
                raise NoGrid from problem


def _bands(file: Any) -> list[Variable]:
    named = [text or "" for text in file.descriptions]
    plain = len(set(named)) < len(named) or "" in named
    return [
        Variable(
            name=str(band) if plain else named[band - 1],
            dtype=str(file.dtypes[band - 1]),
            units=file.units[band - 1] or "",
            dimensions=("y", "x"),
            shape=(file.height, file.width),
            nodata=file.nodatavals[band - 1],
            values=lambda band=band: _values(file, [band]),  # type: ignore[misc]
        )
        for band in range(1, file.count + 1)
    ]


def _messages(file: Any) -> list[Variable]:
    """Return the variables of a GRIB2 file; the messages of one element are one variable."""
    by: dict[tuple[str, str], list[int]] = {}
    for band in range(1, file.count + 1):
        tags = file.tags(band)
        unit = tags.get("GRIB_UNIT", "").strip("[]")
        by.setdefault((tags.get("GRIB_ELEMENT", str(band)), unit), []).append(band)
    return [
        Variable(
            name=name,
            dtype=str(file.dtypes[bands[0] - 1]),
            units=units,
            dimensions=("message", "y", "x"),
            shape=(len(bands), file.height, file.width),
            nodata=file.nodatavals[bands[0] - 1],
            values=lambda bands=bands: _values(file, bands),  # type: ignore[misc]
        )
        for (name, units), bands in by.items()
    ]


def _times(file: Any, driver: str) -> tuple[str, str] | None:
    """Return the time for which the values of a file are valid; for a TIFF none, because it only says when it was
    written."""
    if driver != "GRIB":
        return None
    found = []
    for band in range(1, file.count + 1):
        text = file.tags(band).get("GRIB_VALID_TIME", "").split()
        if not text:
            return None
        found.append(int(text[0]))
    return (_moment(min(found)), _moment(max(found))) if found else None


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
