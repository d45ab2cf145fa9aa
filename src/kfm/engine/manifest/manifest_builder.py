"""Sorts the new entries of a run by key and merges them with the previous version.

New entries win over those of the previous version. A key that only the old version has is carried over. It is deleted
only if the plan and every source are complete and, in a run of a partition, only if the key begins with the
partition's name.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import msgspec

from kfm.engine.manifest.manifest_tree import Line, Root, Tally, goes, write
from kfm.engine.run_context import RunContext
from kfm.engine.stage_results import Planned, Rows
from kfm.engine.step_results import Results
from kfm.errors import Refused
from kfm.model.canonical import canonical
from kfm.model.manifests import Key, decode_entry, entries_of
from kfm.model.records import Step
from kfm.projections.file_paths import has_capitals

SORT_IN_MEMORY = 50_000
_encode = msgspec.json.encode


def write_manifest(
    context: RunContext, planned: Planned, results: Results, before: str, sealed: bool
) -> tuple[Root, Rows, Tally]:
    """Return the manifest of the new version, its rows that the commit writes, and a tally of the old entries."""
    tally, partition = Tally(), context.trigger.partition
    new = _distinct(_sorted(context, _new_entries(planned.plan.each(context.world.state), results)), tally)
    if partition and sealed and before:
        old = entries_of(context.world.objects, before, partition)
        new, sealed = _with_deletions(new, (entry.key for entry in old), tally), False
    return *write(context.world, planned.lease, before, new, sealed, tally), tally


def _with_deletions(new: Iterator[Line], old: Iterator[Key], tally: Tally) -> Iterator[Line]:
    """Yield the new entries in key order and, between them, a removal for each old key that no new entry has."""
    line = next(new, None)
    for key in old:
        tally.of_partition += 1
        while line is not None and line[0] < key:
            yield line
            line = next(new, None)
        if line is None or line[0] != key:
            tally.deleted += 1
            yield goes(key)
    while line is not None:
        yield line
        line = next(new, None)


def _new_entries(batches: Iterator[list[Step]], results: Results) -> Iterator[Line]:
    media_text: dict[str, str] = {}
    position = -1
    for batch in batches:
        for step in batch:
            position += 1
            key = step.key
            if key is None:
                continue
            _, name, size, media_type = results.get(position)
            media = media_text.get(media_type)
            if media is None:
                media = media_text[media_type] = _encode(media_type).decode()
            said = results.described.get(position)
            if said is not None:
                entry = {"digest": name, "key": key, "media_type": media_type, "size": size, **said}
                yield key, canonical(entry).decode() + "\n", 1, size
                continue
            # A canonical line, built by hand: its members are in order, and the encoder writes its texts canonically.
            text = f'{{"digest":"{name}","key":{_encode(key).decode()},"media_type":{media},"size":{size}}}\n'
            yield key, text, 1, size


def _sorted(context: RunContext, lines: Iterator[Line]) -> Iterator[Line]:
    """Yield the lines sorted by key. If they do not fit into memory, sorted pieces wait on disk."""
    stretches: list[Iterator[Line]] = []
    held: list[Line] = []
    for line in lines:
        held.append(line)
        if len(held) >= SORT_IN_MEMORY and not context.world.settings.dry_run:
            held.sort()
            stretches.append(_laid_aside(context, held))
            held = []
    held.sort()
    return heapq.merge(*stretches, iter(held)) if stretches else iter(held)


def _laid_aside(context: RunContext, lines: list[Line]) -> Iterator[Line]:
    file = context.world.scratch()  # deleted with its iterator
    file.write("".join(text for _, text, _, _ in lines).encode())
    file.seek(0)
    return _read(file)


def _read(file: Iterable[bytes]) -> Iterator[Line]:
    for text in file:
        entry = decode_entry(text)
        yield entry.key, text.decode(), 1, entry.size


def _distinct(lines: Iterator[Line], tally: Tally) -> Iterator[Line]:
    previous: tuple[str, ...] | None = None
    for line in lines:
        if line[0] == previous:
            raise _twice(line[0])
        previous = line[0]
        tally.capitals = tally.capitals or has_capitals(previous)
        yield line


def _twice(key: tuple[str, ...]) -> Refused:
    return Refused(
        f"two steps write the key {'/'.join(key)}",
        hint="a key names one output; give each its own",
        discreet="two steps write the same key",
    )
