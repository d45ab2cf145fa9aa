"""The same calls to the store of either language: in this process, or in a Node process at the other end of a pipe."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from operator import attrgetter
from types import GeneratorType
from typing import Any, Protocol

import msgspec

from kfm.errors import KfmError
from kfm.model import records
from kfm.model.names import is_digest
from kfm.model.ports import Tables
from kfm.store.jsonl import JsonlTables
from kfm.store.memory import MemoryTables
from kfm.store.objects import FileObjects
from kfm.store.overlay import OverlayTables
from kfm.store.process_identity import this_process
from kfm.store.readers.archive import Archive
from kfm.store.snapshot import SnapshotTables
from kfm.store.sqlite import SqliteTables
from kfm.store.state import StoredState
from tests.node.twin import ROOT, node
from tests.store.compared import TABLES

# What a write is given is a record: of which kind.
KINDS: dict[str, type[msgspec.Struct]] = {
    "claim": records.Run, "save_run": records.Run, "segment": records.Segment, "move": records.RefMove,
    "version": records.DatasetVersion, "receipt": records.Receipt, "telemetry": records.RunTelemetry,
    "told": records.SinkPosition, "checkpoint": records.Checkpoint, "keep_trigger": records.Trigger,
    "finish_trigger": records.Trigger,
    "renew": records.Lease,
    "release": records.Lease,
}  # fmt: skip


# Those whose last argument is what Python is given by name.
WITH_OPTIONS = {"scan", "ledger", "move", "receipt"}

# What Node's state calls flatly, Python's has by noun.
ASKED = {
    "ref": "refs.at", "refs": "refs.all", "history": "refs.history", "histories": "refs.histories",
    "segments": "journal.segments", "plan_chunks": "journal.plan_chunks", "locked_plan": "journal.locked_plan",
    "receipt": "ledger.receipt", "receipt_body": "ledger.receipt_body", "telemetry": "ledger.telemetry",
    "ledger": "ledger.entries", "ledger_links": "ledger.links", "ledger_head": "ledger.head",
    "dataset_version": "ledger.version", "inbox": "inbox.waiting", "kept_trigger": "inbox.kept",
    "ended_trigger": "inbox.ended", "ended_triggers": "inbox.all_ended", "delivery": "inbox.delivery",
    "deliveries": "inbox.deliveries", "checkpoint": "inbox.checkpoint", "cursor": "outbox.cursor",
    "due": "outbox.due", "told": "outbox.told", "acknowledge": "outbox.acknowledge", "lease": "leases.of",
    "acquire": "leases.acquire", "release": "leases.release", "run": "runs.get", "open_runs": "runs.unfinished",
    "claimed": "runs.claimed",
}  # fmt: skip
# The same of a transaction.
WRITTEN = {
    "acquire": "leases.acquire", "renew": "leases.renew", "release": "leases.release", "claim": "runs.claim",
    "save_run": "runs.save", "segment": "journal.append", "archive": "journal.archive",
    "plan_chunk": "journal.plan_chunk", "lock_plan": "journal.lock_plan", "unlock_plan": "journal.unlock_plan",
    "move": "refs.move", "version": "ledger.keep_version", "receipt": "ledger.append",
    "next_index": "ledger.next_index", "telemetry": "ledger.keep_telemetry", "advance": "outbox.advance",
    "owe": "outbox.owe", "told": "outbox.keep_told", "keep_trigger": "inbox.keep", "finish_trigger": "inbox.finish",
    "take_delivery": "inbox.take_delivery", "forget_delivery": "inbox.forget_delivery",
    "checkpoint": "inbox.keep_checkpoint",
}  # fmt: skip


class Store(Protocol):
    def ask(self, word: str, *given: Any) -> Any: ...


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def told(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return {"b": base64.b64encode(value).decode()}
    if isinstance(value, msgspec.Struct):
        return told(msgspec.to_builtins(value))
    if isinstance(value, (GeneratorType, Iterator)):
        return [told(item) for item in value]
    if isinstance(value, (list, tuple)):
        return [told(item) for item in value]
    if isinstance(value, dict):
        return {key: told(item) for key, item in value.items()}
    return value


def plain(value: Any) -> Any:
    """Records as mappings, which is how both are given them; bytes stay."""
    if isinstance(value, msgspec.Struct):
        return plain(msgspec.to_builtins(value))
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def failure(problem: KfmError) -> dict[str, Any]:
    return {
        "error": {
            "code": problem.code,
            "message": problem.message,
            "hint": problem.hint,
            "fields": problem.fields,
            "exit": problem.exit_code,
        }
    }


def tables_of(kind: str, path: str) -> Tables:
    if kind == "memory":
        return MemoryTables()
    if kind == "sqlite":
        return SqliteTables(path)
    if kind == "jsonl":
        return JsonlTables(path)
    if kind == "overlay-sqlite":
        return OverlayTables(SnapshotTables(path))
    return OverlayTables(JsonlTables(path, create=False))


class Here:
    """Python's store. Options are the last argument of a question, as they are in the other language."""

    def __init__(self) -> None:
        self.state: dict[str, StoredState] = {}
        self.objects: dict[str, FileObjects] = {}
        self.archive: dict[str, Archive] = {}
        self.now_ms = 0

    def ask(self, word: str, *given: Any) -> Any:
        try:
            return {"ok": told(getattr(self, "_" + word)(*given))}
        except KfmError as problem:
            return failure(problem)

    def _open(self, name: str, kind: str, path: str) -> int:
        tables = tables_of(kind, path)
        state = self.state[name] = StoredState(tables, lambda: self.now_ms)
        objects = self.objects[name] = FileObjects(f"{path}.objects", state)
        self.archive[name] = Archive(state, objects)
        return getattr(tables, "repaired_bytes", 0)

    def _close(self, name: str) -> None:
        self.state.pop(name).close()

    def _now(self, ms: int) -> None:
        self.now_ms = ms

    def _tables(self, name: str, method: str, *given: Any) -> Any:
        return _call(getattr(self.state[name].tables, method), given)

    def _ask(self, name: str, method: str, *given: Any) -> Any:
        if method == "release":
            given = (msgspec.convert(given[0], records.Lease),)
        elif method == "kept_trigger":
            given = (msgspec.convert(given[0], records.Trigger),)
        return _call(attrgetter(ASKED.get(method, method))(self.state[name]), given, method)

    def _write(self, name: str, lease: Any, options: dict[str, Any], steps: list[Any], broken: bool) -> list[Any]:
        holder = None if lease is None else msgspec.convert(lease, records.Lease)
        with self.state[name].transaction(holder, **options) as tx:
            answers = []
            for method, values in steps:
                kind = KINDS.get(method)
                place = 1 if method == "segment" else 0
                given = list(values)
                if kind is not None:
                    given[place] = msgspec.convert(given[place], kind)
                if method == "receipt":
                    given[-1] = {**given[-1], "governed": _of_public_data(given[0])}
                answers.append(told(_call(attrgetter(WRITTEN.get(method, method))(tx), given, method)))
            if broken:
                raise KfmError("left on purpose")
            return answers

    def _stream(self, name: str, chunks: list[bytes]) -> list[Any]:
        digest, size = self.objects[name].put_stream(chunks)
        return [digest, size, self.objects[name].read(digest) == b"".join(chunks)]

    def _objects(self, name: str, method: str, *given: Any) -> Any:
        return _call(getattr(self.objects[name], method), given)

    def _everything(self, name: str, tables: tuple[str, ...]) -> dict[str, Any]:
        return {table: list(self.state[name].tables.scan(table)) for table in tables}

    def _self(self) -> str:
        return this_process()


