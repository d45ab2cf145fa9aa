"""What an honest server may expect of us, and what we make of its answers."""

from __future__ import annotations

import gzip
import random
import zlib
from typing import Any

import pytest

from kfm.errors import BadInput, Denied, Refused
from kfm.model.records import Checkpoint, Fetched, FetchRequest
from kfm.sources import content_encoding
from kfm.sources.http import HttpSource
from tests.sources.fetching import NOW, fetch_in_time, request_for
from tests.sources.hostile_server import Exchange, ScriptedServer
from tests.sources.memory_objects import MemoryObjects, digest_of

ROWS = b"station,name\n1,Topeka\n"
BIG = random.Random(7).randbytes(3 << 20) + b"tail"


def fetch(server: ScriptedServer, objects: MemoryObjects, known: Checkpoint | None = None, **fields: Any) -> Fetched:
    fields = {"max_bytes": 1 << 30} | fields
    return HttpSource().fetch(request_for(server, **fields), known, objects)


def serving(*headers: str, body: bytes) -> Any:
    return lambda x: x.answer("200 OK", *headers, body=body)


def in_chunks(body: bytes, size: int) -> bytes:
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x;ext=1\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\nX-Trailer: 1\r\n\r\n"


def test_a_body_with_a_length_is_stored_whole_and_everything_is_noted() -> None:
    objects = MemoryObjects()
    modified = "Thu, 01 Jan 2026 00:00:00 GMT"
    headers = ("Content-Length: 22", "Content-Type: text/csv", 'ETag: W/"a"', f"Last-Modified: {modified}")
    with ScriptedServer(serving(*headers, body=ROWS)) as server:
        got = fetch(server, objects, name="stations", partition=("KS",), complete=True)
    assert objects.stored == {digest_of(ROWS): ROWS}
    ref, checkpoint = got.ref, got.checkpoint
    assert ref.uri == f"http://{server.here}/data.csv?key=canary-secret"
    assert (ref.content_hash, ref.size) == (digest_of(ROWS), 22)
    assert (ref.name, ref.partition, ref.media_type, ref.complete) == ("stations", ("KS",), "text/csv", True)
    assert (ref.etag, ref.last_modified) == ('W/"a"', modified)
    assert (checkpoint.uri, checkpoint.content_hash, checkpoint.size) == (ref.uri, ref.content_hash, ref.size)
    assert (checkpoint.fetched_ms, checkpoint.checked_ms, checkpoint.etag) == (NOW, NOW, 'W/"a"')
    assert not got.not_modified
    assert got.bytes_on_wire > 22


@pytest.mark.parametrize("size", [1, 1000, 65536, 1 << 20, 5 << 20])
def test_a_chunked_body_is_put_together(size: int) -> None:
    body = BIG if size > 100 else BIG[:5000]
    objects = MemoryObjects()
    with ScriptedServer(serving("Transfer-Encoding: chunked", body=in_chunks(body, size))) as server:
        got = fetch(server, objects, complete=True)
    assert objects.stored == {digest_of(body): body}
    assert got.ref.complete


def test_bodies_reach_the_store_in_pieces_of_a_mebibyte() -> None:
    for script in (
        serving(f"Content-Length: {len(BIG)}", body=BIG),
        serving("Transfer-Encoding: chunked", body=in_chunks(BIG, 10_000)),
        serving("Content-Encoding: gzip", body=gzip.compress(BIG, mtime=0)),
    ):
        objects = MemoryObjects()
        with ScriptedServer(script) as server:
            fetch(server, objects)
        assert objects.stored == {digest_of(BIG): BIG}
        assert all(1 << 20 <= size < 3 << 20 for size in objects.chunk_sizes[:-1])
        assert len(objects.chunk_sizes) <= 4


def test_a_body_that_ends_with_the_connection_is_taken_but_never_sealed_nor_revalidated() -> None:
    objects = MemoryObjects()
    with ScriptedServer(serving('ETag: "a"', body=ROWS)) as server:
        got = fetch(server, objects, complete=True)
        assert not got.ref.complete
        assert (got.checkpoint.etag, got.checkpoint.last_modified) == ("", "")
        fetch(server, objects, got.checkpoint, now_ms=NOW + 1)
    assert "if-none-match" not in server.exchanges[1].headers


