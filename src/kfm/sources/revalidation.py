"""When a validator (ETag, Last-Modified, or the time stamps of a file) may save a download or a read.

A validator only saves work. The content hash decides whether anything changed, and after `revalidate_ms` every reader
takes all the bytes again, even if the validators are unchanged.
"""

from __future__ import annotations

from kfm.model.ports import Objects
from kfm.model.records import Checkpoint, FetchRequest


def may_revalidate(request: FetchRequest, known: Checkpoint, objects: Objects) -> bool:
    """Return whether an unchanged validator may stand for the stored bytes of `known`.

    The checkpoint must be of the same address, its bytes must be stored and be the expected ones, and they must have
    been read less than `revalidate_ms` ago. A clock that went back counts as too long ago.
    """
    age = request.now_ms - known.fetched_ms
    return (
        known.uri == request.uri
        and 0 <= age < request.revalidate_ms
        and request.expect_hash in ("", known.content_hash)
        and objects.has(known.content_hash)
    )
