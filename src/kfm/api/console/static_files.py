"""The style sheets and the modules of the console, and the library that draws maps. The address of each has the digest
of its bytes, so a browser may keep it for good. A module names those that it imports by these addresses, too. All are
kept compressed, too."""

from __future__ import annotations

import gzip
import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
OWN = (
    "browser_key.js",
    "bytes.js",
    "canonical_form.js",
    "console.css",
    "icon.svg",
    "key_form.js",
    "live.js",
    "map.css",
    "map.js",
    "operations_form.js",
    "page_parts.js",
    "proof.js",
    "request_parts.js",
    "review_form.js",
    "server.js",
    "signature.js",
    "trigger_state.js",
)
LIBRARY = ("maplibre-gl.css", "maplibre-gl-worker.js", "maplibre-gl.js", "pmtiles.js")  # SOURCES.md says from where
NAMES = (*OWN, *LIBRARY)
_IMPORTED = re.compile(rb' from "\./(\w+\.js)"')


@cache
def body_of(name: str) -> bytes:
    """Return the bytes of one of NAMES."""
    if name in LIBRARY:
        return gzip.decompress(packed(name))
    stored = (_folder() / name).read_bytes()
    if not name.endswith(".js"):
        return stored
    return _IMPORTED.sub(lambda found: b' from "%s"' % address_of(found[1].decode()).encode(), stored)


@cache
def packed(name: str) -> bytes:
    """Return the bytes of one of NAMES, compressed with gzip."""
    if name in LIBRARY:
        return (_folder() / "library" / f"{name}.gz").read_bytes()
    return gzip.compress(body_of(name), 9, mtime=0)


@cache
def address_of(name: str) -> str:
    stem, _, ending = name.rpartition(".")
    return f"/static/{stem}.{sha256(body_of(name)).hexdigest()[:16]}.{ending}"


def name_at(address: str) -> str:
    """Return which of NAMES is at an address; empty if there is none, or if its bytes are other ones by now."""
    return next((name for name in NAMES if address == address_of(name)), "")


def media_type_of(name: str) -> str:
    return MEDIA_TYPES[name[name.rindex(".") :]]


def takes_gzip(header: str) -> bool:
    """Return whether an Accept-Encoding header permits gzip, as RFC 9110 says. An absent one is empty, and does not."""
    weights: dict[str, str] = {}
    for each in header.lower().split(","):
        coding, _, parameter = each.partition(";")
        name, _, weight = parameter.partition("=")
        weights[coding.strip()] = weight.strip() if name.strip() == "q" else "1"
    weight = weights.get("gzip", weights.get("*", "0"))
    return weight.strip("0.") != ""


def _folder() -> Traversable:
    return files("kfm.api.console") / "web"
