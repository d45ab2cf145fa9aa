"""Check that the bytes of a version are those its manifest names. Rules cannot find this out."""

from __future__ import annotations

from kfm.errors import Corrupt
from kfm.model.manifests import entries
from kfm.model.ports import Objects
from kfm.model.records import DatasetVersion
from kfm.policy.questions import Checksums


def intact_checksums(version: DatasetVersion) -> Checksums:
    """Return the checksum facts of a version whose objects were all checked and found intact."""
    entries = version.entries
    return Checksums(algorithm="sha256", manifest=version.digest, objects=entries, intact=entries, damaged=0)


def wrong_bytes(objects: Objects, manifest: str, *, read: bool) -> list[str]:
    """Return why the first damaged object is damaged; [] if all are intact. Every object of the manifest must exist
    with its size and, with `read`, its bytes. The manifest itself is always read.
    """
    seen: set[str] = set()
    try:
        for entry in entries(objects, manifest):
            if entry.digest not in seen and (_read if read else _size)(objects, entry.digest) != entry.size:
                return [f"checksums: object {entry.digest} has the wrong size"]
            seen.add(entry.digest)
    except Corrupt as problem:
        return [f"checksums: {problem.message}"]
    return []


def _size(objects: Objects, digest: str) -> int:
    return objects.size(digest)


def _read(objects: Objects, digest: str) -> int:
    """Read an object to its end and return its size. Raise Corrupt if its bytes are wrong."""
    size = 0
    with objects.open(digest) as file:
        while chunk := file.read(1 << 20):
            size += len(chunk)
    return size
