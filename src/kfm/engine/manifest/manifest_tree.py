"""Writes the changed parts of a manifest tree, and only those.

Each level is a sorted sequence of lines, cut into parts by the rule in model/manifests.py. The parts that are removed
and added in one level are the changes of the lines in the level above. A cut depends only on the lines since the
previous cut. So work begins at the start of a part in which something changes, and ends as soon as a part ends where
one ended before; the unchanged parts between are neither read nor written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain
from typing import NamedTuple

import msgspec

from kfm.engine.stage_results import Rows
from kfm.engine.world import World
from kfm.model.keys import digest
from kfm.model.manifests import (
    LEAST,
    MOST,
    NAMES_PARTS,
    WHOLE,
    Key,
    closes,
    decode_entries,
    decode_entry,
    decode_parts,
    key_of,
)
from kfm.model.ports import INLINE_MAX
from kfm.model.records import Lease, ManifestPart

FLUSH = 4 << 20  # the most bytes of parts that wait in memory for the commit
KEPT = 32  # the most old parts that are cached
_encode = msgspec.json.encode


# A line of any level: its key, its text, and the number and size of the entries in it or below. No text: a removal.
# A plain tuple, because there is one for each key, and the garbage collector skips tuples of texts and numbers.
Line = tuple[Key, str, int, int]


def goes(key: Key) -> Line:
    """Return a line that removes the entry with this key."""
    return key, "", 0, 0


class Root(NamedTuple):
    """The digest, the number of entries and the size of a whole manifest."""

    digest: str
    entries: int
    size: int


class Tally:
    """Counts what happened to the entries of the previous version."""

    def __init__(self) -> None:
        self.old = 0
        self.deleted = 0
        self.superseded = 0
        self.capitals = False  # a new key has a capital letter
        self.of_partition = 0  # old entries of the partition, in a run that may delete only those


class Shelf:
    """Stores parts: small new ones wait for the commit, large ones become files at once."""

    def __init__(self, world: World, lease: Lease | None) -> None:
        self._world = world
        self._encryption = world.encryption
        self._lease = lease
        self._rows: dict[str, bytes] = {}
        self._waiting = 0
        self._read: dict[str, bytes] = {}  # a cache of old parts: each level starts at the root again

    def name_of(self, body: bytes) -> str:
        """Return the digest of a part as it is stored."""
        return digest(body if self._encryption is None else self._encryption.encrypted(body))

    def put(self, name: str, body: bytes) -> None:
        if len(body) > INLINE_MAX:
            self._world.objects.put(body)
            return
        body = body if self._encryption is None else self._encryption.encrypted(body)
        self._rows[name] = body
        self._waiting += len(body)
        if self._waiting > FLUSH:
            self._flush()

    def read(self, name: str) -> bytes:
        body = self._rows.get(name) or self._read.get(name)
        if body is not None and self._encryption is not None:
            return self._encryption.decrypted(body)
        if body is None:
            body = self._world.objects.read(name)
            if len(self._read) >= KEPT:
                self._read.clear()
            self._read[name] = body
        return body

    def _flush(self) -> None:
        with self._world.state.transaction(self._lease, durable=False) as tx:
            tx.objects(self._rows.items())
        self._rows, self._waiting = {}, 0

    def drop(self, name: str) -> None:
        self._rows.pop(name, None)

    def forget(self) -> None:
        """Drop all parts that wait for the commit."""
        self._rows, self._waiting = {}, 0

    def waiting(self) -> Rows:
        """Return the parts that the commit writes as rows."""
        return list(self._rows.items())


class Cutter:
    """Cuts the lines of one level into parts."""

    def __init__(self, shelf: Shelf, level: int) -> None:
        self._shelf = shelf
        self.level = level
        self.held: list[Line] = []
        self.known: set[str] = set()  # digests of parts that already exist
        self.made: list[tuple[str, Line]] = []  # the digest of each part, and the line that names it

    def add(self, line: Line) -> None:
        held = self.held
        held.append(line)
        count = len(held)
        if count >= LEAST and (count >= MOST or closes(line[0], self.level)):
            self.close()

    def close(self) -> None:
        """End the current part, even if no line ends it by its key."""
        held, self.held = self.held, []
        keys, texts, entries, sizes = zip(*held, strict=True)
        body = "".join(texts).encode()
        name = self._shelf.name_of(body)
        if name not in self.known:
            self._shelf.put(name, body)
        key, count, size = keys[-1], sum(entries), sum(sizes)
        # A canonical line, built by hand: its members are in order, and the encoder writes its texts canonically.
        text = (
            f'{{"depth":{self.level},"digest":"{name}","entries":{count},'
            f'"key":{_encode(key).decode()},"size":{size}}}\n'
        )
        self.made.append((name, (key, text, count, size)))


class Cursor:
    """Moves forward over the parts of one level of a tree. It does not read the parts that it skips."""

    def __init__(self, shelf: Shelf, root: ManifestPart, level: int) -> None:
        self._shelf = shelf
        self._level = level
        self._last = root.key
        self._path: list[tuple[list[ManifestPart], int]] = [([root], 0)]

    def seek(self, key: Key) -> ManifestPart:
        """Return the part that a key belongs to: the first that does not end before it, or else the last part."""
        path, key = self._path, min(key, self._last)
        while path[-1][0][-1].key < key:
            path.pop()
        parts, at = path.pop()
        path.append((parts, bisect_left(parts, key, at, key=key_of)))
        return self._down(key)

    def following(self) -> ManifestPart:
        """Return the part after the current one. The caller makes sure that the current part is not the last."""
        path = self._path
        while path[-1][1] + 1 == len(path[-1][0]):
            path.pop()
        parts, at = path.pop()
        path.append((parts, at + 1))
        return self._down(())

    def _down(self, key: Key) -> ManifestPart:
        path = self._path
        while (part := path[-1][0][path[-1][1]]).depth > self._level:
            parts = decode_parts(self._shelf.read(part.digest))
            path.append((parts, bisect_left(parts, key, key=key_of)))
        return part

    def ends_with(self, part: ManifestPart) -> bool:
        return part.key == self._last


def write(
    world: World, lease: Lease | None, before: str, new: Iterator[Line], sealed: bool, tally: Tally
) -> tuple[Root, Rows]:
    """Return the manifest of `before` with the new lines merged in, and the rows that the commit writes. `sealed`: old
    keys that are not new are removed. All other parts are stored."""
    shelf = Shelf(world, lease)
    root = _written(world, shelf, before, new, sealed, tally)
    return root, shelf.waiting()


def _written(world: World, shelf: Shelf, before: str, new: Iterator[Line], sealed: bool, tally: Tally) -> Root:
    cutter = Cutter(shelf, 0)
    with world.objects.open(before) if before else BytesIO() as file:
        first = file.readline()
        if not first.startswith(NAMES_PARTS):  # one object, or none: all of it is cut again
            _merge(cutter, _flat(first, file, tally), Changes(new), sealed, tally)
            return _root(shelf, cutter)
        old = _named(before, decode_parts(first + file.read()))
    tally.old = old.entries
    changes = Changes(new)
    for level in range(old.depth + 1):
        cutter = Cutter(shelf, level)
        above = _recut(cutter, Cursor(shelf, old, level), shelf, changes, sealed and not level, tally)
        if not above:
            return Root(before, old.entries, old.size)
        changes, tally = Changes(iter(above)), Tally()
    return _root(shelf, cutter)


def _named(name: str, named: list[ManifestPart]) -> ManifestPart:
    """Return a manifest line that names the root, so that the root is handled like a part of a level above it."""
    return ManifestPart(
        depth=named[0].depth + 1,
        digest=name,
        entries=sum(part.entries for part in named),
        key=named[-1].key,
        size=sum(part.size for part in named),
    )


class Changes:
    """Added and removed lines, sorted by key; `next` is the next one to apply."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self.lines = lines
        self.next = next(lines, None)


