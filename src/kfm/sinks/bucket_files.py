"""What KFM stores with each file in a bucket: its digest and its media type."""

from __future__ import annotations

import hashlib

from kfm.bucket import Bucket, ObjectStream
from kfm.errors import Unavailable

SUM = "kfm-sha256"  # the metadata of an object that holds the digest of its bytes
AT_A_TIME = 8  # requests
KINDS = {
    "json": "application/json",
    "jsonld": "application/ld+json",
    "geojson": "application/geo+json",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "cff": "text/plain; charset=utf-8",
    "SHA256SUMS": "text/plain; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "tif": "image/tiff",
    "parquet": "application/vnd.apache.parquet",
    "pmtiles": "application/vnd.pmtiles",
    "gpkg": "application/geopackage+sqlite3",
    "fgb": "application/vnd.flatgeobuf",
    "nc": "application/netcdf",
    "grib2": "application/wmo-GRIB2",
    "zip": "application/zip",
    "xml": "application/xml",
    "ttl": "text/turtle; charset=utf-8",
    "pdf": "application/pdf",
    "gz": "application/gzip",
}


def media_type(path: str) -> str:
    """Return the media type by which a browser shows a file."""
    return KINDS.get(path.rpartition("/")[2].rpartition(".")[2], "application/octet-stream")


def digest_of_bytes(bucket: Bucket, path: str) -> str:
    """Return the digest of an object's bytes, or an empty text if there is no object."""
    total, gone = hashlib.sha256(), Unavailable(f"{path} was removed while it was read")
    try:
        with ObjectStream(bucket, path, gone) as file:
            for part in file.parts():
                total.update(part)
    except Unavailable as problem:
        if problem is gone:
            return ""
        raise
    return "sha256:" + total.hexdigest()
