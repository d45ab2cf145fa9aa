"""Servers on many loopback addresses that count their requests under way, and installations that read them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.engine.installations import Answer, warm

PATIENCE_S = 20.0
NOW = "2026-01-05T06:07:08Z"


class Hosts:
    """Answers on 127.0.0.1, 127.0.0.2 and so on, all on one port. An answer waits until `together` requests are under
    way or have been, and while its path is in `held`."""

    def __init__(self, count: int) -> None:
        self.bodies: dict[str, bytes] = {}
        self.statuses: dict[str, int] = {}
        self.held: set[str] = set()
        self.asked: list[tuple[str, str, int]] = []  # host, path, status
        self.together = 1
        self.most = 0  # requests under way at once
        self.most_of_host = 0
        self._under_way: Counter[str] = Counter()
        self.news = threading.Condition()
        self._sockets: list[socket.socket] = []
        first = self._listen("127.0.0.1", 0)
        self.port = int(first.getsockname()[1])
        for number in range(2, count + 1):
            self._listen(f"127.0.0.{number}", self.port)

    def _listen(self, host: str, port: int) -> socket.socket:
        listening = socket.create_server((host, port), backlog=64)
        self._sockets.append(listening)
        threading.Thread(target=self._accept, args=(listening, host), daemon=True).start()
        return listening

    def _accept(self, listening: socket.socket, host: str) -> None:
        with suppress(OSError):
            while True:
                taken, _ = listening.accept()
                threading.Thread(target=self._answer, args=(taken, host), daemon=True).start()

    def _answer(self, taken: socket.socket, host: str) -> None:
        with taken, suppress(OSError):
            question = b""
            while b"\r\n\r\n" not in question and (more := taken.recv(65536)):
                question += more
            path = question.split(b" ")[1].decode()
            with self.news:
                self._under_way[host] += 1
                self.most = max(self.most, self._under_way.total())
                self.most_of_host = max(self.most_of_host, self._under_way[host])
                self.news.notify_all()
                self.news.wait_for(lambda: self.most >= self.together and path not in self.held, PATIENCE_S)
            time.sleep(0.1 if self.together > 1 else 0)  # one request too many would come now
            tag = f'"{hash(self.bodies.get(path, b""))}"'
            status = 304 if tag.encode() in question else self.statuses.get(path, 200 if path in self.bodies else 404)
            body = self.bodies[path] if status == 200 else b""
            with self.news:
                self._under_way[host] -= 1
                self.asked.append((host, path, status))
                self.news.notify_all()
            head = (
                f"HTTP/1.1 {status} X\r\nContent-Type: text/csv\r\nContent-Length: {len(body)}\r\nETag: {tag}\r\n\r\n"
            )
            taken.sendall(head.encode() + body)

    def release(self) -> None:
        with self.news:
            self.held.clear()
            self.news.notify_all()

    def wait_until(self, under_way: int) -> None:
        """Wait until so many requests are under way."""
        with self.news:
            assert self.news.wait_for(lambda: self._under_way.total() >= under_way, PATIENCE_S)

    def close(self) -> None:
        self.release()
        for each in self._sockets:
            each.close()


@contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    found = Hosts(count)
    try:
        yield found
    finally:
        found.close()


def rows(first: int, count: int = 5) -> bytes:
    return ("id,value\n" + "".join(f"{n},{n * first}\n" for n in range(count))).encode()


def dataset(name: str, uri: str, *more: str) -> str:
    """The declaration of a public dataset with one source."""
    lines = [
        f"  {name}:", f"    title: The numbers of {name}", "    version: '1.0.0'", "    license: CC0-1.0",
        "    sensitivity: public", "    attribution: the test", *(f"    {line}" for line in more),
        f"    sources: {{s: {{uri: '{uri}', format: csv, contract: {{columns: [{{name: id}}, {{name: value}}]}}}}}}",
        "    outputs: {all: {from: s}}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def reading(name: str, other: str) -> str:
    """The declaration of a dataset that reads another one."""
    return dataset(name, "x").replace("uri: 'x'", f"dataset: {other}")


def installation(folder: Path, server: Hosts, datasets: str, *more: str, per_host: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    allow = ", ".join(f"'127.0.0.{n}:{server.port}'" for n in range(1, 41))
    head = "\n".join(["kfm: 1", *more, f"network: {{allow: [{allow}]{per_host}}}", "datasets:\n"])
    (folder / "kfm.yml").write_text(head + datasets)
    return folder


def environment(**more: str) -> dict[str, str]:
    said = {"KFM_ACCEPT_WEAK_STORAGE": "true", "KFM_ACTOR": "tester", "KFM_REASON": "test", **more}
    return {**{key: value for key, value in os.environ.items() if not key.startswith("KFM_")}, **said}


def kfm(site: Path, *arguments: str, **env: str) -> Answer:
    answer = warm().kfm(site, arguments, environment(**env))
    assert "Traceback" not in answer.err, answer.err
    return answer


def begun(site: Path, *arguments: str, **env: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kfm", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=site, env=environment(**env), text=True, **pipes)  # type: ignore[call-overload,no-any-return]
