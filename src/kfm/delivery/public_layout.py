"""Where the files of a published version are.

A small version has a folder with all its files. A large one shares its files with other versions: a file has its
digest in its name, so a promotion writes only what changed, and its manifest is published in the parts that decision
11 describes. Versions that an older KFM published have a folder, whatever their size, and keep it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from kfm.model import manifests, refs
from kfm.model.outbox_messages import PUBLIC, OutboxTx
from kfm.model.ports import Objects, State
from kfm.model.records import ManifestEntry, Record, RefEntry
from kfm.projections.file_paths import Twins, part_path, published_path, shared_path, version_path

NOTE = "layout"  # of the outbox
FILES = manifests.WHOLE  # a version of up to so many files,
BYTES = 64 << 20  # and so many bytes in all, has its own folder


class PublicLayout(Record, frozen=True):
    """How the versions of a dataset lie in public. It is stored once a version of the dataset shares files."""

    whole: int  # versions of moves of the published ref up to this one have folders of their own


_decode = msgspec.json.Decoder(PublicLayout).decode


class Listing(NamedTuple):
    """A file of a version's listing."""

    path: str
    digest: str
    size: int
    object: str  # the object with its bytes; empty: the flat listing of the version


def is_large(entries: int, size: int) -> bool:
    """Return whether a version of so many files and bytes shares its files with other versions."""
    return entries > FILES or size > BYTES


class Layout:
    """The layout of the public files of one dataset."""

    def __init__(
        self, state: State, objects: Objects, dataset: str, moves: Sequence[RefEntry] | None = None, *,
        shares: bool = True,
    ) -> None:  # fmt: skip
        self._state = state
        self._objects = objects
        self._dataset = dataset
        self._large: dict[str, bool] = {}
        self._twins: dict[str, Twins] = {}
        note = state.outbox.note(NOTE, dataset)
        told = state.outbox.told(PUBLIC, dataset)
        self.note = _decode(note) if note else PublicLayout(whole=told.moves if told else 0)
        if moves is None:
            moves = list(state.refs.history(refs.published(dataset))) if self.note.whole else []
        if not shares:
            self.note = PublicLayout(whole=len(moves))
        self._whole = {move.after for move in moves[: self.note.whole]}
        self._shares = shares

    def is_shared(self, version: str) -> bool:
        """Return whether a version shares its files with others. Raise Corrupt if its manifest cannot be read."""
        return self._shares and version not in self._whole and self.is_large(version)

    def is_large(self, version: str) -> bool:
        """Return whether a version is so large that it shares its files where files can be shared."""
        if version not in self._large:
            self._large[version] = is_large(*manifests.extent(self._objects, version))
        return self._large[version]

    def path(self, version: str, entry: ManifestEntry) -> str:
        """Return where a file of a version is published."""
        if self.is_shared(version):
            return shared_path(self._dataset, entry)
        if version not in self._twins:
            from kfm.delivery.file_names import twins_in  # a run that delivers nothing starts without it

            self._twins[version] = twins_in(self._state, self._objects, self._dataset, version)
        return published_path(self._dataset, version, entry, self._twins[version])

    def entries(self, version: str, base: str = "") -> Iterator[ManifestEntry]:
        """Yield the files of a version that another version, `base`, does not share with it."""
        if not base or not self.is_shared(version):
            yield from manifests.entries(self._objects, version)
            return
        for change in manifests.changes(self._objects, base, version):
            if change.new is not None:
                yield change.new

    def listings(self, version: str, base: str = "") -> Iterator[Listing]:
        """Yield the files of the listing of a version that another version, `base`, does not share with it; the one
        that names the others is last."""
        root = f"{version_path(self._dataset, version)}.ndjson"
        if not self.is_shared(version):
            yield Listing(root, *listed(self._objects, version), "")
            return
        for name in manifests.further_parts(self._objects, base, version):
            yield Listing(part_path(self._dataset, name), name, len(self._objects.read(name)), name)
        yield Listing(root, version, len(self._objects.read(version)), version)

    def holds(self, version: str, entry: ManifestEntry) -> bool:
        """Return whether a version that shares its files has this one."""
        found = manifests.find(self._objects, version, entry.key)
        return found is not None and shared_path(self._dataset, found) == shared_path(self._dataset, entry)

    def parts(self, version: str) -> set[str]:
        """Return the parts of the manifest of a version that shares its files."""
        return set(manifests.further_parts(self._objects, "", version))

    def keep(self, outbox: OutboxTx) -> None:
        """Store the layout."""
        outbox.keep_note(NOTE, self._dataset, msgspec.json.encode(self.note))


def listed(objects: Objects, version: str) -> tuple[str, int]:
    """Return the digest and the size of a version's flat listing."""
    total, size = hashlib.sha256(), 0
    for piece in manifests.listing(objects, version):
        total.update(piece)
        size += len(piece)
    return "sha256:" + total.hexdigest(), size


def shared_file(state: State, objects: Objects, dataset: str, path: str) -> tuple[str, str]:
    """Return the newest published version that shares the file at this path, and the file's digest; two empty texts if
    there is none."""
    start = path.rpartition("/")[2].split(".")
    history = state.refs.history(refs.published(dataset), reverse=True)
    for version in dict.fromkeys(move.after for move in history if move.after):
        for entry in manifests.entries(objects, version):
            if entry.digest[7:23] in start and shared_path(dataset, entry) == path:
                return version, entry.digest
    return "", ""
