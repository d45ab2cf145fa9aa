"""Readers of sources: HTTP with validators, local files, and objects in S3 stores. The scheme of a URI chooses one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.errors import BadInput

if TYPE_CHECKING:
    from kfm.model.ports import Source

KNOWN_SCHEMES = ("http", "https", "file", "s3")


def open_source(uri: str, per_host: int = 6) -> Source:
    """Return the reader for a URI. A path without a scheme is a local file. Only that reader's module loads. `per_host`
    is the most requests to one host at a time."""
    scheme = scheme_of(uri)
    if scheme in ("http", "https"):
        from kfm.sources.http import HttpSource

        return HttpSource(per_host=per_host)
    if scheme in ("file", ""):
        from kfm.sources.local_files import FileSource

        return FileSource()
    if scheme == "s3":
        from kfm.sources.s3 import S3Source

        return S3Source()
    raise BadInput(
        f"KFM cannot read a source with the scheme '{scheme}'", hint=f"use one of {', '.join(KNOWN_SCHEMES)}"
    )


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI in lower case, or "" for a path. A colon after the first slash belongs to the path."""
    head, colon, _ = uri.partition(":")
    letters = head.replace("+", "").replace("-", "").replace(".", "")
    if colon and head[:1].isalpha() and letters.isascii() and letters.isalnum():
        return head.lower()
    return ""