def _of_public_data(receipt: records.Receipt) -> records.Governed:
    """Return the facts that Python's engine adds to the entry of a receipt, and Node's store itself."""
    lineage = [item.checksum for item in receipt.inputs if is_digest(item.checksum)]
    findings = [note.code for note in receipt.errors]
    return records.Governed(lineage=lineage, findings=findings, care="open", review="none", withheld=[])


def _call(method: Any, given: Any, name: str = "") -> Any:
    if (name or method.__name__) in WITH_OPTIONS and given and isinstance(given[-1], dict):
        return method(*given[:-1], **given[-1])
    return method(*given)


class There:
    """Node's store."""

    def __init__(self, *before: str) -> None:
        command = [*before, node(), str(ROOT / "node/tests/store_driver.mjs")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> There:
        return self

    def __exit__(self, *_exc: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=60)

    def say(self, word: str, *given: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(_as_there(word, given)).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            return None
        answer = json.loads(line)
        assert "bug" not in answer, answer["bug"]
        return answer

    def ask(self, word: str, *given: Any) -> Any:
        self.say(word, *given)
        answer = self.hear()
        assert answer is not None, "the process ended"
        return answer


def _as_there(word: str, given: tuple[Any, ...]) -> list[Any]:
    """Method names and the names of options as Node spells them; what is in a record keeps its own."""
    values = [told(value) for value in given]
    if word in ("tables", "ask", "objects"):
        values[1] = camel(values[1])
    if word == "write":
        for step in values[3]:
            if step[0] in WITH_OPTIONS:
                step[1][-1] = {camel(key): value for key, value in step[1][-1].items()}
            step[0] = camel(step[0])
    return [word, *values]


def dump(store: Store, name: str) -> dict[str, Any]:
    """Every row of every table that both write: the tree over the ledger is caught up from its rows."""
    found: dict[str, Any] = store.ask("everything", name, [table for table in TABLES if table != "ledger_tree"])
    return found
