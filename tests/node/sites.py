"""One installation that either runner may run, or both in turn, and everything visible of it from outside."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kfm import config
from kfm.app.session.session import open_tables
from tests.engine.installations import Answer, Installation, environment, stamps
from tests.node.twin import ROOT, node
from tests.store.compared import TABLES

A_MOMENT = 1_767_000_000  # when every file was last changed, as far as anyone can tell


def declared(*names: str) -> str:
    """A configuration of datasets that either runner runs and anyone may publish: each is its source, `mm` by row."""
    return "accept_weak_storage: true\ndatasets:\n" + "".join(
        f"""
  {name}:
    version: "1.0.0"
    title: {name.title()}
    license: CC0-1.0
    sensitivity: public
    sources: {{{name}: {{uri: {name}.csv, format: csv, contract: {{columns: [{{name: mm, type: number}}]}}}}}}
    outputs: {{all: {{from: {name}}}}}
"""
        for name in names
    )


class Seen(NamedTuple):
    """After one command: what it said, and what there is now."""

    words: tuple[str, ...]
    answer: Answer
    artifacts: dict[str, bytes]
    files: dict[str, bytes]  # published ones, exported receipts and events
    rows: dict[str, dict[str, bytes]]


def command(runner: str, *words: str) -> list[str]:
    """What a person types, by either runner."""
    if runner == "node":
        return [node(), str(ROOT / "updater.mjs"), *words]
    return [sys.executable, "-m", "updater", *words]


def without_pages(text: str) -> str:
    """Leave out the catalog and the pages, which only Python writes, unless the settings name them."""
    more = [line for line in ('catalog: ""', "pages: false") if f"\n{line.partition(':')[0]}:" not in f"\n{text}"]
    return "\n".join([text.rstrip("\n"), *more, ""])


class Site:
    """A folder with a kfm.yml. `runner` says who does the n-th command; everything else is done by `kfm`."""

    def __init__(self, folder: Path, files: Mapping[str, str | bytes], runner: Callable[[int], str]) -> None:
        self.folder = folder
        self._runner = runner
        self._python = Installation(folder)
        self.seen: list[Seen] = []
        folder.mkdir(parents=True)
        for name, body in files.items():
            self.put(name, body)

    def put(self, name: str, body: str | bytes) -> None:
        """A file, with the same time whenever it is written."""
        path = self.folder / name
        if name == "kfm.yml" and isinstance(body, str):
            body = without_pages(body)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body.encode() if isinstance(body, str) else body)
        os.utime(path, (A_MOMENT, A_MOMENT))

    def ref(self, name: str) -> str:
        """The version it is at; empty if it is not there."""
        return {row["ref"]: str(row["version"]) for row in self.kfm("refs", "list", "--json").data}.get(name, "")

    def kfm(self, *words: str, code: int | None = 0, env: Mapping[str, str] | None = None) -> Answer:
        return self._python.kfm(*words, env=env, expect=code)

    def run(self, *words: str, code: int | None = 0, env: Mapping[str, str] | None = None) -> Seen:
        """One command by the runner whose turn it is."""
        runner = self._runner(len(self.seen))
        if "--dry-run" not in words:
            shutil.rmtree(self.folder / ".kfm/artifacts", ignore_errors=True)
        answer = self.node(*words, env=env) if runner == "node" else self.python(*words, env=env)
        assert code is None or answer.code == code, (runner, words, answer)
        self.seen.append(self.look(words, answer))
        return self.seen[-1]

    def node(self, *words: str, env: Mapping[str, str] | None = None) -> Answer:
        done = subprocess.run(
            command("node", *words),
            cwd=self.folder,
            env={**environment(), **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
        said = [part.decode("utf-8", "backslashreplace") for part in (done.stdout, done.stderr)]
        return Answer(done.returncode, *said)

    def python(self, *words: str, env: Mapping[str, str] | None = None) -> Answer:
        return self._python.kfm(*words, env=env, expect=None, program="updater")

    def dry(self, *words: str, code: int | None = 0) -> Seen:
        """The same, and nothing may have changed; what it predicts is written next to the installation."""
        before = stamps(self.folder)
        foretold = self.folder.parent / "foretold"
        shutil.rmtree(foretold, ignore_errors=True)
        seen = self.run(*words, "--dry-run", "--artifacts", str(foretold), code=code)
        assert stamps(self.folder) == before
        self.seen[-1] = seen = seen._replace(artifacts=contents(foretold))
        return seen

    def look(self, words: tuple[str, ...], answer: Answer) -> Seen:
        private = self.folder / ".kfm"
        files = {
            f"{name}/{path}": body
            for name in ("../public", "receipts", "events")
            for path, body in contents(private / name).items()
        }
        return Seen(words, answer, contents(private / "artifacts"), files, rows_of(self.folder))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def rows_of(folder: Path) -> dict[str, dict[str, bytes]]:
    """Every row of the state, but for who held a lease or ran, the number the disk gave to a file and when that last
    changed, and the tree over the ledger."""
    resolved = config.load(str(folder / "kfm.yml"), {})
    tables = open_tables(resolved, "read")
    try:
        found = {table: dict(tables.scan(table)) for table in TABLES}
    finally:
        tables.close()
    found["ledger_tree"] = {}  # the Node runner leaves it behind, and the next append by Python catches up
    for key, body in found["leases"].items():
        found["leases"][key] = json.dumps({**json.loads(body), "holder": ""}).encode()
    for key, body in found["telemetry"].items():
        told = json.loads(body)
        assert set(told.pop("tool_versions")) in ({"kfm", "python"}, {"kfm", "node"})
        found["telemetry"][key] = json.dumps(told).encode()
    for key, body in found["checkpoints"].items():
        if not key.startswith("http"):
            found["checkpoints"][key], masked = re.subn(rb'(-[0-9a-f]+){2}(\\"",)', rb"-\2", body)
            assert masked, body  # size, time of change of the content, of the inode, and the inode
    return found


def fold(rows: Mapping[str, bytes]) -> dict[str, bytes]:
    """What the journals say in the end, however it was shared among their segments."""
    found: dict[str, dict[str, Any]] = {}
    for key, body in rows.items():
        segment = json.loads(body)
        run = found.setdefault(key.partition("/")[0], {"done": [], "intent": set(), "failed": [], "payload": []})
        run["done"] += segment["done"]
        run["intent"] |= {at for begin, end in segment["intent"] for at in range(begin, end)}
        run["failed"] += segment["failed"]
        run["payload"] += [segment["payload"]] if segment["payload"] else []
    for run in found.values():
        run["done"].sort()
        run["intent"] = sorted(run["intent"])
    return {key: json.dumps(run).encode() for key, run in found.items()}


def differences(ours: list[Seen], theirs: list[Seen], *, folded: bool = False) -> Iterator[str]:
    """Everything in which two tellings of one story differ, in words that find it.

    `folded`: not which steps share a segment of a journal.
    """
    if len(ours) != len(theirs):
        yield f"{len(ours)} commands, and {len(theirs)}"
    for n, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        where = f"command {n} ({' '.join(a.words)})"
        yield from _differ(f"{where}: answer", a.answer._asdict(), b.answer._asdict())
        yield from _differ(f"{where}: artifact", a.artifacts, b.artifacts)
        yield from _differ(f"{where}: file", a.files, b.files)
        for table in TABLES:
            one, other = a.rows[table], b.rows[table]
            if folded and table == "segments":
                one, other = fold(one), fold(other)
            yield from _differ(f"{where}: {table}", one, other)


def _differ(where: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*a, *b}):
        if a.get(key) != b.get(key):
            yield f"{where} {key}:\n    {_shown(a.get(key), b.get(key))}\n    {_shown(b.get(key), a.get(key))}"


def _shown(value: Any, other: Any) -> str:
    """A window on the first place where it differs from the other."""
    text, against = repr(value), repr(other)
    at = next((i for i, (x, y) in enumerate(zip(text, against, strict=False)) if x != y), 0)
    return ("…" if at > 80 else "") + text[max(0, at - 80) : at + 160]


Story = Callable[[Site], None]


def tell(folder: Path, files: Mapping[str, str | bytes], story: Story, runner: Callable[[int], str]) -> list[Seen]:
    """Let a story happen in a folder of its own, under a name that is the same for every telling."""
    shutil.rmtree(folder, ignore_errors=True)
    site = Site(folder, files, runner)
    story(site)
    return site.seen
