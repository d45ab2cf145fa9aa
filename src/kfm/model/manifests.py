"""What a version consists of: how its manifest is cut into parts, and how it is read, over any object store.

A manifest is a sorted sequence of entries, a canonical line each. Up to `WHOLE` of them are one object, whose
digest is the version. More are cut into parts; the lines that name the parts, in their order, are cut in the same
way, until one part is left, the root. A part closes with the first line, from its `LEAST`th on, whose key says so,
at the latest with its `MOST`th: the cuts are a function of the sorted keys alone. So equal content is an equal
tree whatever its history, and another value under the same key moves no cut.

Versions of before parts were known are one object of any length, and are read as such for ever.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from hashlib import sha256
from operator import attrgetter
from typing import Literal, NamedTuple

import msgspec

from kfm.model.ports import Objects
from kfm.model.records import ManifestEntry, ManifestPart

WHOLE = 128  # entries that are one object, whatever their keys say
LEAST = 16  # lines a part has at least, the last of its level excepted
MOST = 128  # and at most
ODDS = 16  # of 256: how often a key closes its part
NAMES_PARTS = b'{"depth":'  # how every line of a part begins that names parts; no entry does
PIECE = 1 << 20

Key = tuple[str, ...]
key_of = attrgetter("key")
_encode = msgspec.json.encode
decode_entry = msgspec.json.Decoder(ManifestEntry).decode
decode_entries = msgspec.json.Decoder(ManifestEntry).decode_lines
decode_parts = msgspec.json.Decoder(ManifestPart).decode_lines


def closes(key: Key, level: int) -> bool:
    """Whether a line of this key closes its part; each level of the tree asks another byte of the key's digest."""
    return sha256(_encode(key)).digest()[level % 32] < ODDS


def entries(objects: Objects, version: str) -> Iterator[ManifestEntry]:
    """All of them, sorted by key; Corrupt at the latest when all are read, if the bytes are not those named."""
    with objects.open(version) as file:
        first = file.readline()
        if not first.startswith(NAMES_PARTS):
            if first:
                yield decode_entry(first)
                yield from map(decode_entry, file)
            return
        body = first + file.read()
    for leaf in _leaves(objects, body):
        yield from decode_entries(objects.read(leaf.digest))


def entries_of(objects: Objects, version: str, partition: str) -> Iterator[ManifestEntry]:
    """The entries of a partition, whose keys begin with its name: they lie side by side, and no others are read."""
    named = named_parts(objects, version)
    lines = entries(objects, version) if named is None else _beside(objects, named, partition)
    return (entry for entry in lines if entry.key[0] == partition)


def _beside(objects: Objects, named: list[ManifestPart], first: str) -> Iterator[ManifestEntry]:
    """The entries of the parts that may hold keys beginning so."""
    for part in named[bisect_left(named, (first,), key=key_of) :]:
        body = objects.read(part.digest)
        if part.depth:
            yield from _beside(objects, decode_parts(body), first)
        else:
            yield from decode_entries(body)
        if part.key[0] > first:
            return


def find(objects: Objects, version: str, key: Key) -> ManifestEntry | None:
    """The entry of a key, if the version has it: reads the path to it, and nothing else."""
    named = named_parts(objects, version)
    if named is None:
        return next((entry for entry in entries(objects, version) if entry.key == key), None)
    while True:
        at = bisect_left(named, key, key=key_of)
        if at == len(named):
            return None
        body = objects.read(named[at].digest)
        if not named[at].depth:
            return next((entry for entry in decode_entries(body) if entry.key == key), None)
        named = decode_parts(body)


def named_parts(objects: Objects, name: str) -> list[ManifestPart] | None:
    """What a part names, if it names parts; None if its lines are entries."""
    with objects.open(name) as file:
        first = file.readline()
        return decode_parts(first + file.read()) if first.startswith(NAMES_PARTS) else None


