"""Reads commands, a JSON document a line, and answers each with [exit code, stdout, stderr] of a child that ran it."""

from __future__ import annotations

import importlib
import io
import json
import os
import selectors
import signal
import sys
from typing import Any

PRELOADED = (
    "apsw", "argparse", "csv", "http.client", "ssl", "msgspec", "signal",
    "kfm.cli.main", "kfm.cli.parser", "kfm.cli.running", "kfm.cli.moving", "kfm.cli.reading", "kfm.cli.keeping",
    "kfm.cli.settings", "kfm.cli.starter", "kfm.house.opening", "kfm.inspection.inspecting", "kfm.engine.preview",
    "kfm.operations.moves", "kfm.projections.artifacts", "kfm.projections.wal", "kfm.publish.files",
    "kfm.publish.noop", "kfm.sources.files", "kfm.sources.http", "kfm.store.jsonl", "kfm.store.overlay",
    "kfm.store.snapshot", "kfm.store.sqlite", "kfm.telemetry.log",
)  # fmt: skip


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
    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
