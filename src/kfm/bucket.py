"""One S3 bucket, reached through obstore: what the stores and publishers need of it, with errors that name a cure.

Every write is atomic: readers see the whole object or none. A request whose answer was lost may have had its effect, so
each method here can be repeated.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, TypeVar

from kfm.errors import BadInput, KfmError, Refused, StorageFailed, Unavailable

if TYPE_CHECKING:
    from obstore.store import S3Store

T = TypeVar("T")
LACKING = "pip install 'kansas-frontier-matrix[bucket]'"
PART = 8 << 20  # bytes of a part of a large upload
AT_ONCE = PART  # an object up to this size is one request, which creates it or finds it there
AHEAD = 3  # parts of a large object that are fetched before they are asked for
ATTEMPTS = 3  # of a write whose answer was lost
RESUME = "check the connection and the server, then try again; `kfm resume` continues what a run has begun"
LOCAL = re.compile(r"http://(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]+)?/?")


class Found(NamedTuple):
    """What a bucket says of an object. `attributes` holds its content type and its metadata, except in a listing."""

    path: str
    size: int
    etag: str
    changed_ms: int
    attributes: Mapping[str, str] = {}
    version: str = ""  # empty: the bucket keeps no older versions


class BucketSettings(Protocol):
    """How a bucket is reached: the section `s3` of the configuration."""

    @property
    def endpoint(self) -> str: ...

    @property
    def region(self) -> str: ...

    @property
    def access_key(self) -> str: ...

    @property
    def secret_key(self) -> str: ...

    @property
    def session_token(self) -> str: ...

    @property
    def identity(self) -> str: ...


class Bucket:
    """A bucket and a prefix in it, at an endpoint. `connect` is called at the first request."""

    def __init__(self, name: str, prefix: str, connect: Callable[[], S3Store], endpoint: str = "") -> None:
        self.name = name
        self.prefix = prefix
        self._endpoint = endpoint
        self._connect = connect
        self._connecting = threading.Lock()
        self._store: S3Store | None = None

    @property
    def store(self) -> S3Store:
        """Return obstore's client of this bucket and prefix."""
        if self._store is None:
            with self._connecting:
                self._store = self._store or self._connect()
        return self._store

    def create(self, path: str, body: bytes, attributes: Mapping[str, str] | None = None) -> str:
        """Write an object if there is none; return its etag, or an empty text if there was one: then nothing was
        changed. If an answer was lost, the object that is there may be this one."""
        return self._put(path, body, "create", attributes)

    def replace(self, path: str, body: bytes, etag: str, attributes: Mapping[str, str] | None = None) -> str:
        """Write an object in the place of the one with this etag; return the new etag, or an empty text if another one
        or none is there: then nothing was changed."""
        return self._put(path, body, {"e_tag": etag}, attributes)

    def write(self, path: str, body: bytes, attributes: Mapping[str, str] | None = None) -> str:
        """Write an object, whatever is there; return its etag."""
        return self._put(path, body, "overwrite", attributes)

    def _put(self, path: str, body: bytes, mode: Any, attributes: Mapping[str, str] | None) -> str:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        def put() -> str:
            try:
                done = obstore.put(
                    self.store, path, body, mode=mode, attributes=dict(attributes or {}), use_multipart=False
                )
            except (AlreadyExistsError, PreconditionError):
                return ""
            return done["e_tag"] or "?"

        return self._repeated("write an object", put, ATTEMPTS)

    def upload(self, path: str, body: BinaryIO | Iterable[bytes], attributes: Mapping[str, str] | None = None) -> None:
        """Write a large object in parts, whatever is there. It appears when all parts have arrived; if reading the body
        raises, the upload is aborted and nothing appears. An iterator is read once, so it is not tried again."""
        import obstore

        seek = getattr(body, "seek", None)

        def put() -> None:
            if seek is not None:
                seek(0)
            obstore.put(
                self.store,
                path,
                body,
                attributes=dict(attributes or {}),
                use_multipart=True,
                chunk_size=PART,
                max_concurrency=4,
            )

        self._repeated("write an object", put, 1 if seek is None else ATTEMPTS)

    def find(self, path: str) -> Found | None:
        """Return what the bucket says of an object; None if there is none."""
        import obstore

        def head() -> Found | None:
            try:
                answer = obstore.get(self.store, path, options={"head": True})
            except FileNotFoundError as problem:
                if _is_of_bucket(problem):
                    raise
                return None
            return _found(answer.meta, answer.attributes)

        return self._repeated("look for an object", head)

    def read(self, path: str) -> tuple[bytes, Found] | None:
        """Return the bytes of a small object and what the bucket says of it; None if there is none."""
        import obstore

        def get() -> tuple[bytes, Found] | None:
            try:
                answer = obstore.get(self.store, path)
            except FileNotFoundError as problem:
                if _is_of_bucket(problem):
                    raise
                return None
            return bytes(answer.bytes()), _found(answer.meta, answer.attributes)

        return self._repeated("read an object", get)

    def read_start(self, path: str, size: int) -> tuple[Any, int] | None:
        """Return the first bytes of an object as a buffer, with the size of all of it; None if there is no object."""
        import obstore
        from obstore.exceptions import BaseError

        def get() -> tuple[Any, int] | None:
            try:
                answer = obstore.get(self.store, path, options={"range": (0, size)})
            except FileNotFoundError as problem:
                if _is_of_bucket(problem):
                    raise
                return None
            except BaseError as problem:  # no range fits an empty object: most servers answer 416
                if "416" in str(problem) and obstore.head(self.store, path)["size"] == 0:
                    return b"", 0
                raise
            return answer.bytes(), answer.meta["size"]

        return self._repeated("read an object", get)

    def read_part(self, path: str, start: int, size: int) -> Any:
        """Return some bytes of an object as a buffer. Raise FileNotFoundError if there is no object."""
        import obstore

        return self._repeated("read an object", lambda: obstore.get_range(self.store, path, start=start, length=size))

    def copy(self, path: str, target: str) -> None:
        """Copy an object inside the bucket; a missing one is no error."""
        import obstore

        def work() -> None:
            with contextlib.suppress(FileNotFoundError):
                obstore.copy(self.store, path, target)

        self._repeated("copy an object", work, ATTEMPTS)

    def remove(self, path: str) -> None:
        """Remove an object; a missing one is no error."""
        import obstore

        def delete() -> None:
            with contextlib.suppress(FileNotFoundError):
                obstore.delete(self.store, path)

        self._repeated("remove an object", delete, ATTEMPTS)

    def below(self, folder: str) -> Iterator[Found]:
        """Yield the objects below a folder, as far as the bucket lists them now."""
        import obstore

        with self._failing("list objects"):
            for some in obstore.list(self.store, folder or None, chunk_size=1000):
                for meta in some:
                    yield _found(meta, {})

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder, in order."""
        return sorted(each.rstrip("/").rpartition("/")[2] for each in self._listed(folder)["common_prefixes"])

    def files(self, folder: str) -> list[str]:
        """Return the names of the objects directly in a folder, in order."""
        return sorted(each["path"].rpartition("/")[2] for each in self._listed(folder)["objects"])

    def _listed(self, folder: str) -> Any:
        import obstore

        return self._repeated("list objects", lambda: obstore.list_with_delimiter(self.store, folder))

    def _repeated(self, doing: str, work: Callable[[], T], attempts: int = 1) -> T:
        """Return what the work returns. obstore itself tries again what may be sent twice blindly; `attempts` is for
        the rest, whose callers look what is there."""
        for left in reversed(range(attempts)):
            try:
                with self._failing(doing):
                    return work()
            except Unavailable:
                if not left:
                    raise
        raise AssertionError  # no attempt was allowed

    @contextlib.contextmanager
    def _failing(self, doing: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as problem:
            if (said := bucket_error(problem, doing, self.name, self._endpoint)) is not None:
                raise said from None
            raise
        except BaseError as problem:
            said = bucket_error(problem, doing, self.name, self._endpoint)
            raise said or _odd(problem, doing, self.name) from None


class ObjectStream(io.RawIOBase):
    """Reads a large object in parts, the next ones while the caller works on this one."""

    def __init__(self, bucket: Bucket, name: str, missing: KfmError) -> None:
        self._bucket = bucket
        self._name = name
        self._missing = missing
        if (start := bucket.read_start(name, PART)) is None:
            raise missing
        self._part, self._size = memoryview(start[0]), start[1]
        self._asked = len(self._part)
        self._waiting: deque[Future[memoryview]] = deque()
        self._pool: ThreadPoolExecutor | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._part:
            self._part = self._next()
        count = min(len(self._part), len(buffer))
        buffer[:count] = self._part[:count]
        self._part = self._part[count:]
        return count

    def readall(self) -> bytes:
        return b"".join(self.parts())

    def parts(self) -> Iterator[memoryview]:
        """Yield the rest of the object in parts, without copying them."""
        part, self._part = self._part, memoryview(b"")
        while part:
            yield part
            part = self._next()

    def _next(self) -> memoryview:
        if self._asked < self._size:
            self._pool = self._pool or ThreadPoolExecutor(AHEAD)
            while self._asked < self._size and len(self._waiting) < AHEAD:
                self._waiting.append(self._pool.submit(self._fetched, self._asked, min(PART, self._size - self._asked)))
                self._asked += PART
        return self._waiting.popleft().result() if self._waiting else memoryview(b"")

    def _fetched(self, start: int, size: int) -> memoryview:
        try:
            return memoryview(self._bucket.read_part(self._name, start, size))
        except FileNotFoundError:
            raise self._missing from None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        super().close()


def open_bucket(
    settings: BucketSettings,
    bucket: str,
    prefix: str,
    secret: Callable[[str], bytes],
    *,
    wait_s: int = 60,
) -> Bucket:
    """Return a bucket to write to. `secret` reads a reference to a key; the role of a workload is found by
    obstore, in the environment. Raise BadInput if no keys are configured: anonymous requests cannot write."""
    place = f"s3.{bucket}"
    endpoint = (settings.endpoint or f"https://s3.{settings.region}.amazonaws.com").rstrip("/")
    if settings.identity == "keys" and not settings.access_key:
        raise BadInput(
            f"{place} has no keys, and KFM writes to this bucket",
            hint=f"set {place}.access_key and secret_key to env:NAME or file:PATH, or {place}.identity to workload",
        )

    def connect() -> S3Store:
        try:
            import obstore.store
        except ImportError:
            raise Unavailable("a bucket needs the library obstore", hint=LACKING) from None
        from datetime import timedelta

        config: dict[str, Any] = {
            # Also what is the default is set: obstore fills the rest from AWS_* variables of the environment.
            "endpoint": endpoint,
            "region": settings.region,
            "skip_signature": False,
            "unsigned_payload": False,
            "virtual_hosted_style_request": False,
            "disable_bulk_delete": True,  # not every store has it, and KFM removes objects one by one
        }
        local = bool(LOCAL.fullmatch(endpoint))
        try:
            return obstore.store.S3Store(
                bucket,
                prefix=prefix or None,
                client_options={
                    # Credentials of containers come over http from this machine.
                    "allow_http": local or settings.identity == "workload",
                    "connect_timeout": "5s",
                    "read_timeout": f"{wait_s}s",
                    "timeout": f"{5 * wait_s}s",
                },
                retry_config={"max_retries": 4, "retry_timeout": timedelta(seconds=wait_s)},
                credential_provider=_keys(settings, secret) if settings.identity == "keys" else None,
                **config,
            )
        except obstore.exceptions.BaseError as problem:
            raise _odd(problem, "open it", bucket) from None

    return Bucket(bucket, prefix.strip("/"), connect, endpoint)


def _keys(settings: BucketSettings, secret: Callable[[str], bytes]) -> Callable[[], Any]:
    """Return a provider of the configured keys. With it obstore takes no key from the environment, not even a session
    token, which would belong to other keys."""

    def text(reference: str) -> str:
        return secret(reference).decode("latin-1").strip()

    keys = {
        "access_key_id": text(settings.access_key),
        "secret_access_key": text(settings.secret_key),
        "token": text(settings.session_token) if settings.session_token else None,
        "expires_at": None,
    }
    return lambda: keys


def _found(meta: Any, attributes: Mapping[str, str]) -> Found:
    changed_ms = int(meta["last_modified"].timestamp() * 1000)
    return Found(meta["path"], meta["size"], meta["e_tag"] or "", changed_ms, attributes, meta["version"] or "")


def _is_of_bucket(problem: FileNotFoundError) -> bool:
    """Return whether the bucket itself is missing, as far as the server says so."""
    return "NoSuchBucket" in str(problem)


def md5_of(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def sum_in(etag: str) -> str:
    """Return the checksum in an etag, or an empty text if it has the form of none."""
    return found[1] if (found := re.fullmatch(r'"?([0-9a-f]{32}(?:-[0-9]+)?)"?', etag)) else ""


# -- errors. obstore's texts quote the server's whole answer; only a status and a code of it are used.

_CODES = {
    "InvalidAccessKeyId": ("does not know the access key", "check access_key in s3.{bucket}"),
    "SignatureDoesNotMatch": ("does not accept the secret key", "check secret_key and region in s3.{bucket}"),
    "ExpiredToken": ("says that the temporary keys have expired", "renew the keys of s3.{bucket}"),
    "InvalidToken": ("does not accept the session token", "check session_token in s3.{bucket}"),
    "RequestTimeTooSkewed": ("says that the clock of this machine is wrong", "set the clock"),
    "AuthorizationHeaderMalformed": ("is in another region", "correct s3.{bucket}.region"),
    "PermanentRedirect": ("is in another region", "correct s3.{bucket}.region"),
    "NoSuchBucket": ("does not exist", "create it, or correct its name in kfm.yml"),
    "NotImplemented": (
        "has no conditional writes, and KFM cannot do without them",
        "use a store that has them, such as S3, MinIO or SeaweedFS",
    ),
}
_FULL = re.compile(r"Full|Quota|InsufficientStorage|InsufficientCapacity")


def bucket_error(problem: Exception, doing: str, bucket: str, endpoint: str) -> KfmError | None:
    """Return the error that says what to do, without anything that the server wrote; None for a missing object."""
    text = str(problem).partition("\n\nDebug source:")[0]
    status = int(found[1]) if (found := re.search(r"status code: (\d{3})", text)) else 0
    code = found[1] if (found := re.search(r"<Code>(\w{1,60})</Code>", text)) else ""
    asked = found[1] if (found := re.search(r"Error performing \w+ (\S+) in", text)) else ""
    if (asked and not asked.startswith(endpoint)) or "token file" in text:  # not of the bucket
        kind = Refused if 400 <= status < 500 or not asked else Unavailable
        return kind(
            f"cannot {doing}: this workload gets no credentials for the bucket {bucket}",
            hint=f"give it a role that may write there, or set keys in s3.{bucket}",
        )
    if code in _CODES:
        why, hint = _CODES[code]
        return Refused(f"cannot {doing}: the bucket {bucket} {why}", hint=hint.format(bucket=bucket))
    if isinstance(problem, FileNotFoundError):
        return None
    if status == 507 or _FULL.search(code):
        return StorageFailed(f"cannot {doing}: the bucket {bucket} is full", hint="free some space, then `kfm resume`")
    if status in (301, 307):
        return Refused(f"cannot {doing}: the bucket {bucket} is in another region", hint=f"correct s3.{bucket}.region")
    if status in (401, 403):
        return Refused(
            f"cannot {doing}: the bucket {bucket} does not permit it ({status})",
            hint=f"check the keys in s3.{bucket}, and that they may get, put, delete and list objects",
        )
    if status in (408, 409, 425, 429) or status >= 500:
        return Unavailable(f"cannot {doing}: the bucket {bucket} answers {status}", hint=RESUME)
    if status:
        return Refused(f"cannot {doing}: the bucket {bucket} answers {status}", hint="check the server's log")
    return _unanswered(str(problem), doing, bucket)


def _unanswered(text: str, doing: str, bucket: str) -> KfmError | None:
    if "TimedOut" in text or "operation timed out" in text or "kind: Timeout" in text:
        return Unavailable(f"cannot {doing}: the bucket {bucket} did not answer in time", hint=RESUME)
    if "HTTP error" in text or "error sending" in text:
        return Unavailable(f"cannot {doing}: the bucket {bucket} cannot be reached", hint=RESUME)
    return None


def _odd(problem: Exception, doing: str, bucket: str) -> KfmError:
    return Unavailable(f"cannot {doing}: the bucket {bucket} failed ({type(problem).__name__})", hint=RESUME)
