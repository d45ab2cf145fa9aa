"""Events of OpenLineage: each once in the file whatever died, and to a server as long as it takes them."""

from __future__ import annotations

import http.server
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfm.errors import Denied, Refused, StorageFailed, Unavailable
from kfm.fsio import REAL, Fs
from kfm.model.outbox_messages import Letter
from kfm.model.public_run import PublicRun
from kfm.projections import openlineage
from kfm.sinks.http_transport import HttpTransport
from kfm.sinks.openlineage_events import FileSink, HttpSink
from tests.policy.servers import pretending, saying
from tests.sinks.graph.crowd import crowd

KEY = "canary-of-a-key"


def letters(runs: list[PublicRun]) -> list[Letter]:
    return [
        Letter(index=run.index, run_id=run.run_id, dataset=run.dataset, key=run.run_id, body=openlineage.events(run))
        for run in runs
    ]


def some_runs(count: int) -> list[PublicRun]:
    return crowd(count, 7)


def told(path: Path) -> list[tuple[str, str]]:
    body = path.read_bytes()
    assert body.endswith(b"\n") or not body
    return [(event["run"]["runId"], event["eventType"]) for event in map(json.loads, body.splitlines())]


def expected(runs: list[PublicRun]) -> list[tuple[str, str]]:
    return [(run.run_id, kind) for run in runs for kind in ("START", "COMPLETE")]


class Died(BaseException):
    pass


class Dying(Fs):
    """Dies at the n-th call that changes or syncs something; of what is written there, so many bytes stay."""

    def __init__(self, at: int, keeps: float) -> None:
        self.at, self.keeps, self.calls = at, keeps, 0

    def _here(self) -> bool:
        self.calls += 1
        return self.calls == self.at

    def write_at(self, fd: int, body: bytes, offset: int) -> None:
        if self._here():
            REAL.write_at(fd, body[: int(len(body) * self.keeps)], offset)
            raise Died
        REAL.write_at(fd, body, offset)

    def sync(self, fd: int) -> None:
        if self._here():
            raise Died
        REAL.sync(fd)

    def create(self, path: str, mode: int = 0o600) -> int:
        if self._here():
            raise Died
        return REAL.create(path, mode)

    def truncate(self, fd: int, size: int) -> None:
        if self._here():
            raise Died
        REAL.truncate(fd, size)


def test_each_event_is_in_the_file_once_wherever_it_died(tmp_path: Path) -> None:
    runs = some_runs(6)
    deaths = 0
    for keeps in (0.0, 0.3, 0.5, 0.97, 1.0):
        for at in range(1, 60):
            path = tmp_path / f"{keeps}-{at}" / "events.ndjson"
            FileSink(str(path)).send(letters(runs[:2]))
            dying = Dying(at, keeps)
            try:
                FileSink(str(path), dying).send(letters(runs[2:5]))
            except Died:
                deaths += 1
                # The second death: of the one that mends.
                try:
                    FileSink(str(path), Dying(2, keeps)).send(letters(runs[2:5]))
                except Died:
                    deaths += 1
            FileSink(str(path)).send(letters(runs[2:]))
            assert told(path) == expected(runs), (keeps, at)
            if dying.calls < at:
                break
        else:
            raise AssertionError("it never came through")
    assert deaths > 50


def test_what_comes_again_or_late_is_there_once(tmp_path: Path) -> None:
    runs, path = some_runs(40), tmp_path / "events.ndjson"
    FileSink(str(path)).send(letters(runs[10:20]))
    FileSink(str(path)).send(letters(runs[5:25]))
    FileSink(str(path)).send(letters(runs))
    assert sorted(told(path)) == sorted(expected(runs))
    assert oct(path.stat().st_mode & 0o777) == "0o644"


