"""The manifest of a version: how it is split into parts and how it is read, over any object store.

A manifest is a sorted sequence of entries, one canonical line each. Up to `WHOLE` entries form one object, and its
digest is the version. More entries are split into parts; the lines that name the parts are split in the same way, until
one part, the root, is left. A part ends at the first line, from its `LEAST`th line on, whose key hash is below a limit,
and at the latest at its `MOST`th line. The splits depend only on the sorted keys. So equal content gives an equal tree
whatever its history, and a new value under an existing key moves no split.

Older versions are one object of any length and stay readable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from hashlib import sha256
from operator import attrgetter
from typing import Literal, NamedTuple

import msgspec

from kfm.model.canonical import canonical
from kfm.model.ports import Objects
from kfm.model.records import ManifestEntry, ManifestPart

WHOLE = 128  # up to this many entries form one object, whatever their keys
LEAST = 16  # fewest lines of a part, except the last of its level
MOST = 128  # most lines of a part
ODDS = 16  # of 256 keys, this many end their part
NAMES_PARTS = b'{"depth":'  # the start of every line that names a part; no entry begins so
PIECE = 1 << 20

Key = tuple[str, ...]
key_of = attrgetter("key")
_encode = msgspec.json.encode
decode_entry = msgspec.json.Decoder(ManifestEntry).decode
decode_entries = msgspec.json.Decoder(ManifestEntry).decode_lines
decode_parts = msgspec.json.Decoder(ManifestPart).decode_lines


def closes(key: Key, level: int) -> bool:
    """Return whether a line with this key ends its part. Each level of the tree uses another byte of the key's
    digest."""
    return sha256(_encode(key)).digest()[level % 32] < ODDS


def entries(objects: Objects, version: str) -> Iterator[ManifestEntry]:
    """Yield all entries, sorted by key. Raise Corrupt, at the latest at the end, if the bytes do not match their
    digest."""
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
    """Yield the entries of a partition: its name is the first part of their keys. Only the parts that hold them are
    read."""
    named = named_parts(objects, version)
    lines = entries(objects, version) if named is None else _entries_near(objects, named, partition)
    return (entry for entry in lines if entry.key[0] == partition)


def _entries_near(objects: Objects, named: list[ManifestPart], first: str) -> Iterator[ManifestEntry]:
    """Yield the entries of all parts that may hold keys with this first text."""
    for part in named[bisect_left(named, (first,), key=key_of) :]:
        body = objects.read(part.digest)
        if part.depth:
            yield from _entries_near(objects, decode_parts(body), first)
        else:
            yield from decode_entries(body)
        if part.key[0] > first:
            return


def find(objects: Objects, version: str, key: Key) -> ManifestEntry | None:
    """Return the entry of a key, or None. Only the parts on the way to it are read."""
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
    """Return the parts that an object names; None if its lines are entries."""
    with objects.open(name) as file:
        first = file.readline()
        return decode_parts(first + file.read()) if first.startswith(NAMES_PARTS) else None


def extent(objects: Objects, version: str) -> tuple[int, int]:
    """Return how many entries a version has, and the bytes of all of them. Only the root is read."""
    named = named_parts(objects, version)
    if named is not None:
        return sum(part.entries for part in named), sum(part.size for part in named)
    count = total = 0
    for entry in entries(objects, version):
        count, total = count + 1, total + entry.size
    return count, total


def larger(objects: Objects, version: str, size: int) -> Iterator[ManifestEntry]:
    """Yield the entries of more than `size` bytes. Parts that are smaller in total are not read."""
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
    """Yield the digests of the objects that the manifest consists of, each before those it names."""
    yield version
    for part in named_parts(objects, version) or ():
        yield from _below(objects, part)


def further_parts(objects: Objects, before: str, after: str) -> Iterator[str]:
    """Yield the digests of the parts, below the root, that `after` has and `before` has not, each before those that
    name it; an empty name is an empty version. Parts that the two share are not read."""
    old, new = (_by_depth(named_parts(objects, each) or [] if each else []) for each in (before, after))
    levels: list[list[str]] = []
    for depth in range(max([*old, *new, 0]), -1, -1):
        there, here = old.get(depth, {}), new.get(depth, {})
        levels.append([name for name in here if name not in there])
        if depth:
            for found, names in ((old, there.keys() - here.keys()), (new, here.keys() - there.keys())):
                for name in names:
                    for below, parts_ in _by_depth(decode_parts(objects.read(name))).items():
                        found.setdefault(below, {}).update(parts_)
    for level in reversed(levels):
        yield from level


def _by_depth(named: list[ManifestPart]) -> dict[int, dict[str, ManifestPart]]:
    found: dict[int, dict[str, ManifestPart]] = {}
    for part in named:
        found.setdefault(part.depth, {})[part.digest] = part
    return found


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
    """Yield the listing in pieces: one line per entry, sorted by key. It is published next to the files of a
    version."""
    named = named_parts(objects, version)
    if named is not None:
        for part in named:
            for leaf in _leaves(objects, objects.read(part.digest)) if part.depth else (part,):
                yield objects.read(leaf.digest)
        return
    with objects.open(version) as file:
        while piece := file.read(PIECE):
            yield piece


def version_of(listing: bytes) -> str:
    """Return the version whose listing this is, computed without an object store. Raise msgspec.MsgspecError if a line
    is not an entry. An older version of more than `WHOLE` entries is the digest of its listing instead."""
    lines = [
        (entry.key, line + b"\n", 1, entry.size) for line in listing.splitlines() for entry in (decode_entry(line),)
    ]
    level, whole = 0, len(lines) <= WHOLE
    while not whole:
        made = list(_cut(lines, level))
        if len(made) == 1:
            break
        lines, level = made, level + 1
    return "sha256:" + sha256(b"".join(line[1] for line in lines)).hexdigest()


def _cut(lines: list[tuple[Key, bytes, int, int]], level: int) -> Iterator[tuple[Key, bytes, int, int]]:
    """Yield the lines that name the parts of one level."""
    start = 0
    for at, line in enumerate(lines, 1):
        count = at - start
        if at < len(lines) and not (count >= LEAST and (count >= MOST or closes(line[0], level))):
            continue
        held, start = lines[start:at], at
        body, entries, size = b"".join(each[1] for each in held), sum(e[2] for e in held), sum(e[3] for e in held)
        name = "sha256:" + sha256(body).hexdigest()
        part = ManifestPart(depth=level, digest=name, entries=entries, key=line[0], size=size)
        yield line[0], canonical(part) + b"\n", entries, size


class Change(NamedTuple):
    """A key that differs between two versions."""

    key: Key
    what: Literal["added", "changed", "removed"]
    old: ManifestEntry | None
    new: ManifestEntry | None


def changes(objects: Objects, before: str, after: str) -> Iterator[Change]:
    """Yield the differences between two versions, sorted by key; an empty name is an empty version. Only parts that the
    two do not share are read, so the cost depends on what changed."""
    if before == after:
        return
    old, new = _Side(objects, before), _Side(objects, after)
    while True:
        a, b = old.next, new.next
        if isinstance(a, ManifestPart) and isinstance(b, ManifestPart):
            if a.digest == b.digest:
                old.step()
                new.step()
            else:  # open the higher one, or else the one that ends first: the other may begin after it
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
    """A cursor over one tree that opens parts only when needed. All keys that follow are greater than `passed`."""

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
        """Skip the next line and everything below it in the tree."""
        assert self.next is not None
        self.passed = self.next.key
        self._go_on()

    def open(self) -> None:
        """Read the next part and put its lines in its place."""
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
