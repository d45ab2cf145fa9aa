"""The manifest of a version: a line a key, sorted by key, so that two versions are compared by reading both once.

New lines win over those of the version before. A key that only the old version has is carried over;
it is a deletion only when the plan is complete and every source was sealed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from kfm.contract.keys import digest
from kfm.contract.ports import INLINE_MAX
from kfm.contract.records import ManifestEntry
from kfm.engine.walk import Walk
from kfm.errors import Refused

SORT_IN_MEMORY = 50_000
Entry = tuple[tuple[str, ...], str, int]  # key, its line of the manifest, size of the object
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(ManifestEntry).decode


class Tally:
    """What went into a manifest, counted on the way."""

    def __init__(self) -> None:
        self.entries = 0
        self.size = 0
        self.old = 0
        self.deleted = 0


def write_manifest(walk: Walk, before: str, sealed: bool) -> tuple[str, Tally]:
    """Store the manifest and return its digest. A small one becomes a row of the commit itself."""
    tally = Tally()
    new = _sorted(walk, _new_entries(walk))
    blocks = _blocks(_merged(_old_entries(walk, before), new, sealed, tally) if before else _first(new, tally))
    head = next(blocks, b"")
    rest = next(blocks, None)
    if rest is None and len(head) <= INLINE_MAX:
        name = digest(head)
        walk.tail_rows.append((name, head))
        return name, tally
    return walk.ports.objects.put_stream(chain([head], [rest or b""], blocks))[0], tally


def _new_entries(walk: Walk) -> Iterator[Entry]:
    plan, results = walk.plan, walk.results
    assert plan is not None and results is not None
    media_text: dict[str, str] = {}
    position = -1
    for batch in plan.each(walk.ports.state):
        for step in batch:
            position += 1
            key = step.key
            if key is None:
                continue
            _, name, size, media_type = results.get(position)
            media = media_text.get(media_type)
            if media is None:
                media = media_text[media_type] = _encode(media_type).decode()
            # A canonical line by hand: members in order, and texts that the encoder writes canonically.
            line = f'{{"digest":"{name}","key":{_encode(key).decode()},"media_type":{media},"size":{size}}}\n'
            yield key, line, size


def _sorted(walk: Walk, entries: Iterator[Entry]) -> Iterator[Entry]:
    """By key; more than fits in memory is sorted in parts that lie on disk meanwhile."""
    parts: list[Iterator[Entry]] = []
    held: list[Entry] = []
    for entry in entries:
        held.append(entry)
        if len(held) >= SORT_IN_MEMORY and not walk.ports.settings.dry_run:
            held.sort()
            parts.append(_laid_aside(held))
            held = []
    held.sort()
    return heapq.merge(*parts, iter(held)) if parts else iter(held)


def _laid_aside(entries: list[Entry]) -> Iterator[Entry]:
    import tempfile

    file = tempfile.TemporaryFile()  # noqa: SIM115 - scratch without a name, gone with its iterator
    file.write("".join(entry[1] for entry in entries).encode())
    file.seek(0)
    return _read(file)


def _read(lines: Iterable[bytes]) -> Iterator[Entry]:
    for line in lines:
        entry = _decode(line)
        yield entry.key, line.decode(), entry.size


def _old_entries(walk: Walk, manifest: str) -> Iterator[Entry]:
    with walk.ports.objects.open(manifest) as file:
        yield from _read(file)


def _first(new: Iterator[Entry], tally: Tally) -> Iterator[str]:
    """There is no version before: every line is new."""
    previous: tuple[str, ...] | None = None
    for key, line, size in new:
        if key == previous:
            raise _twice(key)
        previous = key
        tally.entries += 1
        tally.size += size
        yield line


def _merged(old: Iterator[Entry], new: Iterator[Entry], sealed: bool, tally: Tally) -> Iterator[str]:
    previous: tuple[str, ...] | None = None
    kept = next(old, None)
    for entry in chain(new, [None]):  # None: past the last new line, only old ones are left
        key = entry[0] if entry is not None else None
        if key is not None and key == previous:
            raise _twice(key)
        while kept is not None and (key is None or kept[0] < key):
            tally.old += 1
            if sealed:
                tally.deleted += 1
            else:
                tally.entries += 1
                tally.size += kept[2]
                yield kept[1]
            kept = next(old, None)
        if entry is None or key is None:
            return
        if kept is not None and kept[0] == key:  # the new line takes its place
            tally.old += 1
            kept = next(old, None)
        previous = key
        tally.entries += 1
        tally.size += entry[2]
        yield entry[1]


def _twice(key: tuple[str, ...]) -> Refused:
    return Refused(
        f"two steps give the key {'/'.join(key)}",
        hint="a key names one output; give each its own",
        discreet="two steps give the same key",
    )


def _blocks(lines: Iterator[str]) -> Iterator[bytes]:
    held: list[str] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size > INLINE_MAX:
            yield "".join(held).encode()
            held, size = [], 0
    if held:
        yield "".join(held).encode()