def _recut(cutter: Cutter, cursor: Cursor, shelf: Shelf, changes: Changes, sealed: bool, tally: Tally) -> list[Line]:
    """Apply the changes in one level; return the changes of the level above."""
    gone: dict[Key, str] = {}
    part = cursor.seek(()) if sealed else cursor.seek(changes.next[0]) if changes.next is not None else None
    while part is not None:
        gone[part.key] = part.digest
        cutter.known.add(part.digest)
        last = cursor.ends_with(part)
        _merge(cutter, _lines(shelf.read(part.digest), part.depth), changes, sealed, tally, whole=last)
        if last:
            part = None
        elif cutter.held or sealed:
            part = cursor.following()
        else:
            part = cursor.seek(changes.next[0]) if changes.next is not None else None
    above = [line for name, line in cutter.made if gone.pop(line[0], "") != name]
    above += map(goes, gone)
    above.sort()
    return above


def _merge(
    cutter: Cutter, old: Iterable[Line], changes: Changes, sealed: bool, tally: Tally, *, whole: bool = True
) -> None:
    """Merge the changes into the old lines, and cut them. `whole`: no old lines follow, so all remaining changes belong
    here and the last part ends."""
    add, lines, change = cutter.add, changes.lines, changes.next
    for line in old:
        key, text, _, _ = line
        while change is not None and change[0] < key:
            if change[1]:
                add(change)
            change = next(lines, None)
        if change is not None and change[0] == key:
            if change[1]:
                tally.superseded += change[1] != text
                add(change)
            change = next(lines, None)
        elif sealed:
            tally.deleted += 1
        else:
            add(line)
    if whole:
        if change is not None:
            add(change)
            for change in lines:
                add(change)
            change = None
        if cutter.held:
            cutter.close()
    changes.next = change


