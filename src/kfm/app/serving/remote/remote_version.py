"""A version on another server: its entries from its manifest, and its bytes, all checked against their digests."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import msgspec

from kfm.delivery.public_layout import is_large
from kfm.errors import BadInput, Corrupt
from kfm.model import manifests
from kfm.model.keys import digest
from kfm.parsing.characters import printable
from kfm.projections.file_paths import case_twins, part_path, published_path, shared_path, version_path

if TYPE_CHECKING:
    from kfm.app.serving.remote.remote_server import RemoteServer
    from kfm.app.serving.served_records import DatasetAnswer
    from kfm.model.ports import Objects
    from kfm.model.records import ManifestEntry

LEAST = 8  # digits of a version that a caller names


class RemoteVersion(NamedTuple):
    """A version as its server shows it. `paths` are where its entries are."""

    server: RemoteServer
    dataset: str
    version: str
    entries: tuple[ManifestEntry, ...]
    paths: tuple[str, ...]

    def bytes_of(self, entry: ManifestEntry) -> bytes:
        """Return the bytes of an entry. Corrupt if they are not those of its digest."""
        return self.server.object(self.paths[self.entries.index(entry)], entry.digest)


def remote_version(server: RemoteServer, answer: DatasetAnswer, version: str = "") -> RemoteVersion:
    """Return the current version of a dataset, or one that the server shows besides it, by its digest or the start of
    it. Corrupt if the manifest is not that of the version."""
    wanted = _named(answer, version)
    body = server.body(f"/{version_path(answer.dataset, wanted)}.ndjson", most=1 << 30)
    try:
        entries = tuple(_entries(server, answer.dataset, wanted, body))
    except msgspec.MsgspecError:
        raise _wrong(server, wanted) from None
    known = {file.digest: {tuple(file.key): file.href} for file in answer.files} if wanted == answer.version else {}
    shares = is_large(len(entries), sum(entry.size for entry in entries))
    twins = case_twins(entry.key for entry in entries)
    paths = (
        known.get(entry.digest, {}).get(entry.key)
        or "/"
        + (shared_path(answer.dataset, entry) if shares else published_path(answer.dataset, wanted, entry, twins))
        for entry in entries
    )
    return RemoteVersion(server, answer.dataset, wanted, entries, tuple(paths))


def selected(found: RemoteVersion, key: str | tuple[str, ...]) -> RemoteVersion:
    """Return the version with the one entry that a key names, as text or as a tuple. BadInput if there is none."""
    if not key:
        return found
    wanted = key if isinstance(key, tuple) else tuple(key.split("/"))
    for entry, path in zip(found.entries, found.paths, strict=True):
        if entry.key == wanted or entry.key == (key,):
            return found._replace(entries=(entry,), paths=(path,))
    shown = "/".join(wanted)
    raise BadInput(f"{found.dataset} {found.version[:19]} has no entry {printable(shown)}", hint="see keys()")


def _named(answer: DatasetAnswer, version: str) -> str:
    if not version:
        return answer.version
    plain = version.removeprefix("sha256:")
    shown = [one.version for one in answer.versions if len(plain) >= LEAST and one.version[7:].startswith(plain)]
    if len(shown) != 1:
        raise BadInput(
            f"{answer.dataset} shows no version {printable(version, 80)}",
            hint=f"its versions are in Client.dataset(…).versions; give {LEAST} digits or more",
        )
    return shown[0]


def _entries(server: RemoteServer, dataset: str, version: str, body: bytes) -> Iterator[ManifestEntry]:
    if digest(body) == version:
        yield from manifests.entries(cast("Objects", _Parts(server, dataset, version, body)), version)
    elif body.startswith(manifests.NAMES_PARTS) or manifests.version_of(body) != version:
        raise _wrong(server, version)
    else:
        yield from manifests.decode_entries(body)


class _Parts:
    """The parts of a manifest as an object store; each is fetched and checked when it is read."""

    def __init__(self, server: RemoteServer, dataset: str, version: str, root: bytes) -> None:
        self._server = server
        self._dataset = dataset
        self._known = {version: root}

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.read(name))

    def read(self, name: str) -> bytes:
        return self._known.get(name) or self._server.object(f"/{part_path(self._dataset, name)}", name)


def _wrong(server: RemoteServer, version: str) -> Corrupt:
    return Corrupt(f"{server.url} sent another manifest than that of {version[:19]}", hint="tell the server's operator")