def _raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "packed", "body"),
    [
        ("gzip", gzip.compress(ROWS, mtime=0), ROWS),
        ("GZip", gzip.compress(BIG, mtime=0), BIG),
        ("x-gzip", gzip.compress(ROWS, mtime=0), ROWS),
        ("identity, gzip", gzip.compress(ROWS, mtime=0), ROWS),
        ("identity", ROWS, ROWS),
        ("gzip", gzip.compress(ROWS, mtime=0) + gzip.compress(BIG, mtime=0), ROWS + BIG),
        ("gzip", gzip.compress(b"", mtime=0) + gzip.compress(ROWS, mtime=0), ROWS),
        ("gzip", gzip.compress(gzip.compress(ROWS, mtime=0), mtime=0), gzip.compress(ROWS, mtime=0)),
        ("deflate", zlib.compress(BIG), BIG),
        ("deflate", _raw_deflate(BIG), BIG),
        ("gzip", gzip.compress(bytes(1 << 20), mtime=0), bytes(1 << 20)),
        ("deflate", _raw_deflate(bytes(1 << 20)), bytes(1 << 20)),
    ],
)
@pytest.mark.parametrize("step", [0, 1, 7])
def test_one_content_coding_is_undone(coding: str, packed: bytes, body: bytes, step: int) -> None:
    if step and len(packed) > 10_000:
        step *= 9_973
    framed = in_chunks(packed, step) if step else packed
    header = "Transfer-Encoding: chunked" if step else f"Content-Length: {len(packed)}"
    objects = MemoryObjects()
    with ScriptedServer(serving(header, f"Content-Encoding: {coding}", body=framed)) as server:
        got = fetch(server, objects, complete=True)
    if body[:2] == b"\x1f\x8b":  # its time stamp is its own: look inside
        assert gzip.decompress(objects.stored[got.ref.content_hash]) == ROWS
    else:
        assert objects.stored == {digest_of(body): body}
    assert got.ref.complete


@pytest.mark.parametrize("wbits", [-15, 15, 31])
def test_output_that_waits_inside_the_decompressor_is_not_lost(wbits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_encoding, "_PIECE", 16)
    coding = "gzip" if wbits == 31 else "deflate"
    for size in range(1, 400):
        for body in (bytes(size), BIG[:size], BIG[:3] * size):
            packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
            packed = packer.compress(body) + packer.flush()
            for cut in (len(packed), 1, 5):
                pieces = [packed[i : i + cut] for i in range(0, len(packed), cut)]
                assert b"".join(content_encoding.decode_content(pieces, coding, 2000, "a test")) == body


def test_interim_answers_are_passed_over() -> None:
    def script(x: Exchange) -> None:
        x.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        x.answer("200 OK", "Content-Length: 22", body=ROWS)

    objects = MemoryObjects()
    with ScriptedServer(script) as server:
        fetch(server, objects)
    assert objects.has(digest_of(ROWS))


def test_the_question_names_the_host_and_asks_for_what_is_expected() -> None:
    with ScriptedServer(serving("Content-Length: 22", body=ROWS)) as server:
        fetch(server, MemoryObjects(), media_type="text/csv", headers=(("X-Key", "k"), ("User-Agent", "me")))
    [asked] = server.exchanges
    assert asked.path == "/data.csv?key=canary-secret"
    assert asked.headers["host"] == server.here
    assert asked.headers["accept"] == "text/csv, */*;q=0.1"
    assert asked.headers["accept-encoding"] == "gzip, identity"
    assert asked.headers["connection"] == "close"
    assert (asked.headers["x-key"], asked.headers["user-agent"]) == ("k", "me")
    assert not {"if-none-match", "if-modified-since", "cookie", "authorization"} & asked.headers.keys()


@pytest.mark.parametrize(
    "header",
    [
        ("Host", "x"), ("content-length", "5"), ("Transfer-Encoding", "chunked"), ("If-None-Match", "*"),
        ("Range", "x"), ("Accept-Encoding", "br"), ("", "x"), ("a b", "x"), ("a:b", "x"), ("a\r\nb", "x"),
        ("\u212aey", "x"),
        ("x", "canary\r\nHost: y"), ("x", "canary\n"), ("x", "canary\0"), ("x", "canary→"),
    ],
)  # fmt: skip
def test_a_header_that_would_change_the_question_is_refused_without_being_shown(header: tuple[str, str]) -> None:
    with ScriptedServer(serving("Content-Length: 22", body=ROWS)) as server:
        with pytest.raises(BadInput) as caught:
            fetch(server, MemoryObjects(), headers=(header,))
    assert server.connections == 0
    assert "canary" not in str(caught.value)


def test_a_redirect_within_the_origin_keeps_the_headers_and_one_to_another_origin_does_not() -> None:
    secret = (("Authorization", "Bearer canary"),)
    with ScriptedServer(serving("Content-Length: 22", body=ROWS)) as other:

        def script(x: Exchange) -> None:
            if x.path.startswith("/data"):
                x.answer("301 Moved", "Location: /moved")
            else:
                x.answer("307 Moved", f"Location: http://{other.here}/there")

        objects = MemoryObjects()
        with ScriptedServer(script) as server:
            got = fetch(server, objects, headers=secret, allow=(server.here, other.here))
    assert [x.path for x in server.exchanges] == ["/data.csv?key=canary-secret", "/moved"]
    assert [x.headers.get("authorization") for x in server.exchanges] == ["Bearer canary"] * 2
    assert [x.path for x in other.exchanges] == ["/there"]
    assert "canary" not in str(other.exchanges[0].headers)
    assert got.ref.uri == f"http://{server.here}/data.csv?key=canary-secret"
    assert objects.has(got.ref.content_hash)


