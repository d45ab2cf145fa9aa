"""A client follows the events of a server over lost connections, ends when it is told to, and reads frames."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import kfm
from kfm.api import application
from kfm.errors import BadInput, Denied, Refused, Unavailable
from tests.abilities import lacking
from tests.api.conftest import listed as listed
from tests.api.listed import Listed
from tests.client.test_remote import Liar, address, liar

__all__ = ["address", "liar", "listed"]


def run(listed: Listed, times: int) -> None:
    """Make an entry of the ledger each time."""
    with kfm.open(listed.folder) as installation:
        for _ in range(times):
            installation.run("rain-gauges")


def test_events_are_followed_over_connections_that_end(
    listed: Listed, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "LISTENING_S", 1)  # the server ends every connection after a second
    opened: list[str] = []
    client = kfm.Client(address, listed.tokens["ada"])
    real = client._server.opened

    def counted(path: str, *more: Any, **how: Any) -> Any:
        opened.append((how.get("headers") or {}).get("Last-Event-ID", "-"))
        return real(path, *more, **how)

    monkeypatch.setattr(type(client._server), "opened", lambda _self, *more, **how: counted(*more, **how))
    begun = client.me().ledger_entries
    found: list[Any] = []
    with client.events(pause_s=0) as events:
        threading.Timer(0.2, run, (listed, 2)).start()
        for event in events:
            if event.event == "entry":
                found.append(event)
            if len(found) == 2:
                run(listed, 1)  # nobody listens now: the next connection brings it
            if len(found) == 3:
                break
    assert [each.index for each in found] == [begun + 1, begun + 2, begun + 3] and events.last == begun + 3
    asked = [int(each) for each in opened if each != "-"]
    assert len(asked) >= 2 and asked[0] == begun and asked == sorted(asked)
    assert list(events) == [], "it is closed"


def test_a_loop_over_events_ends_when_another_thread_closes_it(listed: Listed, address: str) -> None:
    events = kfm.Client(address).events()
    ended: list[list[Any]] = []
    loop = threading.Thread(target=lambda: ended.append(list(events)))
    loop.start()
    while events._sock is None:
        loop.join(0.01)
    events.close()
    loop.join(20)
    assert not loop.is_alive() and ended == [[]]
    events.close()


def stream(*lines: str) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "text/event-stream"}, "\n".join(lines).encode() + b"\n\n"


EVENT = '{"event": "entry", "dataset": "d", "op": "ingest", "outcome": "done", "run_id": "", "index": 7, "more": 1}'


def test_a_server_that_fails_or_lies_about_events_is_an_error_of_the_tree(liar: tuple[type[Liar], str]) -> None:
    kind, address = liar
    client = kfm.Client(address)

    def told(**answers: tuple[int, dict[str, str], bytes]) -> Callable[[], Any]:
        def follow() -> Any:
            kind.answers = {path.replace("_", "/"): answer for path, answer in answers.items()}
            with client.events(pause_s=0) as events:
                return next(events)

        return follow

    event = told(_v1_events=stream("retry: 10", "", ": hello", "", "id: 7", "event: entry", f"data: {EVENT}"))()
    assert (event.event, event.index) == ("entry", 7), "a field of a newer server is left out"
    assert "/v1/events" in [path for path, _ in kind.seen]
    problems: list[tuple[type[Exception], tuple[int, dict[str, str], bytes]]] = [
        (Refused, stream("data: {")),
        (Refused, stream('data: {"event": 1}')),
        (Refused, (200, {}, b"data: " + b"x" * ((1 << 20) + 10))),
        (Denied, (401, {}, b"{}")),
        (BadInput, (404, {}, b"{}")),
        (Unavailable, (503, {"Retry-After": "5"}, b"{}")),
    ]
    for error, answer in problems:
        with pytest.raises(error):
            told(_v1_events=answer)()
    kind.seen.clear()
    kind.answers = {"/v1/events": stream("retry: 10")}
    dropped: list[int] = []

    def drop(_self: object, _block: bytes) -> None:
        dropped.append(1)
        kind.answers = {"/v1/events": (503, {}, b"{}")}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kfm.app.serving.remote.remote_events.RemoteEvents._event", drop)
        with pytest.raises(Unavailable), client.events(pause_s=0) as events:
            next(events)
    assert dropped and len([path for path, _ in kind.seen if path == "/v1/events"]) == 12, "the first, and eleven more"
    for wrong in ({"after": -1}, {"after": "1"}, {"after": True}, {"pause_s": -1}, {"pause_s": 1e9}):
        with pytest.raises(BadInput):
            client.events(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "library", ["polars", *(pytest.param(each, marks=pytest.mark.long) for each in ("pandas", "arrow"))]
)
def test_a_version_of_a_server_is_a_frame_as_that_of_the_installation(
    listed: Listed, address: str, library: str
) -> None:
    try:
        __import__("pyarrow" if library == "arrow" else library)
    except ImportError:
        lacking(f"{library} is not installed")
    there, here = kfm.Client(address).read("rain-gauges"), kfm.open(listed.folder).read("rain-gauges", ref="published")
    for how in ({}, {"text": True}):
        one, other = getattr(there, library)(**how), getattr(here, library)(**how)
        assert one.equals(other) and len(one) == 11
    columns = [type(each) for each in (one["rain_mm"].to_pylist() if library == "arrow" else one["rain_mm"])]
    assert set(columns) == {str}, "with `text` no column becomes numbers"


def test_a_frame_of_other_bytes_is_never_made(liar: tuple[type[Liar], str]) -> None:
    from kfm.errors import Corrupt

    kind, address = liar
    version = kfm.Client(address).read("rain-gauges")
    kind.answers = {"ford": (200, {}, b"gauge,county\na,b\n")}
    for read in (version.polars, version.rows):
        with pytest.raises(Corrupt):
            read()
    assert any("ford" in path for path, _ in kind.seen)
