"""The style sheet and the modules of the console. The address of each has the digest of its bytes, so a browser may
keep it for good."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files

MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
NAMES = ("console.css", "icon.svg", "live.js", "proof.js")


@cache
def body_of(name: str) -> bytes:
    """Return the bytes of one of NAMES."""
    return (files("kfm.api.console") / "web" / name).read_bytes()


@cache
def address_of(name: str) -> str:
    stem, _, ending = name.rpartition(".")
    return f"/static/{stem}.{sha256(body_of(name)).hexdigest()[:16]}.{ending}"


def file_of(address: str) -> tuple[bytes, str] | None:
    """Return the bytes and the media type of the file at an address; None if there is none, or if its bytes are other
    ones by now."""
    for name in NAMES:
        if address == address_of(name):
            return body_of(name), MEDIA_TYPES[name[name.rindex(".") :]]
    return None
