"""One fetch in each language from the same scripted server, and both results in the same form."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from types import TracebackType
from typing import Any

import msgspec

from kfm.errors import KfmError
from kfm.model.records import Checkpoint, Fetched, FetchRequest
from tests.node.twin import ROOT, node

SLACK_S = 10.0


class NodeSources:
    """A Node process that fetches what it is told to; several fetches may be under way at once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [node(), str(ROOT / "node/tests/source_driver.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._asked = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> NodeSources:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            self._answers[told["id"]].put(told)

    def fetch(self, request: FetchRequest, known: Checkpoint | None = None, **more: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        with self._lock:
            self._asked += 1
            number = self._asked
            self._answers[number] = queue.Queue()
            asked = {
                "id": number,
                "request": msgspec.to_builtins(request),
                "known": msgspec.to_builtins(known),
                **more,
            }
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()
        answer = self._answers[number].get(timeout=request.total_ms / 1000 + SLACK_S)
        del self._answers[number]
        assert "bug" not in answer, answer["bug"]
        return answer


def told(outcome: Fetched | BaseException, here: str) -> dict[str, Any]:
    """What Python made of a fetch, as the driver tells it, with the server's port made the same for all."""
    if isinstance(outcome, Fetched):
        answer: dict[str, Any] = {"fetched": msgspec.to_builtins(outcome)}
    elif isinstance(outcome, KfmError):
        answer = {
            "error": {
                "kind": type(outcome).__name__,
                "message": outcome.message,
                "hint": outcome.hint,
                "fields": outcome.fields,
                "code": outcome.code,
            }
        }
    else:
        raise outcome
    return nowhere(answer, here)


def nowhere(answer: dict[str, Any], here: str) -> dict[str, Any]:
    """The answer without the port of the server that gave it."""
    kept = {name: answer[name] for name in ("fetched", "error") if name in answer}
    port = here.rpartition(":")[2]
    changed: dict[str, Any] = json.loads(json.dumps(kept).replace(f":{port}", ":PORT"))
    return changed


def parser() -> int:
    """The major version of Node's own parser of HTTP."""
    told = subprocess.run([node(), "-p", "process.versions.llhttp"], capture_output=True, check=True, timeout=60)
    return int(told.stdout.split(b".")[0])


def unworded(answer: dict[str, Any]) -> dict[str, Any]:
    """Without the sentence, which is each language's own."""
    error = {name: value for name, value in answer.get("error", {}).items() if name not in ("message", "hint")}
    return {**answer, "error": error}


def alike(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """The same source, or an error of the same kind, but for the order of two errors in one answer.

    Node's parser refuses a malformed line at its first wrong byte; Python waits for the line's end, and says that the
    answer did not come if that does not. Of a coded body in chunks either may see first that the body was cut.
    """
    if "error" in ours and "error" in theirs:
        said = ours["error"]["message"] + theirs["error"]["message"]
        if "before its answer" in said or ("is not valid gzip" in said and "before the end of the body" in said):
            return {ours["error"]["kind"], theirs["error"]["kind"]} <= {"Refused", "Unavailable"}
    return unworded(theirs) == unworded(ours)
