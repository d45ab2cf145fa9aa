"""Files of versions that may be shown, by their path in the public folder.

The bytes come from the object store: a version that was not delivered yet has them, and a withdrawn one has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from kfm.app.metadata.archive_places import places_of_public
from kfm.app.serving.dataset_answers import content_of
from kfm.delivery.public_layout import Layout, listed
from kfm.delivery.public_metadata import PublicMetadata
from kfm.model import manifests
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.projections.file_paths import part_path, pointer_path, version_path
from kfm.projections.live_versions import last_move, pointer_of

if TYPE_CHECKING:
    from kfm.app.serving.shelf import ShownDataset
    from kfm.app.session.session import Session

PIECE = 1 << 18
NDJSON = "application/x-ndjson"
_TEXT = "text/plain; charset=utf-8"
_BESIDE = {"xml": "application/atom+xml", "cff": _TEXT, "SHA256SUMS": _TEXT}  # by the end of the path


class FoundFile(NamedTuple):
    """A file that may be shown. Its bytes are `body`, or those of the object `digest`."""

    digest: str
    size: int
    media_type: str
    version: str  # one version that has it
    body: bytes | None = None


def file_at(session: Session, shown: ShownDataset, path: str) -> FoundFile | None:
    """Return the file of a dataset at a path in the public folder; None if no version that may be shown has it."""
    layout = Layout(session.state, session.objects, shown.dataset, shown.moves)
    if path == pointer_path(shown.dataset):
        move = last_move(shown.moves, shown.version)
        body = canonical(pointer_of(move)) if move is not None else b""
        return FoundFile(digest(body), len(body), "application/json", shown.version, body) if body else None
    for version in reversed(shown.standing):
        if not layout.is_shared(version) and not path.startswith(version_path(shown.dataset, version)):
            continue
        found = _listing(session, layout, shown.dataset, version, path) or _entry(session, layout, version, path)
        if found is not None:
            return found
    return _beside(session, shown, path)


def _beside(session: Session, shown: ShownDataset, path: str) -> FoundFile | None:
    """Return a file for programs that lies beside the files of a dataset: its feed, its citation, or checksums."""
    media_type = _BESIDE.get(path.rpartition(".")[2])
    if media_type is None:
        return None
    places = places_of_public(session)
    content = content_of(session, shown)
    beside = PublicMetadata(session.state, session.objects, places, content, shown.moves)
    if path not in beside.paths():
        return None
    body = next(body for at, body in beside.files(beside.paths() - {path}) if at == path)
    return FoundFile(digest(body), len(body), media_type, shown.version, body)


def _entry(session: Session, layout: Layout, version: str, path: str) -> FoundFile | None:
    for entry in manifests.entries(session.objects, version):
        if layout.path(version, entry) == path:
            return FoundFile(entry.digest, entry.size, entry.media_type or "application/octet-stream", version)
    return None


def _listing(session: Session, layout: Layout, dataset: str, version: str, path: str) -> FoundFile | None:
    if path == f"{version_path(dataset, version)}.ndjson":
        if layout.is_shared(version):
            return FoundFile(version, session.objects.size(version), NDJSON, version)
        name, size = listed(session.objects, version)
        return FoundFile(name, size, NDJSON, version, b"".join(manifests.listing(session.objects, version)))
    if layout.is_shared(version):
        for name in layout.parts(version):
            if path == part_path(dataset, name):
                return FoundFile(name, session.objects.size(name), NDJSON, version)
    return None


def pieces(file: BinaryIO, start: int, size: int) -> Iterator[bytes]:
    """Yield a part of an object in pieces. What comes before the part is read too, so that the digest is checked."""
    with file:
        left = start
        while left > 0:
            left -= len(file.read(min(left, PIECE)) or b"") or left
        while size > 0:
            piece = file.read(min(size, PIECE))
            if not piece:
                return
            size -= len(piece)
            yield piece