def larger(objects: Objects, version: str, size: int) -> Iterator[ManifestEntry]:
    """The entries whose bytes are more than this. Parts that can have none, being less in all, are not read."""
    named = named_parts(objects, version)
    if named is None:
        yield from (entry for entry in entries(objects, version) if entry.size > size)
        return
    for part in named:
        if part.size > size and part.depth:
            yield from larger(objects, part.digest, size)
        elif part.size > size:
            yield from (entry for entry in decode_entries(objects.read(part.digest)) if entry.size > size)


def parts(objects: Objects, version: str) -> Iterator[str]:
    """The digests of the objects that the manifest itself is made of, each before those it names."""
    yield version
    for part in named_parts(objects, version) or ():
        yield from _below(objects, part)


def _below(objects: Objects, part: ManifestPart) -> Iterator[str]:
    yield part.digest
    if part.depth:
        for named in decode_parts(objects.read(part.digest)):
            yield from _below(objects, named)


def _leaves(objects: Objects, body: bytes) -> Iterator[ManifestPart]:
    for part in decode_parts(body):
        if part.depth:
            yield from _leaves(objects, objects.read(part.digest))
        else:
            yield part


def listing(objects: Objects, version: str) -> Iterator[bytes]:
    """A line an entry, sorted by key, in pieces: what is published beside the files of a version."""
    named = named_parts(objects, version)
    if named is not None:
        for part in named:
            for leaf in _leaves(objects, objects.read(part.digest)) if part.depth else (part,):
                yield objects.read(leaf.digest)
        return
    with objects.open(version) as file:
        while piece := file.read(PIECE):
            yield piece


class Change(NamedTuple):
    """What became of a key between two versions."""

    key: Key
    what: Literal["added", "changed", "removed"]
    old: ManifestEntry | None
    new: ManifestEntry | None


def changes(objects: Objects, before: str, after: str) -> Iterator[Change]:
    """How the second version differs from the first, sorted by key; an empty name is a version of nothing. Reads only
    parts that the two do not share, so it costs what changed and not what there is."""
    if before == after:
        return
    old, new = _Side(objects, before), _Side(objects, after)
    while True:
        a, b = old.next, new.next
        if isinstance(a, ManifestPart) and isinstance(b, ManifestPart):
            if a.digest == b.digest:
                old.step()
                new.step()
            else:  # the higher one, else the one that ends first: the other may begin after it
                (old if (-a.depth, a.key) <= (-b.depth, b.key) else new).open()
        elif isinstance(a, ManifestPart):
            if not isinstance(b, ManifestEntry) or b.key > old.passed:
                old.open()
            else:
                yield Change(b.key, "added", None, b)
                new.step()
        elif isinstance(b, ManifestPart):
            if a is None or a.key > new.passed:
                new.open()
            else:
                yield Change(a.key, "removed", a, None)
                old.step()
        elif a is None and b is None:
            return
        elif b is None or (a is not None and a.key < b.key):
            assert a is not None
            yield Change(a.key, "removed", a, None)
            old.step()
        elif a is None or b.key < a.key:
            yield Change(b.key, "added", None, b)
            new.step()
        else:
            if a != b:
                yield Change(a.key, "changed", a, b)
            old.step()
            new.step()


class _Side:
    """A tree from its first line to its last, opened only where someone asks. All that is still to come has keys
    after `passed`."""

    def __init__(self, objects: Objects, version: str) -> None:
        self._objects = objects
        self.passed: Key = ()
        self.next: ManifestPart | ManifestEntry | None = None
        named = named_parts(objects, version) if version else []
        self._open: list[Iterator[ManifestPart | ManifestEntry]] = [
            entries(objects, version) if named is None else iter(named)
        ]
        self._go_on()

    def step(self) -> None:
        """Past the next one, and all that is below it."""
        assert self.next is not None
        self.passed = self.next.key
        self._go_on()

    def open(self) -> None:
        """The part that is next gives way to its lines."""
        assert isinstance(self.next, ManifestPart)
        body = self._objects.read(self.next.digest)
        self._open.append(iter(decode_parts(body) if self.next.depth else decode_entries(body)))
        self._go_on()

    def _go_on(self) -> None:
        self.next = None
        while self._open and self.next is None:
            self.next = next(self._open[-1], None)
            if self.next is None:
                self._open.pop()