def test_a_redirect_to_a_host_that_is_not_listed_is_denied_before_anything_is_asked() -> None:
    with ScriptedServer(serving("Content-Length: 22", body=ROWS)) as other:
        there = f"Location: http://localhost:{other.port}/"
        with ScriptedServer(lambda x: x.answer("302 Found", there)) as server:
            outcome = fetch_in_time(request_for(server), MemoryObjects())
    assert server.fired
    assert isinstance(outcome, Denied)
    assert other.connections == 0


@pytest.mark.parametrize("hops", [5, 6])
def test_five_redirects_are_followed_and_not_six(hops: int) -> None:
    def script(x: Exchange) -> None:
        n = int(x.path[1:]) if x.path[1:].isdigit() else 0
        if n < hops:
            x.answer("308 Moved", f"Location: /{n + 1}", "Content-Length: 0")
        else:
            x.answer("200 OK", "Content-Length: 22", body=ROWS)

    objects = MemoryObjects()
    with ScriptedServer(script) as server:
        outcome = fetch_in_time(request_for(server), objects)
    assert server.connections == 6
    assert isinstance(outcome, Fetched if hops == 5 else Refused)
    assert objects.has(digest_of(ROWS)) is (hops == 5)


def test_the_expected_bytes_are_taken_and_nothing_may_be_expected_too() -> None:
    for body in (ROWS, b""):
        objects = MemoryObjects()
        with ScriptedServer(serving(f"Content-Length: {len(body)}", body=body)) as server:
            assert fetch(server, objects, expect_hash=digest_of(body)).ref.size == len(body)
    with pytest.raises(BadInput):
        HttpSource().fetch(FetchRequest(uri="http://example.org/", expect_hash="md5:1"), None, MemoryObjects())


@pytest.mark.parametrize(
    ("expected", "sent", "body", "taken"),
    [
        ("", "text/html", b"<!doctype html>", True),
        ("text/html", "text/html; charset=utf-8", b"<html>", True),
        ("text/csv", "text/plain", b"a,<html>\n", True),
        ("text/csv", "application/octet-stream", ROWS, True),
        ("application/xml", "application/xml", b"<html/>", True),
        ("text/csv", "TEXT/HTML;charset=x", ROWS, False),
        ("text/csv", "application/xhtml+xml", ROWS, False),
        ("application/json", "application/json", b"\n <HTML lang=en>", False),
    ],
)
def test_a_web_page_is_taken_only_where_one_may_be(expected: str, sent: str, body: bytes, taken: bool) -> None:
    objects = MemoryObjects()
    with ScriptedServer(serving(f"Content-Length: {len(body)}", f"Content-Type: {sent}", body=body)) as server:
        outcome = fetch_in_time(request_for(server, media_type=expected), objects)
    assert server.fired
    assert isinstance(outcome, Fetched if taken else Refused)
    assert bool(objects.stored) is taken
    if isinstance(outcome, Fetched):
        assert outcome.ref.media_type == (expected or sent)


def test_a_source_at_its_limit_is_taken_and_one_byte_more_is_refused() -> None:
    for limit, taken in ((22, True), (21, False)):
        for headers, body in ((("Content-Length: 22",), ROWS), (("Transfer-Encoding: chunked",), in_chunks(ROWS, 5))):
            objects = MemoryObjects()
            with ScriptedServer(serving(*headers, body=body)) as server:
                outcome = fetch_in_time(request_for(server, max_bytes=limit), objects)
            assert isinstance(outcome, Fetched if taken else Refused)
            assert bool(objects.stored) is taken


@pytest.mark.parametrize("url", ["http://canary:secret@example.org/", "ftp://example.org/", "http://a b/", "nonsense"])
def test_a_url_that_cannot_be_meant_is_bad_input(url: str) -> None:
    with pytest.raises(BadInput) as caught:
        HttpSource().fetch(FetchRequest(uri=url), None, MemoryObjects())
    assert "canary" not in str(caught.value)


def test_what_was_sent_beyond_the_answer_is_not_counted() -> None:
    totals = set()
    for more in (b"", b"x" * 100, b"x" * 100_000):

        def script(x: Exchange, more: bytes = more) -> None:
            if x.path == "/second":
                x.answer("200 OK", "Content-Length: 2", body=b"ok" + more)
            else:
                x.answer("302 Found", "Location: /second", body=more)

        with ScriptedServer(script) as server:
            outcome = fetch_in_time(request_for(server), MemoryObjects())
        assert isinstance(outcome, Fetched)
        totals.add(outcome.bytes_on_wire)
    first, second = "HTTP/1.1 302 Found\r\nLocation: /second\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    assert totals == {len(first) + len(second)}
