"""The other language as a service: one Node process, a line of JSON each way."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from kfm.errors import KfmError

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 500


@lru_cache(maxsize=1)
def node() -> str:
    """The path of Node 20 or newer, with what it needs installed. Absent: a skip, and in CI a failure."""
    found = shutil.which("node")
    lacking = "there is no node on the PATH" if found is None else ""
    if found is not None:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
        if int(said.strip().removeprefix("v").partition(".")[0]) < 20:
            lacking = f"node is {said.strip()}, older than 20"
        elif not (ROOT / "node/node_modules/better-sqlite3").is_dir():
            lacking = "node/node_modules is not installed (make installs it)"
    if lacking:
        return pytest.fail(lacking) if os.environ.get("CI") else pytest.skip(lacking)
    assert found is not None
    return found


class Twin:
    """Asks Node. An answer is {"ok": …} or {"error": text, "code": …, "fields": …}."""

    def __init__(self, answers: str = "./answers.mjs") -> None:
        self._process = subprocess.Popen(
            [node(), str(ROOT / "node/tests/twin.mjs"), answers], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Twin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=60)

    def ask(self, what: str, *arguments: Any) -> Any:
        return self.ask_all([(what, *arguments)])[0]

    def ask_all(self, questions: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Many questions at once: written while the answers are read, so that neither side waits for the other."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        body = "".join(json.dumps(question) + "\n" for question in questions).encode()
        writer = threading.Thread(target=self._write, args=(body,))
        writer.start()
        answers = [self._process.stdout.readline() for _ in questions]
        writer.join()
        found = [json.loads(answer) if answer else {"bug": "the process ended"} for answer in answers]
        for question, answer in zip(questions, found, strict=True):
            assert "bug" not in answer, f"{question!r}: {answer['bug']}"
        return found

    def _write(self, body: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(body)
        self._process.stdin.flush()


_PLACE = re.compile(r"\S+:\d+:\d+(?=: )")


def essence(answer: dict[str, Any]) -> dict[str, Any]:
    """What both languages must agree in. Of a refusal that is its code, its fields and its place: the sentence is
    each language's own.
    """
    if "error" not in answer:
        return answer
    place = _PLACE.match(answer["error"])
    return {"code": answer["code"], "fields": answer["fields"], "place": place and place.group()}


def refusal(problem: KfmError) -> dict[str, Any]:
    return essence({"error": str(problem), "code": problem.code, "fields": problem.fields})


def encoded(body: bytes) -> str:
    """Bytes on their way through JSON."""
    return base64.b64encode(body).decode()


def batches(items: Iterable[Any], size: int = AT_ONCE) -> Iterable[list[Any]]:
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
