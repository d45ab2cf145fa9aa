"""A folder or a bucket that holds backups: `sha256/…` for bytes by digest, shared by all backups, and `backups/…` with
one record for each. A record is written last, so a backup that was interrupted is none, and what it wrote is reused.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from kfm.config.store_settings import check_location
from kfm.errors import BadInput, Refused
from kfm.fsio import REAL, failing_as_storage, write_apart
from kfm.model.keys import digest
from kfm.parsing.documents import Document
from kfm.store.memory import MemoryTables
from kfm.store.objects import FileObjects
from kfm.store.state import StoredState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kfm.bucket import Bucket
    from kfm.config import Resolved
    from kfm.store.stored_objects import StoredObjects

RECORDS = "backups"
BEGUN = "begun"  # among the records: a first backup was begun at this place


class Records(Protocol):
    """The records of the backups at a place, by name."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, body: bytes) -> None: ...

    def remove(self, name: str) -> None: ...

    def is_begun(self) -> bool:
        """Return whether a first backup was begun here."""

    def begin(self) -> None:
        """Note that a first backup begins."""


class BackupPlace:
    """A place of backups. `url` is its address as kfm.yml would write it."""

    def __init__(self, url: str, objects: StoredObjects, records: Records, same: str) -> None:
        """`same` is one text for all addresses of this place."""
        self.url = url
        self.same = same
        self._objects = objects
        self.records = records

    def check_foreign(self) -> None:
        """Raise Refused if there are bytes that no backup wrote, such as the objects of an installation: `--keep` would
        take them for what an interrupted backup left."""
        if not self.records.names() and not self.records.is_begun() and self.known():
            raise Refused(
                f"{self.url} holds files by digest, and no backup",
                hint="name an empty place; these may be the objects of an installation",
            )

    def known(self) -> set[str]:
        """Return the digests of all bytes that are there, by their names alone."""
        return set(self._objects.large())

    def put(self, chunks: Iterable[bytes]) -> str:
        return self._objects.put_large(chunks)

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of this digest. Raise Corrupt at the end if they are others."""
        with self._objects.open(name) as file:
            while piece := file.read(1 << 20):
                yield piece

    def read(self, name: str) -> bytes:
        return self._objects.read(name)

    def discard(self, name: str) -> None:
        """Remove the bytes of this digest. What cannot be removed stays."""
        self._objects.discard(name)


def lock_for(place: BackupPlace) -> str:
    """Return the name of the lock that a process of this installation holds while it changes what is at this place."""
    return f"backup-{digest(place.same.encode())[7:19]}"


class _FolderRecords:
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def is_begun(self) -> bool:
        return os.path.exists(os.path.join(self._folder, BEGUN))

    def begin(self) -> None:
        with failing_as_storage("begin the backup"):
            REAL.make_dirs(self._folder, 0o700)
            write_apart(REAL, os.path.join(self._folder, BEGUN), [b""], mode=0o600)
            REAL.sync_dir(self._folder)

    def names(self) -> list[str]:
        try:
            found = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        return sorted(name.removesuffix(".json") for name in found if name.endswith(".json"))

    def read(self, name: str) -> bytes:
        with open(os.path.join(self._folder, f"{name}.json"), "rb") as file:
            return file.read()

    def write(self, name: str, body: bytes) -> None:
        target = os.path.join(self._folder, f"{name}.json")
        with failing_as_storage("write the record of the backup"):
            REAL.make_dirs(self._folder, 0o700)
            write_apart(REAL, target + ".tmp", [body], mode=0o600)
            REAL.replace(target + ".tmp", target)
            REAL.sync_dir(self._folder)

    def remove(self, name: str) -> None:
        with failing_as_storage("remove the record of an older backup"):
            REAL.unlink(os.path.join(self._folder, f"{name}.json"))
            REAL.sync_dir(self._folder)


class _BucketRecords:
    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def is_begun(self) -> bool:
        return self._bucket.read(f"{RECORDS}/{BEGUN}") is not None

    def begin(self) -> None:
        self._bucket.create(f"{RECORDS}/{BEGUN}", b"begun\n", {"Content-Type": "text/plain"})

    def names(self) -> list[str]:
        found = (each.path for each in self._bucket.below(RECORDS))
        return sorted(path.rpartition("/")[2].removesuffix(".json") for path in found if path.endswith(".json"))

    def read(self, name: str) -> bytes:
        found = self._bucket.read(f"{RECORDS}/{name}.json")
        if found is None:
            raise BadInput(f"there is no backup {name}", hint="`kfm backup TO --list` names them")
        return found[0]

    def write(self, name: str, body: bytes) -> None:
        path = f"{RECORDS}/{name}.json"
        if not self._bucket.create(path, body, {"Content-Type": "application/json"}):
            kept = self._bucket.read(path)
            if kept is None or digest(kept[0]) != digest(body):
                raise Refused(f"there is another backup {name} already", hint="type the same command again")

    def remove(self, name: str) -> None:
        self._bucket.remove(f"{RECORDS}/{name}.json")


def open_place(resolved: Resolved, url: str) -> BackupPlace:
    """Return the place of backups at an address: file:PATH, a plain path, or s3://BUCKET/PREFIX. BadInput for another
    one, Refused for a place that the installation uses itself."""
    try:
        if not url or "://" in url.removeprefix("s3://"):
            raise BadInput("this is no folder")
        url = url if url.partition(":")[0] in ("file", "s3") else f"file:{os.path.abspath(url)}"
        check_location(Document({}, "TO", lambda _path: None), "backup", url, ("file", "s3"))
    except BadInput as problem:
        raise BadInput("this is no place for a backup", hint="name a folder, or s3://BUCKET/PREFIX") from problem
    scheme, path = resolved.location(url)
    path = os.path.realpath(path) if scheme == "file" else path.rstrip("/")
    same = f"{scheme}:{path}"
    _check_apart(resolved, scheme, path)
    nothing = StoredState(MemoryTables(), _no_time)
    if scheme == "s3":
        from kfm.app.session.servers import bucket_at, open_bucket_objects

        records = _BucketRecords(bucket_at(resolved, url))
        return BackupPlace(url, open_bucket_objects(resolved, url, nothing), records, same)
    return BackupPlace(url, FileObjects(path, nothing), _FolderRecords(os.path.join(path, RECORDS)), same)


_no_time: Callable[[], int] = lambda: 0  # noqa: E731 - nothing at this place depends on the time


def _check_apart(resolved: Resolved, scheme: str, path: str) -> None:
    """Raise Refused if the place is that of the objects or of files that readers see, or lies in it."""
    for setting in ("objects", "publish", "catalog"):
        said = getattr(resolved.config, setting)
        if not said:
            continue
        other, own = resolved.location(said)
        own = os.path.realpath(own) if other == "file" else own.rstrip("/")
        if scheme == other and f"{path}/".startswith(f"{own}/"):
            raise Refused(f"a backup does not lie in `{setting}:`", hint="name another disk, machine or bucket")
