"""A validator saves a download and decides nothing: what changed is seen within the revalidation interval,
what did not change never looks changed, whatever the server says about it."""

from __future__ import annotations

import gzip
from itertools import product
from typing import Any

import pytest

from kfm.errors import Unavailable
from kfm.model.records import Checkpoint, Fetched
from tests.sources.fetching import NOW, fetch_in_time, request_for
from tests.sources.hostile_server import Exchange, ScriptedServer
from tests.sources.memory_objects import MemoryObjects, digest_of

OLD, NEW = b"station,name\n1,Topeka\n", b"station,name\n1,Wichita\n"
INTERVAL = 86_400_000
LIES = ("none", "304 storm", "304 to a never-sent ETag", "Last-Modified backwards")
COMBINATIONS = list(
    product(("same", "changed"), ("same", "changed"), ("strong", "weak", "none"), ("identity", "gzip"), LIES)
)


class Liar:
    """Serves two versions of a file; what it says about them is up to the lie."""

    def __init__(self, etag: str, content: str, strength: str, coding: str, lie: str) -> None:
        self.version = 0
        self.coding = coding
        self.lie = lie
        self.bodies = (OLD, OLD if content == "same" else NEW)
        tags = ("a", "a" if etag == "same" else "b")
        suffix = "-gzip" if coding == "gzip" else ""
        mark = {"strong": '"{}"', "weak": 'W/"{}"', "none": ""}[strength]
        self.etags = tuple(mark.format(tag + suffix) for tag in tags)
        days = (5, 2) if lie == "Last-Modified backwards" else (5, 5 if etag == "same" else 6)
        self.dates = tuple(f"0{day} Jan 2026 00:00:00 GMT" for day in days)
        self.conditions: list[bool] = []
        self.answers: list[int] = []
        self.unasked = 1 if lie == "304 to a never-sent ETag" else 0

    def __call__(self, x: Exchange) -> None:
        tag, date = x.headers.get("if-none-match"), x.headers.get("if-modified-since")
        asked = tag is not None or date is not None
        self.conditions.append(asked)
        etag, modified = self.etags[self.version], self.dates[self.version]
        unchanged = tag == etag if tag is not None else date == modified
        if self.lie == "304 storm":
            unchanged = asked
        elif self.lie == "304 to a never-sent ETag" and self.version == 1:
            etag = '"never-sent"'
            unchanged = asked or self.unasked > 0
            self.unasked -= not asked
        elif self.lie == "Last-Modified backwards" and tag is None and date is not None:
            unchanged = modified <= date  # "not newer than what you have"
        self.answers.append(304 if unchanged else 200)
        lines = [f"ETag: {etag}"] if etag else []
        lines.append(f"Last-Modified: {modified}")
        if unchanged:
            x.answer("304 Not Modified", *lines)
            return
        body = self.bodies[self.version]
        if self.coding == "gzip":
            body = gzip.compress(body)
            lines.append("Content-Encoding: gzip")
        x.answer("200 OK", *lines, f"Content-Length: {len(body)}", body=body)


def test_there_are_96_combinations() -> None:
    assert len(set(COMBINATIONS)) == 96


@pytest.mark.parametrize(("etag", "content", "strength", "coding", "lie"), COMBINATIONS)
def test_the_content_hash_decides_whatever_the_validators_say(
    etag: str, content: str, strength: str, coding: str, lie: str
) -> None:
    liar = Liar(etag, content, strength, coding, lie)
    objects = MemoryObjects()
    with ScriptedServer(liar) as server:
        first = _fetched(server, objects, None, now_ms=NOW)
        assert first.ref.content_hash == digest_of(OLD)

        liar.version = 1
        current = digest_of(liar.bodies[1])
        polled = _fetched(server, objects, first.checkpoint, now_ms=NOW + 60_000)
        assert liar.conditions == [False, True]
        assert polled.not_modified is (liar.answers[1] == 304)
        if polled.not_modified:
            assert polled.ref.content_hash == digest_of(OLD)
            assert polled.checkpoint == _checked(first.checkpoint, NOW + 60_000)
            assert (polled.ref.etag, polled.ref.last_modified) == (first.ref.etag, first.ref.last_modified)
        else:
            assert polled.ref.content_hash == current
            assert polled.checkpoint.fetched_ms == NOW + 60_000
        if liar.lie == "none" and etag == "changed" and strength != "none":
            assert polled.ref.content_hash == current

        due = polled.checkpoint.fetched_ms + INTERVAL
        if lie == "304 to a never-sent ETag":
            refused = fetch_in_time(request_for(server, now_ms=due), objects, known=polled.checkpoint)
            assert isinstance(refused, Unavailable)
        whole = _fetched(server, objects, polled.checkpoint, now_ms=due)
        assert liar.conditions[2:] == [False] * len(liar.conditions[2:])
        assert not whole.not_modified
        assert whole.ref.content_hash == current
        assert objects.read(whole.ref.content_hash) == liar.bodies[1]
    # Nothing but the two versions was ever stored, and an unchanged one was stored once.
    assert set(objects.stored) == {digest_of(body) for body in liar.bodies}
    assert objects.open_stagings == 0


