"""Reading the outside: http with validators, files, and objects of S3 stores. Chosen by the scheme of a URI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.errors import BadInput

if TYPE_CHECKING:
    from kfm.model.ports import Source

KNOWN_SCHEMES = ("http", "https", "file", "s3")


def open_source(uri: str) -> Source:
    """The reader for a URI; a path without a scheme is a file. Loads only what it needs."""
    scheme = scheme_of(uri)
    if scheme in ("http", "https"):
        from kfm.sources.http import HttpSource

        return HttpSource()
    if scheme in ("file", ""):
        from kfm.sources.local_files import FileSource

        return FileSource()
    if scheme == "s3":
        from kfm.sources.s3 import S3Source

        return S3Source()
    raise BadInput(
        f"no way is known to read a source of scheme '{scheme}'", hint=f"known are {', '.join(KNOWN_SCHEMES)}"
    )


def scheme_of(uri: str) -> str:
    """The scheme in lower case; empty for a path. A colon after the first slash belongs to the path."""
    head, colon, _ = uri.partition(":")
    letters = head.replace("+", "").replace("-", "").replace(".", "")
    if colon and head[:1].isalpha() and letters.isascii() and letters.isalnum():
        return head.lower()
    return ""
