"""Stage foreign bytes in the object store: count, inspect and hash them, and drop them unless all is well."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from kfm.errors import BadInput, Refused
from kfm.model.names import is_digest
from kfm.model.ports import Objects
from kfm.model.records import FetchRequest

CHUNK = 1 << 20


class Intake:
    """Stages a body in pieces of at least 1 MiB. Leaving the `with` block without `commit` drops everything."""

    def __init__(
        self,
        request: FetchRequest,
        objects: Objects,
        shown: str,
        inspect: Callable[[bytes], None] | None = None,
        total: int = 0,
    ) -> None:
        """`inspect` receives the start of the body before any of it is staged, and may raise. `total` is the announced
        number of bytes; it only feeds the progress display.
        """
        check_expectation(request)
        self.size = 0
        self._limit = request.max_bytes
        self._expect = request.expect_hash
        self._shown = shown
        self._inspect = inspect
        self._small: list[bytes] = []
        self._small_size = 0
        self._own = None
        if self._expect:
            # The staging returns its digest only by committing, and a body with another digest must not be stored.
            import hashlib

            self._own = hashlib.sha256()
        self._done = False
        self._staging = objects.stage()
        if total and (expect := getattr(self._staging, "expect", None)) is not None:
            expect(total)

    def write(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self.size > self._limit:
            raise too_large(self._shown, self._limit)
        if len(chunk) >= CHUNK and not self._small:
            self._pass_on(chunk)
            return
        self._small.append(chunk)
        self._small_size += len(chunk)
        if self._small_size >= CHUNK:
            self._flush()

    def commit(self) -> tuple[str, int]:
        """Store the body; return its digest and size. Raise Refused if the digest is not the expected one."""
        self._flush()
        if self._own is not None and "sha256:" + self._own.hexdigest() != self._expect:
            raise Refused(
                f"{self._shown} does not have the expected hash",
                hint="check the source, then update expect_hash if the new content is right",
                expected=self._expect,
            )
        digest, size = self._staging.commit()
        self._done = True
        return digest, size

    def _flush(self) -> None:
        if self._small:
            chunk = self._small[0] if len(self._small) == 1 else b"".join(self._small)
            self._small.clear()
            self._small_size = 0
            self._pass_on(chunk)

    def _pass_on(self, chunk: bytes) -> None:
        if self._inspect is not None:
            self._inspect(chunk[:1024])
            self._inspect = None
        if self._own is not None:
            self._own.update(chunk)
        self._staging.write(chunk)

    def __enter__(self) -> Intake:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._done:
            self._staging.abort()


def check_expectation(request: FetchRequest) -> None:
    if request.expect_hash and not is_digest(request.expect_hash):
        raise BadInput("expect_hash is not a digest", hint="give sha256: and 64 lower-case hex digits")


def too_large(shown: str, limit: int) -> Refused:
    return Refused(
        f"{shown} is larger than the {limit} bytes allowed",
        hint="raise max_bytes of this source or of network if it should be that large",
        max_bytes=limit,
    )