def _fetched(server: ScriptedServer, objects: MemoryObjects, known: Checkpoint | None, **fields: Any) -> Fetched:
    fields = {"revalidate_ms": INTERVAL} | fields
    outcome = fetch_in_time(request_for(server, **fields), objects, known=known)
    assert isinstance(outcome, Fetched), outcome
    return outcome


def _checked(checkpoint: Checkpoint, now_ms: int) -> Checkpoint:
    from msgspec.structs import replace

    return replace(checkpoint, checked_ms=now_ms)


def _known(server: ScriptedServer, objects: MemoryObjects, **fields: Any) -> Checkpoint:
    given: dict[str, Any] = {
        "uri": request_for(server).uri, "content_hash": objects.put(OLD), "size": len(OLD), "media_type": "text/csv",
        "etag": 'W/"a"', "last_modified": "Thu, 01 Jan 2026 00:00:00 GMT", "fetched_ms": NOW - 1, "checked_ms": NOW - 1,
    }  # fmt: skip
    return Checkpoint(**(given | fields))


def _honest(x: Exchange) -> None:
    if "if-none-match" in x.headers or "if-modified-since" in x.headers:
        x.answer("304 Not Modified")
    else:
        x.answer("200 OK", f"Content-Length: {len(OLD)}", body=OLD)


def test_a_304_gives_the_known_bytes_and_moves_only_the_time_of_the_check() -> None:
    objects = MemoryObjects()
    with ScriptedServer(_honest) as server:
        known = _known(server, objects)
        got = _fetched(server, objects, known, name="stations", partition=("KS",), complete=True)
    assert server.exchanges[0].headers["if-none-match"] == 'W/"a"'
    assert "if-modified-since" not in server.exchanges[0].headers
    assert got.not_modified
    assert (got.ref.content_hash, got.ref.size, got.ref.media_type) == (digest_of(OLD), len(OLD), "text/csv")
    assert (got.ref.name, got.ref.partition, got.ref.complete) == ("stations", ("KS",), True)
    assert got.checkpoint == _checked(known, NOW)


def test_a_304_with_a_body_is_a_304() -> None:
    objects = MemoryObjects()
    with ScriptedServer(
        lambda x: x.answer("304 Not Modified", f"Content-Length: {len(NEW)}", 'ETag: "b"', body=NEW)
    ) as server:
        known = _known(server, objects)
        got = _fetched(server, objects, known)
    assert server.fired
    assert got.not_modified
    assert got.checkpoint == _checked(known, NOW)
    assert objects.stored == {digest_of(OLD): OLD}


@pytest.mark.parametrize(
    "fields",
    [
        {"fetched_ms": NOW - INTERVAL},
        {"fetched_ms": NOW + 1},
        {"content_hash": digest_of(NEW)},
        {"uri": "http://other.example/"},
        {"etag": "", "last_modified": ""},
        {"etag": "*", "last_modified": ""},
        {"etag": '"a", "b"', "last_modified": ""},
        {"etag": "a, b", "last_modified": ""},
        {"etag": '"a"\r\nX: y', "last_modified": ""},
        {"etag": "", "last_modified": "today\r\nX: y"},
    ],
    ids=lambda f: ",".join(f"{k}={v!r}" for k, v in f.items()),
)
def test_without_the_bytes_a_recent_look_and_a_usable_validator_everything_is_fetched(fields: dict[str, Any]) -> None:
    objects = MemoryObjects()
    with ScriptedServer(_honest) as server:
        known = _known(server, objects, **fields)
        got = _fetched(server, objects, known)
    asked = server.exchanges[0].headers
    assert not {"if-none-match", "if-modified-since", "x"} & asked.keys()
    assert not got.not_modified
    assert got.checkpoint.fetched_ms == NOW


def test_other_bytes_are_expected_than_those_known_so_everything_is_fetched() -> None:
    objects = MemoryObjects()
    with ScriptedServer(_honest) as server:
        known = _known(server, objects, content_hash=objects.put(NEW))
        got = _fetched(server, objects, known, expect_hash=digest_of(OLD))
    assert not got.not_modified
    assert got.ref.content_hash == digest_of(OLD)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ('"a"', '"a"'), ('W/"a"', 'W/"a"'), ('""', '""'), ("bare-token", "bare-token"), ('"caf\xe9"', '"caf\xe9"'),
        ("*", ""), ('"a", "b"', ""), ("a,b", ""), ('"a', ""), ('a"b', ""), ("a b", ""), ('"' + "x" * 2000 + '"', ""),
    ],
)  # fmt: skip
def test_only_an_etag_that_can_mean_one_thing_is_kept_and_handed_back_as_it_came(sent: str, kept: str) -> None:
    objects = MemoryObjects()
    with ScriptedServer(
        lambda x: x.answer("200 OK", f"ETag: {sent}", f"Content-Length: {len(OLD)}", body=OLD)
    ) as server:
        got = _fetched(server, objects, None)
        assert got.checkpoint.etag == kept
        _fetched(server, objects, got.checkpoint)
    assert server.exchanges[1].headers.get("if-none-match", "") == kept


def test_an_etag_that_came_twice_is_none() -> None:
    with ScriptedServer(
        lambda x: x.answer("200 OK", 'ETag: "a"', 'ETag: "b"', f"Content-Length: {len(OLD)}", body=OLD)
    ) as server:
        assert _fetched(server, MemoryObjects(), None).checkpoint.etag == ""
