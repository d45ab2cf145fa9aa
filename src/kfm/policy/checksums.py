"""Whether the bytes of a version are what its manifest says: what no rule can find out by itself."""

from __future__ import annotations

from kfm.errors import Corrupt
from kfm.model.manifests import entries
from kfm.model.ports import Objects
from kfm.model.records import DatasetVersion
from kfm.policy.questions import Checksums


def counted(version: DatasetVersion) -> Checksums:
    """As a question has it, of a version whose every object was looked at and found to be what it should be."""
    entries = version.entries
    return Checksums(algorithm="sha256", manifest=version.digest, objects=entries, intact=entries, damaged=0)


def wrong_bytes(objects: Objects, manifest: str, *, read: bool) -> list[str]:
    """Every object the manifest names must be there with its size and, if they are read, its bytes; the manifest
    itself is always read. Names the first that is not."""
    seen: set[str] = set()
    try:
        for entry in entries(objects, manifest):
            if entry.digest not in seen and (_read if read else _size)(objects, entry.digest) != entry.size:
                return [f"checksums: object {entry.digest} has another size than it should"]
            seen.add(entry.digest)
    except Corrupt as problem:
        return [f"checksums: {problem.message}"]
    return []


def _size(objects: Objects, digest: str) -> int:
    return objects.size(digest)


def _read(objects: Objects, digest: str) -> int:
    """The size of what is there; Corrupt at its end if the bytes are others."""
    size = 0
    with objects.open(digest) as file:
        while chunk := file.read(1 << 20):
            size += len(chunk)
    return size