def _lines(body: bytes, depth: int) -> Iterator[Line]:
    texts = body.decode().split("\n")
    if depth:
        for part, text in zip(decode_parts(body), texts, strict=False):
            yield part.key, text + "\n", part.entries, part.size
    else:
        for entry, text in zip(decode_entries(body), texts, strict=False):
            yield entry.key, text + "\n", 1, entry.size


def _flat(first: bytes, rest: Iterable[bytes], tally: Tally) -> Iterator[Line]:
    """Yield the entries of a manifest that is a single object."""
    for line in chain((first,), rest) if first else ():
        entry = decode_entry(line)
        tally.old += 1
        yield entry.key, line.decode(), 1, entry.size


def _root(shelf: Shelf, cutter: Cutter) -> Root:
    """Return the manifest whose tree has this level at the bottom, after the levels above it were cut."""
    while len(cutter.made) > 1:
        below, cutter = cutter, Cutter(shelf, cutter.level + 1)
        _merge(cutter, (), Changes(line for _, line in below.made), False, Tally())
    if not cutter.made:
        shelf.put(name := shelf.name_of(b""), b"")
        return Root(name, 0, 0)
    name, (_, _, entries, size) = cutter.made[0]
    depth = cutter.level
    while depth:  # a part that names only one part is left out: the root is the lowest that contains all
        named = decode_parts(shelf.read(name))
        if len(named) > 1:
            break
        shelf.drop(name)
        name, depth = named[0].digest, named[0].depth
    if depth and entries <= WHOLE:
        body = b"".join(_bodies(shelf, name, depth))
        shelf.forget()
        shelf.put(name := shelf.name_of(body), body)
    return Root(name, entries, size)


def _bodies(shelf: Shelf, name: str, depth: int) -> Iterator[bytes]:
    body = shelf.read(name)
    if not depth:
        yield body
        return
    for part in decode_parts(body):
        yield from _bodies(shelf, part.digest, part.depth)
