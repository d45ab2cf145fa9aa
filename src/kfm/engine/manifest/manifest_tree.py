"""Writes the tree of a manifest anew where it changed, and nowhere else.

Each level is a sorted sequence of lines, cut into parts by the rule in model/manifests.py; what changes in
one level, parts that went and parts that came, are the changes of the lines above it. A cut depends only on what
came after the cut before it. So work begins at the start of a part in which something changes, and ends as soon
as a part closes where one closed before; what lies between is neither read nor written.
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

FLUSH = 4 << 20  # bytes of parts that wait in memory for the commit
KEPT = 32  # old parts kept while others are read
_encode = msgspec.json.encode


# Of any level: its key, its text, and how many entries of what size lie in it or below. Without a text: it goes.
# A plain tuple: a manifest has as many as keys, and the collector of garbage passes over tuples of texts and numbers.
Line = tuple[Key, str, int, int]


def goes(key: Key) -> Line:
    """In place of a line: the one of this key goes."""
    return key, "", 0, 0


class Root(NamedTuple):
    """A whole manifest."""

    digest: str
    entries: int
    size: int


class Tally:
    """What became of the entries of the version before."""

    def __init__(self) -> None:
        self.old = 0
        self.deleted = 0
        self.superseded = 0
        self.of_partition = 0  # among the old ones, where only these may be deleted


class Shelf:
    """Where parts lie: small new ones wait for the commit, large ones are files at once."""

    def __init__(self, world: World, lease: Lease | None) -> None:
        self._world = world
        self._seal = world.seal
        self._lease = lease
        self._rows: dict[str, bytes] = {}
        self._waiting = 0
        self._read: dict[str, bytes] = {}  # a few of the old parts: each level begins at the root again

    def name_of(self, body: bytes) -> str:
        """The digest of a part as it is stored."""
        return digest(body if self._seal is None else self._seal.sealed(body))

    def put(self, name: str, body: bytes) -> None:
        if len(body) > INLINE_MAX:
            self._world.objects.put(body)
            return
        body = body if self._seal is None else self._seal.sealed(body)
        self._rows[name] = body
        self._waiting += len(body)
        if self._waiting > FLUSH:
            self._flush()

    def read(self, name: str) -> bytes:
        body = self._rows.get(name) or self._read.get(name)
        if body is not None and self._seal is not None:
            return self._seal.opened(body)
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
        """What waits is not wanted after all."""
        self._rows, self._waiting = {}, 0

    def waiting(self) -> Rows:
        """What becomes rows of the commit itself."""
        return list(self._rows.items())


class Cutter:
    """Cuts the lines of one level into parts."""

    def __init__(self, shelf: Shelf, level: int) -> None:
        self._shelf = shelf
        self.level = level
        self.held: list[Line] = []
        self.known: set[str] = set()  # digests of parts that are there already
        self.made: list[tuple[str, Line]] = []  # digest, and the line that names it

    def add(self, line: Line) -> None:
        held = self.held
        held.append(line)
        count = len(held)
        if count >= LEAST and (count >= MOST or closes(line[0], self.level)):
            self.close()

    def close(self) -> None:
        """What is held is a part."""
        held, self.held = self.held, []
        keys, texts, entries, sizes = zip(*held, strict=True)
        body = "".join(texts).encode()
        name = self._shelf.name_of(body)
        if name not in self.known:
            self._shelf.put(name, body)
        key, count, size = keys[-1], sum(entries), sum(sizes)
        # A canonical line by hand: members in order, and texts that the encoder writes canonically.
        text = (
            f'{{"depth":{self.level},"digest":"{name}","entries":{count},'
            f'"key":{_encode(key).decode()},"size":{size}}}\n'
        )
        self.made.append((name, (key, text, count, size)))


class Cursor:
    """Goes forward over the parts of one level of a tree. What it passes over is not read."""

    def __init__(self, shelf: Shelf, root: ManifestPart, level: int) -> None:
        self._shelf = shelf
        self._level = level
        self._last = root.key
        self._path: list[tuple[list[ManifestPart], int]] = [([root], 0)]

    def seek(self, key: Key) -> ManifestPart:
        """The part a key belongs to: the first that does not end before it, else the last of all."""
        path, key = self._path, min(key, self._last)
        while path[-1][0][-1].key < key:
            path.pop()
        parts, at = path.pop()
        path.append((parts, bisect_left(parts, key, at, key=key_of)))
        return self._down(key)

    def following(self) -> ManifestPart:
        """The part after the one where we are, which is not the last."""
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
    """The manifest of `before` with new lines in it; sealed: without those that are not new. Its parts are stored,
    but for the rows that the commit is to write."""
    shelf = Shelf(world, lease)
    root = _written(world, shelf, before, new, sealed, tally)
    return root, shelf.waiting()


def _written(world: World, shelf: Shelf, before: str, new: Iterator[Line], sealed: bool, tally: Tally) -> Root:
    cutter = Cutter(shelf, 0)
    with world.objects.open(before) if before else BytesIO() as file:
        first = file.readline()
        if not first.startswith(NAMES_PARTS):  # one object, or none: all of it is cut anew
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
    """A line for the root itself, as if there were a part above it."""
    return ManifestPart(
        depth=named[0].depth + 1,
        digest=name,
        entries=sum(part.entries for part in named),
        key=named[-1].key,
        size=sum(part.size for part in named),
    )


class Changes:
    """Lines that come or go, in their order; `next` is the one that is to be made next."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self.lines = lines
        self.next = next(lines, None)


def _recut(cutter: Cutter, cursor: Cursor, shelf: Shelf, changes: Changes, sealed: bool, tally: Tally) -> list[Line]:
    """Make the changes in one level; returns those of the level above."""
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
    """Old lines with the changes among them, cut. `whole`: no more old lines follow; what comes after them belongs
    here too, and the last part closes."""
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
    """The entries of a manifest that is one object, of whatever length."""
    for line in chain((first,), rest) if first else ():
        entry = decode_entry(line)
        tally.old += 1
        yield entry.key, line.decode(), 1, entry.size


def _root(shelf: Shelf, cutter: Cutter) -> Root:
    """Of a level that was cut whole: what is above it, up to the one part that names all."""
    while len(cutter.made) > 1:
        below, cutter = cutter, Cutter(shelf, cutter.level + 1)
        _merge(cutter, (), Changes(line for _, line in below.made), False, Tally())
    if not cutter.made:
        shelf.put(name := shelf.name_of(b""), b"")
        return Root(name, 0, 0)
    name, (_, _, entries, size) = cutter.made[0]
    depth = cutter.level
    while depth:  # a part that names a single one is none: the root is the lowest that holds all
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
