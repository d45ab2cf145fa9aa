"""Reading what a version consists of, over any object store. Who wants entries asks here, and knows no format."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kfm.contract.ports import Objects
from kfm.contract.records import ManifestEntry

PIECE = 1 << 20
_decode = msgspec.json.Decoder(ManifestEntry).decode


def entries(objects: Objects, version: str) -> Iterator[ManifestEntry]:
    """All of them, sorted by key; Corrupt at the latest when all are read, if the bytes are not those named."""
    with objects.open(version) as file:
        for line in file:
            yield _decode(line)


def find(objects: Objects, version: str, key: tuple[str, ...]) -> ManifestEntry | None:
    """The entry of a key, if the version has it."""
    for entry in entries(objects, version):
        if entry.key == key:
            return entry
    return None


def parts(objects: Objects, version: str) -> Iterator[str]:  # noqa: ARG001 - a manifest is one object today
    """The digests of the objects that the manifest itself is made of."""
    yield version


def listing(objects: Objects, version: str) -> Iterator[bytes]:
    """A line an entry, sorted by key, in pieces: what is published beside the files of a version."""
    with objects.open(version) as file:
        while piece := file.read(PIECE):
            yield piece