def test_a_removed_file_is_written_from_the_start(tmp_path: Path) -> None:
    runs, path = some_runs(6), tmp_path / "events.ndjson"
    FileSink(str(path)).send(letters(runs[:4]))
    path.rename(tmp_path / "taken.ndjson")
    FileSink(str(path)).send(letters(runs))
    assert told(tmp_path / "taken.ndjson") == expected(runs[:4]) and told(path) == expected(runs[4:])


def test_an_index_that_is_lost_is_made_again(tmp_path: Path) -> None:
    runs, path = some_runs(6), tmp_path / "events.ndjson"
    FileSink(str(path)).send(letters(runs[:4]))
    Path(f"{path}.index").unlink()
    FileSink(str(path)).send(letters(runs))
    assert told(path) == expected(runs)


def test_a_disk_error_is_reported(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").mkdir()
    with pytest.raises(StorageFailed, match="cannot write the events of OpenLineage"):
        FileSink(str(tmp_path / "events.ndjson")).send(letters(some_runs(1)))
    os.symlink("/dev/null", tmp_path / "link")
    with pytest.raises(StorageFailed):
        FileSink(str(tmp_path / "link")).send(letters(some_runs(1)))


# -- a server


def sink_at(url: str, key: str = KEY, seconds: float = 10) -> HttpSink:
    return HttpSink(lambda: f"{url}/api/v1/lineage", lambda: key, HttpTransport(seconds))


def test_a_server_gets_every_event_with_the_key(tmp_path: Path) -> None:
    heard: list[tuple[str, str | None, Any]] = []

    def answer(handler: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
        heard.append((handler.path, handler.headers["Authorization"], json.loads(body)))
        saying(b"", 201)(handler, body)

    runs = some_runs(3)
    with pretending(answer) as url:
        sink_at(url).send(letters(runs))
        sink_at(url, key="").send(letters(runs[:1]))
    assert [(path, key) for path, key, _ in heard[:6]] == [("/api/v1/lineage", f"Bearer {KEY}")] * 6
    assert [(event["run"]["runId"], event["eventType"]) for _, _, event in heard] == expected(runs + runs[:1])
    assert heard[-1][1] is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (500, Unavailable),
        (503, Unavailable),
        (429, Unavailable),
        (408, Unavailable),
        (400, Refused),
        (413, Refused),
        (422, Refused),
        (401, Denied),
        (403, Denied),
        (404, Denied),
        (302, Denied),
    ],
)
def test_what_a_server_answers_says_what_becomes_of_a_run(status: int, kind: type[Exception]) -> None:
    def answer(handler: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Location", "http://127.0.0.1:1/canary")
        handler.send_header("Retry-After", "7")
        handler.send_header("Content-Length", "6")
        handler.end_headers()
        handler.wfile.write(b"canary")

    with pretending(answer) as url, pytest.raises(kind) as problem:
        sink_at(url).send(letters(some_runs(1)))
    assert str(status) in str(problem.value) and "canary" not in str(problem.value)
    if status == 429:
        assert getattr(problem.value, "fields")["retry_after_s"] == 7  # noqa: B009


def hangs(handler: http.server.BaseHTTPRequestHandler, _body: bytes) -> None:
    handler.rfile.read(1)


def hangs_up(handler: http.server.BaseHTTPRequestHandler, _body: bytes) -> None:
    handler.wfile.write(b"HTTP/1.1 20")
    handler.close_connection = True


def speaks_nonsense(handler: http.server.BaseHTTPRequestHandler, _body: bytes) -> None:
    handler.wfile.write(bytes(range(256)))
    handler.close_connection = True


@pytest.mark.parametrize("liar", [hangs, hangs_up, speaks_nonsense], ids=lambda liar: str(liar.__name__))
def test_a_server_that_lies_is_one_that_does_not_answer(
    liar: Callable[[http.server.BaseHTTPRequestHandler, bytes], None],
) -> None:
    with pretending(liar) as url, pytest.raises(Unavailable) as problem:
        sink_at(url, seconds=0.3).send(letters(some_runs(1)))
    assert "canary" not in str(problem.value)
