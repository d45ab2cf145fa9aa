"""The style sheet and the modules of the console. The address of each has the digest of its bytes, so a browser may
keep it for good. A module names those that it imports by these addresses, too."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib.resources import files

MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
NAMES = (
    "browser_key.js",
    "bytes.js",
    "canonical_form.js",
    "console.css",
    "icon.svg",
    "key_form.js",
    "live.js",
    "operations_form.js",
    "page_parts.js",
    "proof.js",
    "request_parts.js",
    "review_form.js",
    "server.js",
    "signature.js",
    "trigger_state.js",
)
_IMPORTED = re.compile(rb' from "\./(\w+\.js)"')


@cache
def body_of(name: str) -> bytes:
    """Return the bytes of one of NAMES."""
    stored = (files("kfm.api.console") / "web" / name).read_bytes()
    if not name.endswith(".js"):
        return stored
    return _IMPORTED.sub(lambda found: b' from "%s"' % address_of(found[1].decode()).encode(), stored)


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
