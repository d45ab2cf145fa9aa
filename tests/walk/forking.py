"""Reads commands, a JSON document a line, and answers each with [exit code, stdout, stderr] of a child that ran it."""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import pkgutil
import selectors
import signal
import sys
from contextlib import suppress
from typing import Any

import kfm

LIBRARIES = (
    "apsw", "argparse", "cronsim", "cryptography.hazmat.primitives.asymmetric.ed25519", "csv", "ctypes", "difflib",
    "encodings.ascii", "http.client", "jsonschema_rs", "msgspec", "queue", "re2", "regorus", "shutil", "signal", "ssl",
    "tempfile", "zoneinfo",
)  # fmt: skip
WITH_THREADS = ("kfm.masking.kernel",)  # of numpy


def be(request: dict[str, Any], out: int, err: int) -> int:
    """The child: this is its whole life."""
    from kfm.cli.main import main

    signal.alarm(100)  # a child that hangs ends itself
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
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
    code = main(request["words"], door=request["door"])
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


def main() -> None:
    for name in (*LIBRARIES, *(found.name for found in pkgutil.walk_packages(kfm.__path__, "kfm."))):
        if not name.endswith("__main__") and name not in WITH_THREADS:
            with suppress(ImportError):  # of an extra, or of pytest
                importlib.import_module(name)
    assert not {"numpy", "polars", "pyarrow"} & set(sys.modules), "they begin threads, which no child would have"
    gc.freeze()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
