"""Reads commands, a JSON document a line, and answers each with [exit code, stdout, stderr] of a child that ran it.

Or listens at a socket, the one word it is given, for commands that are typed elsewhere: tests/project/quickly.py.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import pkgutil
import selectors
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import kfm

LIBRARIES = (
    "apsw", "argparse", "cronsim", "cryptography.hazmat.primitives.asymmetric.ed25519", "csv", "ctypes", "difflib",
    "encodings.ascii", "http.client", "jsonschema_rs", "msgspec", "queue", "re2", "regorus", "shutil", "signal", "ssl",
    "tempfile", "zoneinfo",
)  # fmt: skip
WITH_THREADS = ("kfm.masking.cells_numpy",)  # of numpy


def be(request: dict[str, Any], out: int, err: int, given: int | None = None) -> int:
    """The child: this is its whole life."""
    from kfm.cli.main import main

    signal.alarm(100)  # a child that hangs ends itself
    os.dup2(os.open(os.devnull, os.O_RDONLY) if given is None else given, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["folder"])
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False))),
        io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding="utf-8"),
        io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w", closefd=False)), encoding="utf-8", line_buffering=True),
    )
    code = main(request["words"], program=request["program"])
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def answer(request: dict[str, Any]) -> list[Any]:
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        code = 70
        try:
            code = be(request, to_out, to_err)
        except BaseException:
            import traceback

            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(to_out)
    os.close(to_err)
    said = {out: b"", err: b""}
    with selectors.DefaultSelector() as waiting:
        for fd in said:
            waiting.register(fd, selectors.EVENT_READ)
        while waiting.get_map():
            for key, _ in waiting.select():
                chunk = os.read(key.fd, 1 << 16)
                said[key.fd] += chunk
                if not chunk:
                    waiting.unregister(key.fd)
                    os.close(key.fd)
    _, status = os.waitpid(pid, 0)
    texts = [body.decode("utf-8", "backslashreplace") for body in said.values()]
    return [os.waitstatus_to_exitcode(status), *texts]


def listen(address: str) -> None:
    """For each command that is typed a child that waits for it: several may run at once."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(address)
        door.listen()
        print("listening", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            asked, _ = door.accept()
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                door.close()
                attend(asked)
                os._exit(0)
            asked.close()


def attend(asked: socket.socket) -> None:
    body, (given, out, err), _, _ = socket.recv_fds(asked, 1 << 20, 3)
    folder, number, *rest = body.decode("utf-8", "surrogateescape").split("\0")
    words, names = rest[: int(number)], rest[int(number) :]
    env = {name: value for name, _, value in (line.partition("=") for line in names)}
    pid = os.fork()
    if not pid:
        code = 70
        try:
            asked.close()
            code = be({"folder": folder, "words": words, "env": env, "program": "kfm"}, out, err, given)
        finally:
            os._exit(code)
    for file in (given, out, err):  # or who reads them would wait for us too
        os.close(file)
    asked.send(b"%d" % pid)
    ended = os.pidfd_open(pid)
    with selectors.DefaultSelector() as waiting:
        waiting.register(ended, selectors.EVENT_READ)
        waiting.register(asked, selectors.EVENT_READ)
        if ended not in {key.fd for key, _ in waiting.select()}:  # whoever typed it is gone
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        asked.send(b"%d" % os.waitstatus_to_exitcode(status))


def main() -> None:
    for name in (*LIBRARIES, *(found.name for found in pkgutil.walk_packages(kfm.__path__, "kfm."))):
        if not name.endswith("__main__") and name not in WITH_THREADS:
            with suppress(ImportError):  # of an extra, or of pytest
                importlib.import_module(name)
    assert not {"numpy", "polars", "pyarrow"} & set(sys.modules), "they begin threads, which no child would have"
    gc.freeze()
    if len(sys.argv) > 1:
        listen(sys.argv[1])
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
