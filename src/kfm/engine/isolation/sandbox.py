"""Reads files with third-party libraries in a child process.

Such a library may crash, hang or use all memory. Then only the child dies, and the source is quarantined like any other
that cannot be read. The child has limits on memory, processor time and elapsed time. It gets the open file, can open no
other file and no connection (landlock.py), and answers in frames of limited length: a letter, a length, bytes.

The readers are in `validation`. `open_body()` returns a file with a descriptor, so /proc/self/fd/N is a path for a
library that needs one. If the kernel cannot confine the child, only the `UNCONFINED` formats are read.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

from kfm.engine.isolation.landlock import libraries
from kfm.errors import BadInput, Refused, Unavailable
from kfm.model.canonical import canonical
from kfm.model.records import DataContract, Finding
from kfm.validation.source_check import Inspection, nothing_found

MEMORY = 2 << 30  # bytes
SECONDS = 300  # of processor time
PER_SECOND = 1 << 20  # bytes of a source for one more second
PATIENCE = 4  # elapsed seconds for each second of processor time, because other processes run, too
FRAME = 1 << 20  # the most bytes of a frame, except the answer
MOST_SAID = 16 << 20  # the most bytes of the answer
UNCONFINED = ("parquet",)  # formats that cannot refer to another file
COPY = 1 << 20
_SETTINGS = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # the others reserve far more memory than they use
    "ARROW_IO_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "GDAL_NUM_THREADS": "1",
}


class Task(msgspec.Struct, frozen=True):
    """The task of the child process: the contract, the source and the limits under which it is read."""

    contract: bytes
    expects: bool
    source: str
    before: int
    memory: int
    seconds: int
    confined: bool  # False: it runs without Landlock and seccomp
    only_described: bool = False
    only_profiled: bool = False


class Died(Exception):
    """The child ended without an answer; `how` says why in a few words."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


def inspect_apart(
    scratch: Callable[[], BinaryIO],
    open_body: Callable[[], BinaryIO],
    contract: DataContract,
    source: str,
    accept: Callable[[bytes], None],
    hold: Callable[[bytes], None],
    before: int = 0,
) -> Inspection:
    """Check a source against its contract as `inspect` does, but in a child process. The bytes are copied into a
    seekable file and verified on the way."""
    expects = type(contract) is not DataContract
    confined = contract.format not in UNCONFINED
    task = Task(canonical(contract), expects, source, before, MEMORY, SECONDS, confined)
    try:
        return _in_child(scratch, open_body, task, accept, hold)
    except Died as death:
        return _unreadable(source, contract.format, death.how)


def describe_apart(scratch: Callable[[], BinaryIO], open_body: Callable[[], BinaryIO], form: str) -> dict[str, Any]:
    """Return where and when a grid lies that passed; empty if it cannot be read any more."""
    return {name: value for name, value in facts_apart(scratch, open_body, form).items() if name != "variables"}


def facts_apart(scratch: Callable[[], BinaryIO], open_body: Callable[[], BinaryIO], form: str) -> dict[str, Any]:
    """Return the description of a grid that passed, with its variables; empty if it cannot be read any more."""
    contract = msgspec.convert({"format": form}, DataContract)
    task = Task(canonical(contract), False, "", 0, MEMORY, SECONDS, form not in UNCONFINED, only_described=True)
    try:
        return _in_child(scratch, open_body, task, lambda _: None, lambda _: None).described or {}
    except Died:
        return {}


def profile_apart(scratch: Callable[[], BinaryIO], open_body: Callable[[], BinaryIO], form: str) -> dict[str, Any]:
    """Return what a file that was never checked says of itself, for the proposal of a contract: see file_profile.py.
    Raise Refused if it cannot be read."""
    contract = msgspec.convert({"format": form}, DataContract)
    task = Task(canonical(contract), False, "", 0, MEMORY, SECONDS, form not in UNCONFINED, only_profiled=True)
    try:
        return _in_child(scratch, open_body, task, lambda _: None, lambda _: None).described or {}
    except Died as death:
        raise Refused(f"the reader of {form} {death.how}", hint="look at the file, or ask its publisher") from None


