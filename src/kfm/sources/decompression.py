"""Fetch a source that is gzipped, or that is one member of an archive, and pin the bytes inside.

The archive is kept only while it is read: in memory if it is small, otherwise in an encrypted temporary file without a
name. If the source reports that it has not changed, it is neither fetched nor unpacked again.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from kfm.errors import Refused, Unavailable
from kfm.model.ports import Objects, Source, Staging
from kfm.model.records import Checkpoint, Fetched, FetchRequest
from kfm.parsing.characters import printable
from kfm.sources.archives import Limits, is_packed, kind_of, nested, tar_member, zip_member
from kfm.sources.content_encoding import decode_content
from kfm.sources.staging import CHUNK, Intake, check_expectation

if TYPE_CHECKING:
    import hashlib

IN_MEMORY = 8 << 20


class Wrapping(NamedTuple):
    """How a source is packed: the archive member to read, or gzip alone."""

    uri: str  # URI of the archive, as records name it
    member: str  # name of the member; empty if the source is a gzip file


class UnpackSource:
    """A source that unpacks what another source fetches.

    `wrapping_of` returns how the source of a name is packed, or None if it is not. With `in_memory` the archive is
    never written to disk. `look` receives the digest of the archive and may raise.
    """

    def __init__(
        self,
        source: Source,
        wrapping_of: Callable[[str], Wrapping | None],
        look: Callable[[str], None],
        *,
        in_memory: bool,
        monotonic: Callable[[], float],
    ) -> None:
        self._source = source
        self._wrapping_of = wrapping_of
        self._look = look
        self._in_memory = in_memory
        self._monotonic = monotonic

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched:
        from msgspec.structs import replace

        wrapping = self._wrapping_of(request.name)
        if wrapping is None:
            return self._source.fetch(request, known, objects)
        check_expectation(request)
        if known is not None and (known.uri != request.uri or request.expect_hash not in ("", known.content_hash)):
            known = None
        deadline = self._monotonic() + request.total_ms / 1000
        asked = replace(request, uri=wrapping.uri, expect_hash="")
        before = None if known is None else replace(known, uri=wrapping.uri)
        with _ScratchStore(objects, in_memory=self._in_memory) as aside:
            fetched = self._source.fetch(asked, before, aside)
            digest, size = fetched.ref.content_hash, fetched.ref.size
            if not fetched.not_modified:
                self._look(digest)
                shown = printable(wrapping.uri.partition("?")[0].partition("#")[0], 200)
                limits = Limits(request.max_bytes, request.max_ratio, lambda: self._check_time(deadline, shown))
                digest, size = _store_member(aside.file, wrapping.member, request, objects, limits, shown)
        media_type = request.media_type
        return replace(
            fetched,
            ref=replace(fetched.ref, uri=request.uri, content_hash=digest, size=size, media_type=media_type),
            checkpoint=replace(
                fetched.checkpoint, uri=request.uri, content_hash=digest, size=size, media_type=media_type
            ),
        )

    def _check_time(self, deadline: float, shown: str) -> None:
        if self._monotonic() >= deadline:
            raise Unavailable(
                f"{shown} took too long to unpack",
                hint="try again later, or raise network.total_s if it is that large",
            )


def _store_member(
    file: BinaryIO, member: str, request: FetchRequest, objects: Objects, limits: Limits, shown: str
) -> tuple[str, int]:
    file.seek(0)
    start = file.read(512)
    kind = kind_of(start)
    file.seek(0)
    chunks = iter(lambda: file.read(CHUNK), b"")
    if not member:
        if kind != "gzip":
            raise Refused(f"{shown} is not gzipped", hint="remove `unpack: gzip`, or correct the address")
        inside: Iterable[bytes] = _gunzip(chunks, limits, shown)
    elif kind == "zip":
        inside = zip_member(file, member, limits, shown)
    elif kind in ("tar", "gzip"):
        inside = tar_member(_gunzip(chunks, limits, shown) if kind == "gzip" else chunks, member, limits, shown)
    else:
        raise Refused(
            f"{shown} is neither a zip nor a tar archive, gzipped or not",
            hint="remove `member:`, or publish it as a zip or tar",
        )
    with Intake(request, objects, shown, lambda begun: _check_plain(begun, shown)) as intake:
        for piece in inside:
            intake.write(piece)
        return intake.commit()


def _gunzip(chunks: Iterable[bytes], limits: Limits, shown: str) -> Iterator[bytes]:
    for piece in decode_content(chunks, "gzip", limits.max_ratio, shown):
        limits.tick()
        yield piece


def _check_plain(start: bytes, shown: str) -> None:
    if is_packed(start):
        raise nested(shown)


class _ScratchStore:
    """An object store that keeps one staged body to itself until it closes; everything else goes to the real store."""

    def __init__(self, objects: Objects, *, in_memory: bool) -> None:
        self._objects = objects
        self._in_memory = in_memory
        self.file: BinaryIO = io.BytesIO()

    def __enter__(self) -> _ScratchStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def has(self, digest: str) -> bool:
        return self._objects.has(digest)

    def stage(self) -> Staging:
        import hashlib

        self.file.close()
        self.file = io.BytesIO()
        return _ScratchStaging(self, hashlib.sha256())

    def write(self, chunk: bytes) -> None:
        if not self._in_memory and isinstance(self.file, io.BytesIO) and self.file.tell() + len(chunk) > IN_MEMORY:
            import tempfile

            from kfm.crypto.encrypted_scratch import encrypted_file

            small = self.file
            self.file = encrypted_file(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115
            self.file.write(small.getvalue())
            small.close()
        self.file.write(chunk)

    def put(self, body: bytes) -> str:
        return self._objects.put(body)

    def put_stream(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        return self._objects.put_stream(chunks)

    def read(self, digest: str) -> bytes:
        return self._objects.read(digest)

    def open(self, digest: str) -> BinaryIO:
        return self._objects.open(digest)

    def size(self, digest: str) -> int:
        return self._objects.size(digest)

    def is_damaged(self, digest: str, since_ms: int) -> bool:
        return self._objects.is_damaged(digest, since_ms)


class _ScratchStaging:
    def __init__(self, aside: _ScratchStore, known: hashlib._Hash) -> None:
        self._aside = aside
        self._known = known
        self._size = 0

    def write(self, chunk: bytes) -> None:
        self._known.update(chunk)
        self._size += len(chunk)
        self._aside.write(chunk)

    def commit(self) -> tuple[str, int]:
        return "sha256:" + self._known.hexdigest(), self._size

    def abort(self) -> None:
        pass
