"""Read a source from a directory into the object store, and never from outside that directory."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from time import monotonic as system_monotonic

from kfm.errors import BadInput, Refused, Unavailable
from kfm.model.ports import Objects
from kfm.model.records import Checkpoint, Fetched, FetchRequest, SourceRef
from kfm.parsing.characters import printable
from kfm.sources.openat import open_beneath
from kfm.sources.revalidation import may_revalidate
from kfm.sources.staging import CHUNK, Intake, check_expectation, too_large

_RACY_MS = 2000  # a file that changed this shortly before the read may change again under the same time stamp


class FileSource:
    """Read `file:` URIs and plain paths below `request.base_dir`, without following any symbolic link.

    A file whose size, time stamps and inode are those of the last read is not read again within `revalidate_ms`; time
    stamps can be wrong, so after that the content decides. These values stay in the checkpoint. The ref has no etag,
    because the same bytes must give the same ref on every machine.
    """

    def __init__(self, *, monotonic: Callable[[], float] = system_monotonic) -> None:
        self._monotonic = monotonic

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched:
        check_expectation(request)
        deadline = self._monotonic() + request.total_ms / 1000
        base = os.path.abspath(request.base_dir or ".")
        base, parts = _parts(request.uri, base, request.roots)
        shown = printable("/".join(parts), 200)
        root = _open_root(base)
        try:
            fd = _open(root, parts, shown)
            try:
                before = os.fstat(fd)
                if not stat.S_ISREG(before.st_mode):
                    raise Refused(f"{shown} is not a regular file", hint="name a file that can be read to its end")
                if known is not None and _may_reuse(request, known, before, objects):
                    return _fetched(request, known, before, not_modified=True)
                if before.st_size > request.max_bytes:
                    raise too_large(shown, request.max_bytes)
                with Intake(request, objects, shown, total=before.st_size) as intake:
                    self._read(fd, intake, before.st_size, deadline, shown)
                    _check_unchanged(root, parts, fd, before, shown)
                    content_hash, size = intake.commit()
            finally:
                os.close(fd)
        finally:
            os.close(root)
        checkpoint = Checkpoint(
            uri=request.uri,
            content_hash=content_hash,
            size=size,
            media_type=request.media_type,
            etag=_validator(before),
            last_modified="",
            fetched_ms=request.now_ms,
            checked_ms=request.now_ms,
        )
        return _fetched(request, checkpoint, before, not_modified=False)

    def _read(self, fd: int, intake: Intake, expected: int, deadline: float, shown: str) -> None:
        while True:
            if self._monotonic() >= deadline:
                raise Unavailable(
                    f"{shown} took too long to read",
                    hint="try again later, or raise total_s of this source or of network",
                )
            try:
                chunk = os.read(fd, CHUNK)
            except OSError as error:
                raise _unreadable(error, shown) from None
            if not chunk:
                break
            if intake.size + len(chunk) > expected:
                raise _changed(shown)  # a file that grows as fast as it is read ends here too
            intake.write(chunk)
        if intake.size != expected:
            raise _changed(shown)


def _parts(uri: str, base: str, others: Sequence[str]) -> tuple[str, list[str]]:
    """Return the allowed folder that holds the file, and the path components below it. Raise if there is none."""
    path = uri
    if uri[:5].lower() == "file:":
        path = _path_of(uri[5:])
    if "\0" in path:
        raise BadInput("the path of the source holds a NUL character")
    if path.startswith("/"):
        for root in dict.fromkeys((base, os.path.realpath(base), *others)):
            prefix = root.rstrip("/") + "/"
            if path.startswith(prefix):
                path = path[len(prefix) :]
                base = root
                break
        else:
            raise Refused(
                f"{printable(path, 200)} is outside of the folder of kfm.yml",
                hint="move it into that folder and use a relative path, or name its folder under `read_from:`",
            )
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise BadInput(
            f"{printable(path, 200)} is not a path to a file in the folder of kfm.yml or below",
            hint="move it there, and name it without '..'",
        )
    return base, parts


def _path_of(rest: str) -> str:
    """Return the path of the text after `file:`, with percent-encoding decoded."""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host.lower() not in ("", "localhost") or not slash:
            raise BadInput("the file URI names another machine", hint="write file:///absolute/path or a relative path")
        rest = "/" + path
    if "?" in rest or "#" in rest:
        raise BadInput("the file URI holds '?' or '#'", hint="write them as %3F and %23")
    if "%" not in rest:
        return rest
    from urllib.parse import unquote_to_bytes

    try:
        raw = rest.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadInput(f"{printable(rest, 200)} is not a name a file can have") from None
    return unquote_to_bytes(raw).decode("utf-8", "surrogateescape")


def _open_root(base: str) -> int:
    try:
        return os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(error, f"the source's directory {printable(base, 200)}") from None


def _open(root: int, parts: list[str], shown: str) -> int:
    try:
        # O_NONBLOCK: opening a FIFO must not wait for a writer.
        return open_beneath(root, parts, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise _unreadable(error, shown) from None
    except ValueError:  # a surrogate that stands for no byte
        raise BadInput(f"{shown} is not a name a file can have") from None


def _unreadable(error: OSError, shown: str) -> Refused | Unavailable:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return Refused(f"{shown} does not exist", hint="check the path; published versions stay")
    if error.errno in (errno.ELOOP, errno.EXDEV):
        return Refused(f"{shown} leads through a symbolic link or out of its directory", hint="name the file itself")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Refused(f"{shown} may not be read by this user", hint="change its permissions")
    if error.errno in (errno.ENAMETOOLONG, errno.EINVAL):
        return BadInput(f"{shown} is not a name a file can have")
    if error.errno in (errno.ENXIO, errno.ENODEV, errno.EISDIR):
        return Refused(f"{shown} is not a regular file", hint="name a file that can be read to its end")
    name = errno.errorcode.get(error.errno or 0, "unknown")
    return Unavailable(f"{shown} cannot be read ({name})", hint="check the disk, then try again", errno=error.errno)


def _validator(info: os.stat_result) -> str:
    """Return size, times and inode as a tag. It includes ctime, which no program can set: a copy over the file can keep
    its size, inode and mtime.
    """
    return f'"{info.st_size:x}-{info.st_mtime_ns:x}-{info.st_ctime_ns:x}-{info.st_ino:x}"'


def _may_reuse(request: FetchRequest, known: Checkpoint, info: os.stat_result, objects: Objects) -> bool:
    """Return whether the file is, by its time stamps, the one whose bytes are stored."""
    return (
        known.etag == _validator(info)
        and info.st_mtime_ns // 1_000_000 + _RACY_MS < known.fetched_ms
        and may_revalidate(request, known, objects)
    )


def _check_unchanged(root: int, parts: list[str], fd: int, before: os.stat_result, shown: str) -> None:
    """Raise Unavailable unless the file was not written to while it was read and still has its name."""
    after = os.fstat(fd)
    if (after.st_size, after.st_mtime_ns, after.st_ctime_ns) != (
        before.st_size, before.st_mtime_ns, before.st_ctime_ns,
    ):  # fmt: skip
        raise _changed(shown)
    try:
        again = _open(root, parts, shown)
    except Refused:
        raise _changed(shown) from None
    try:
        now = os.fstat(again)
    finally:
        os.close(again)
    if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
        raise _changed(shown)


def _changed(shown: str) -> Unavailable:
    return Unavailable(
        f"{shown} changed while it was read", hint="try again; the writer should write a temporary file and rename it"
    )


def _fetched(request: FetchRequest, known: Checkpoint, info: os.stat_result, *, not_modified: bool) -> Fetched:
    from msgspec.structs import replace

    return Fetched(
        ref=SourceRef(
            uri=request.uri,
            content_hash=known.content_hash,
            size=known.size,
            name=request.name,
            media_type=request.media_type,
            partition=request.partition,
            complete=request.complete,
        ),
        checkpoint=replace(known, checked_ms=request.now_ms),
        not_modified=not_modified,
        bytes_on_wire=0 if not_modified else info.st_size,
    )