def _in_child(
    scratch: Callable[[], BinaryIO],
    open_body: Callable[[], BinaryIO],
    task: Task,
    accept: Callable[[bytes], None],
    hold: Callable[[bytes], None],
) -> Inspection:
    with scratch() as file:
        with open_body() as body:
            size = 0
            while piece := body.read(COPY):
                file.write(piece)
                size += len(piece)
        file.flush()
        given = _Given(file, size)
        try:
            seconds = task.seconds + size // PER_SECOND
            return _answer(given, msgspec.structs.replace(task, seconds=seconds), accept, hold)
        finally:
            given.close()


def in_memory(body: bytes) -> int:
    """Return a descriptor of these bytes in memory, at the first byte."""
    fd = os.memfd_create("kfm")
    left = memoryview(body)
    while left:
        left = left[os.write(fd, left) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class _Given:
    """An open descriptor of a file: the file's own, or a new one in memory for a file that has none."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        file.seek(0)
        self._own = -1
        try:
            self.fd = file.fileno()
            os.lseek(self.fd, 0, os.SEEK_SET)
        except OSError:  # the file has no descriptor
            self.fd = self._own = in_memory(file.read(size))

    def close(self) -> None:
        if self._own >= 0:
            os.close(self._own)


def _answer(given: _Given, task: Task, accept: Callable[[bytes], None], hold: Callable[[bytes], None]) -> Inspection:
    told = in_memory(msgspec.json.encode(task))  # too long for a command line, and other users could read it there
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "kfm.engine.isolation.sandbox_child", str(told)],
            stdin=given.fd,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": os.pathsep.join(libraries()), "PATH": os.defpath, **_SETTINGS},
            pass_fds=(told,),
        )
    finally:
        os.close(told)
    late = threading.Event()
    watch = threading.Timer(PATIENCE * task.seconds, _end, (child, late))
    watch.daemon = True
    watch.start()
    answer: Inspection | None = None
    try:
        with _stdout(child) as frames:
            while (frame := _frame(frames)) is not None:
                kind, body = frame
                if kind == b"a":
                    accept(body)
                elif kind == b"h":
                    hold(body)
                elif kind == b"r":
                    answer = msgspec.json.decode(body, type=Inspection)
                else:
                    raise _refusal(body)
        code = child.wait()
    except (_NoFrame, msgspec.MsgspecError):
        raise Died("crashed over it") from None
    finally:
        child.kill()  # no effect if it has ended
        child.wait()
        watch.cancel()
    if late.is_set():
        raise Died("took more time than it may")
    if code != 0 or answer is None:
        raise Died(_how(code))
    return answer


def _end(child: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    child.kill()


def _stdout(child: subprocess.Popen[bytes]) -> BinaryIO:
    assert child.stdout is not None
    return child.stdout  # type: ignore[return-value]


class _NoFrame(Exception):
    """Raised if the output of the child is not a frame; the rest of it is then ignored."""


def _frame(frames: BinaryIO) -> tuple[bytes, bytes] | None:
    """Return the next frame of the child's output; None if the output ends, also in the middle of a frame."""
    head = frames.read(9)
    if len(head) < 9:
        return None
    kind, size = head[:1], int.from_bytes(head[1:], "big")
    if kind not in (b"a", b"h", b"r", b"x") or size > (FRAME if kind in (b"a", b"h") else MOST_SAID):
        raise _NoFrame
    body = frames.read(size)
    return (kind, body) if len(body) == size else None


def _refusal(body: bytes) -> Exception:
    kind, message, hint = msgspec.json.decode(body, type=tuple[str, str, str])
    return (Unavailable if kind == "unavailable" else BadInput)(message, hint=hint)


def _how(code: int) -> str:
    if code == -signal.SIGXCPU or code == -signal.SIGKILL:
        return "took more time or memory than it may"
    if code < 0:
        return "crashed over it"
    return "took more memory than it may" if code == 3 else "ended before it had read it"


def _unreadable(source: str, form: str, how: str) -> Inspection:
    what = f"the reader of {form} {how}; the source is held"
    cause = Finding(source=source, rule=f"{form}.limits", message=what, row=0, column="", held=True)
    return nothing_found(cause)
