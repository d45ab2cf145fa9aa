"""Installations in folders, and the `kfm` command in a child process, as a user types it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from examples.kansas.server import Shelf, serve

ROOT = Path(__file__).resolve().parents[2]
KANSAS = ROOT / "examples" / "kansas"
NOW = "2026-01-05T06:07:08Z"

# Forty steps in windows of eight; with DIE_HERE in the environment the process kills itself at the given one.
HALVES = """
import os
import signal

from kfm import Output, Plan, SourceRef, Step, Updater


class Halves(Updater):
    id = "halves"
    version = "1.0.0"

    def inputs(self, trigger, sources) -> list[SourceRef]:
        return [sources.pin("words")]

    def plan(self, inputs) -> Plan:
        return Plan(Step(id=f"part-{n:02d}", key=("part", f"{n:02d}"), params={"n": n}) for n in range(40))

    def perform(self, step, read) -> Output:
        if os.environ.get("DIE_HERE") == str(step.params["n"]):
            os.kill(os.getpid(), signal.SIGKILL)
        words = [row["word"] for row in read.csv("words")]
        return Output.text(words[step.params["n"] % len(words)] * 3000)
"""

GAUGES = """
from kfm import Output, Plan, SourceRef, Step, Updater


class Gauges(Updater):
    id = "gauges"
    version = "1.0.0"

    def inputs(self, trigger, sources) -> list[SourceRef]:
        return [sources.pin("gauges")]

    def plan(self, inputs) -> Plan:
        return Plan([Step(id=f"county-{c}", key=(c,), params={"county": c}) for c in inputs[0].partitions])

    def perform(self, step, read) -> Output:
        return Output.csv(row for row in read.csv("gauges") if row["county"] == step.params["county"])
"""

CONFIG = """\
kfm: 1
accept_weak_storage: true
state: {state}
network: {{allow: ["127.0.0.1:{port}"]}}
execute: {{window: 8}}
datasets:
  gauges:
    updater: updaters/gauges.py:Gauges
    title: Gauges
    license: CC0-1.0
    sensitivity: public
    sources:
      gauges:
        uri: data/gauges.csv
        format: csv
        contract:
          partition_by: county
          max_held_share: 1
          shrink_limit: 1
          columns: [{{name: county}}, {{name: rain_mm, type: number, minimum: 0, mode: discard-row}}]
  halves:
    updater: updaters/halves.py:Halves
    title: Halves
    license: CC0-1.0
    sensitivity: public
    sources:
      words: {{uri: "http://127.0.0.1:{port}/words.csv", format: csv, contract: {{columns: [{{name: id}}]}}}}
"""

GAUGES_CSV = "gauge,county,rain_mm\na,ford,1\nb,ellis,2\nc,riley,-3\nd,riley,4\n"
GAUGES_CSV += "".join(f"{name},ford,5\n" for name in "efghij")
WORDS_CSV = b"word\nprairie\nbluestem\ncottonwood\nmeadowlark\n"


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Installation:
    """A folder with a kfm.yml. Every command runs under a fixed clock and a plain environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def kfm(
        self, *words: str, env: Mapping[str, str] | None = None, expect: int | None = 0, program: str = "kfm"
    ) -> Answer:
        answer = warm().kfm(self.folder, words, {**environment(), **(env or {})}, program)
        assert expect is None or answer.code == expect, (words, answer)
        return answer


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "kfm.cli.main", *words]


def environment() -> dict[str, str]:
    """Nothing of KFM's own but the clock, the actor and the reason."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH") if name in os.environ}
    return {**kept, "KFM_NOW": NOW, "KFM_ACTOR": "tester", "KFM_REASON": "a test", "PYTHONDONTWRITEBYTECODE": "1"}


class Warm:
    """A process that has the program in memory and forks for every command: a child each, without the wait.

    `before` is a command that starts it, for example one that takes away its right to write.
    """

    def __init__(self, before: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [*before, sys.executable, "-m", "tests.engine.forking"],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def kfm(self, folder: Path, words: Sequence[str], env: Mapping[str, str], program: str = "kfm") -> Answer:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(
            json.dumps({"folder": str(folder), "words": words, "env": dict(env), "program": program}) + "\n"
        )
        process.stdin.flush()
        return Answer(*json.loads(process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate()


@cache
def warm() -> Warm:
    """The one of this process."""
    return Warm()


class Server:
    """The example's own HTTP server, with the method of every request kept."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.shelf = Shelf(files)
        self.methods: list[str] = []
        self._server = serve(self.shelf)
        self.port = int(self._server.server_address[1])
        handler: Any = self._server.RequestHandlerClass
        parse = handler.parse_request

        def parse_and_keep(request: Any) -> bool:
            understood = bool(parse(request))
            self.methods.append(request.command)
            return understood

        handler.parse_request = parse_and_keep

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Server]:
    server = Server(files)
    try:
        yield server
    finally:
        server.close()


def kansas_files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (KANSAS / "data").iterdir() if path.suffix != ".md"}


def kansas(folder: Path, port: int) -> Installation:
    """The example, as `make demo` lays it out."""
    shutil.copytree(KANSAS / "updaters", folder / "updaters", ignore=shutil.ignore_patterns("__pycache__"))
    text = (KANSAS / "kfm.yml").read_text().replace("127.0.0.1:8931", f"127.0.0.1:{port}")
    (folder / "kfm.yml").write_text("accept_weak_storage: true\n" + text)
    return Installation(folder)


def small(folder: Path, port: int, state: str = "sqlite:.kfm/state.db") -> Installation:
    """Two datasets: one from a file, one over HTTP."""
    for path, text in (
        ("kfm.yml", CONFIG.format(state=state, port=port)),
        ("updaters/gauges.py", GAUGES),
        ("updaters/halves.py", HALVES),
        ("data/gauges.csv", GAUGES_CSV),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return Installation(folder)


def stamps(folder: Path) -> dict[str, tuple[Any, ...]]:
    """All that can be told of a tree: content, mode, owner, times (but for when it was last read)."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        info = path.lstat()
        body = ""
        if stat.S_ISREG(info.st_mode):
            body = hashlib.sha256(path.read_bytes()).hexdigest()
        elif stat.S_ISLNK(info.st_mode):
            body = os.readlink(path)
        marks = tuple(os.listxattr(path, follow_symlinks=False)) if hasattr(os, "listxattr") else ()
        found[str(path.relative_to(folder))] = (
            info.st_ino, info.st_mode, info.st_nlink, info.st_uid, info.st_gid, info.st_size,
            info.st_mtime_ns, info.st_ctime_ns, body, marks,
        )  # fmt: skip
    return found


def contents(folder: Path) -> dict[str, str]:
    """The bytes below a folder, whatever their times."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
