"""Whatever a server, a name server or a file system does, Node ends as Python does: the same kind of error, the same
words, the same checkpoint, and nothing left behind."""

from __future__ import annotations

import gzip
import os
import random
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kfm.model.records import Checkpoint, Fetched, FetchRequest
from kfm.sources.http import HttpSource
from kfm.sources.local_files import FileSource
from tests.node.fetching import NodeSources, alike, nowhere, parser, told
from tests.sampling import sampled, tries
from tests.sources import test_tls as secured
from tests.sources.fetching import NOW, fetch_in_time, request_for
from tests.sources.hostile_server import BEHAVIOURS, SILENT, TRICKLING, Behaviour, Exchange, Script, ScriptedServer
from tests.sources.memory_objects import MemoryObjects, digest_of
from tests.sources.test_generated_answers import Replayer, _mutated
from tests.sources.test_hostile_http import INTERNAL
from tests.sources.test_validator_lies import COMBINATIONS, INTERVAL, Liar

ROWS = b"station,name\n1,Topeka\n"
BIG = random.Random(7).randbytes(3 << 20) + b"tail"


@pytest.fixture(scope="module")
def there() -> Iterator[NodeSources]:
    with NodeSources() as sources:
        yield sources


def both(there: NodeSources, script: Callable[[], Script], **fields: Any) -> tuple[dict[str, Any], list[Any]]:
    """The same question asked of a server by each; what came of it, and what the server was asked."""
    answers, asked = [], []
    with ScriptedServer(script()) as server:
        answers.append(told(fetch_in_time(request_for(server, **fields), MemoryObjects()), server.here))
        asked.append([(x.path, x.headers | {"host": ""}) for x in server.exchanges])
    with ScriptedServer(script()) as server:
        answer = there.fetch(request_for(server, **fields), forget=True)
        answers.append(nowhere(answer, server.here))
        asked.append([(x.path, x.headers | {"host": ""}) for x in server.exchanges])
    assert answers[0] == answers[1]
    assert asked[0] == asked[1]
    assert answer["open"] == 0
    return answers[0], asked[0]


@pytest.mark.parametrize("behaviour", sampled(BEHAVIOURS, every=3), ids=lambda b: b.name)
def test_a_hostile_answer_ends_as_in_python(there: NodeSources, behaviour: Behaviour) -> None:
    if behaviour.name == "chunk_one_byte_longer_than_it_says" and parser() < 9:
        pytest.skip("the parser of Node before 20.19.2 takes any byte for the carriage return behind a chunk")
    with ScriptedServer(behaviour.script) as one, ScriptedServer(behaviour.script) as server:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(there.fetch, request_for(server, **behaviour.limits), session=behaviour.name)
            ours = told(fetch_in_time(request_for(one, **behaviour.limits), MemoryObjects()), one.here)
            answer = asked.result()
    assert one.fired and server.fired
    if behaviour.name == "slow_status_line":  # Node's parser knows by the second byte, and Python by its budget
        assert answer["error"]["kind"] == "Refused"
    else:
        assert alike(nowhere(answer, server.here), ours)
    assert ours["error"]["kind"] == behaviour.error.__name__
    assert (answer["stored"], answer["open"]) == ([], 0)
    assert "canary-secret" not in str(answer["error"])


def test_there_are_enough_hostile_behaviours() -> None:
    assert len(BEHAVIOURS) >= 100


@pytest.mark.parametrize(("etag", "content", "strength", "coding", "lie"), COMBINATIONS)
def test_a_lie_about_validators_leaves_the_same_checkpoints(
    there: NodeSources, etag: str, content: str, strength: str, coding: str, lie: str
) -> None:
    histories = []
    for ask in (_python_asker(), _node_asker(there, f"{etag} {content} {strength} {coding} {lie}")):
        liar = Liar(etag, content, strength, coding, lie)
        with ScriptedServer(liar) as server:
            history = [ask(server, None, NOW)]
            liar.version = 1
            history.append(ask(server, _checkpoint(history[0], server), NOW + 60_000))
            polled = _checkpoint(history[1], server)
            due = polled.fetched_ms + INTERVAL
            for _ in range(2 if lie == "304 to a never-sent ETag" else 1):
                history.append(ask(server, polled, due))
        histories.append((history, liar.conditions, liar.answers))
    assert histories[0] == histories[1]


def _python_asker() -> Callable[[ScriptedServer, Checkpoint | None, int], dict[str, Any]]:
    objects = MemoryObjects()

    def ask(server: ScriptedServer, known: Checkpoint | None, now: int) -> dict[str, Any]:
        request = request_for(server, revalidate_ms=INTERVAL, now_ms=now)
        answer = told(fetch_in_time(request, objects, known=known), server.here)
        return answer | {"stored": sorted(objects.stored)}

    return ask


def _node_asker(there: NodeSources, session: str) -> Callable[[ScriptedServer, Checkpoint | None, int], dict[str, Any]]:
    def ask(server: ScriptedServer, known: Checkpoint | None, now: int) -> dict[str, Any]:
        request = request_for(server, revalidate_ms=INTERVAL, now_ms=now)
        answer = there.fetch(request, known, session=session)
        assert answer["open"] == 0
        return nowhere(answer, server.here) | {"stored": sorted(answer["stored"])}

    return ask


def _checkpoint(answer: dict[str, Any], server: ScriptedServer) -> Checkpoint:
    fields = answer["fetched"]["checkpoint"]
    return Checkpoint(**fields | {"uri": fields["uri"].replace(":PORT", f":{server.port}")})


@pytest.mark.parametrize(
    "retry_after",
    [
        "120", "0", "99999999999999999999999", "86400", "-5", "soon", "", "1e9", "Thu, 01 Jan 2026 00:01:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 99 Jan 2026 00:00:00 GMT", "\xb2",
        "Thu, 01 Jan 0001 00:00:00 GMT", "Thu, 01 Jan 0000 00:00:00 GMT", "Sun, 29 Feb 2026 00:00:00 GMT",
    ],
)  # fmt: skip
def test_both_runners_report_the_same_wait(there: NodeSources, retry_after: str) -> None:
    both(there, lambda: lambda x: x.answer("503 Later", f"Retry-After: {retry_after}"))


def _chunked(body: bytes, size: int) -> bytes:
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x;ext=1\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\nX-Trailer: 1\r\n\r\n"


def _bare(body: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(body) + packer.flush()


def _gzip_with(flags: int, more: bytes, checked: bool = True) -> bytes:
    head = b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\x03" + more
    if flags & 2:
        head += ((zlib.crc32(head) & 0xFFFF) ^ (not checked)).to_bytes(2, "little")
    return head + gzip.compress(ROWS, mtime=0)[10:]


CODED = {
    "gzip": ("gzip", gzip.compress(ROWS, mtime=0)),
    "large gzip": ("GZip", gzip.compress(BIG, mtime=0)),
    "x-gzip": ("x-gzip", gzip.compress(ROWS, mtime=0)),
    "two members": ("gzip", gzip.compress(ROWS, mtime=0) + gzip.compress(BIG, mtime=0)),
    "an empty member": ("gzip", gzip.compress(b"", mtime=0) + gzip.compress(ROWS, mtime=0)),
    "dense": ("gzip", gzip.compress(bytes(1 << 20), mtime=0)),
    "zlib": ("deflate", zlib.compress(BIG)),
    "bare": ("deflate", _bare(BIG)),
    "bare and dense": ("deflate", _bare(bytes(1 << 20))),
    "bare and cut": ("deflate", _bare(ROWS)[:-1]),
    "bare and more": ("deflate", _bare(ROWS) + b"x"),
    "bare and two more": ("deflate", _bare(ROWS) + b"xy"),
    "named": ("gzip", _gzip_with(8, b"rows.csv\0")),
    "named and remarked on": ("gzip", _gzip_with(24, b"rows.csv\0" + b"x" * 5000 + b"\0")),
    "with more in its head": ("gzip", _gzip_with(4, b"\5\0abcde")),
    "with a checked head": ("gzip", _gzip_with(2, b"")),
    "with a checked long head": ("gzip", _gzip_with(30, b"\1\0aname\0" + b"r" * 3000 + b"\0")),
    "with a head wrongly checked": ("gzip", _gzip_with(2, b"", checked=False)),
    "with flags that mean nothing": ("gzip", _gzip_with(0x80, b"")),
    "cut in its head": ("gzip", _gzip_with(8, b"rows.csv\0")[:15]),
    "of another method": ("gzip", b"\x1f\x8b\x07" + gzip.compress(ROWS, mtime=0)[3:]),
    "zlib with a wrong sum": ("deflate", zlib.compress(ROWS)[:-1] + b"\0"),
    "zlib with a dictionary": ("deflate", b"\x78\xbb\0\0\0\0" + _bare(ROWS)),
    "zlib with half a dictionary": ("deflate", b"\x78\xbb\0\0"),
    "zlib with a large window": ("deflate", b"\x88\x1c" + _bare(ROWS)),
    "cut behind a wrong sum": ("gzip", gzip.compress(ROWS, mtime=0)[:-8] + b"\0\0\0\0\1"),
    "cut in a wrong sum": ("gzip", gzip.compress(ROWS, mtime=0)[:-8] + b"\0\0\0"),
    "with a wrong length": ("gzip", gzip.compress(ROWS, mtime=0)[:-4] + b"\0\0\0\0"),
    "one byte": ("gzip", b"\x1f"),
    "two bytes": ("gzip", b"\x1f\x8b"),
    "denser than allowed": ("gzip", gzip.compress(bytes(8 << 20), mtime=0)),
}


@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("step", [0, 1, 7])
def test_a_content_coding_is_undone_or_refused_alike(there: NodeSources, name: str, step: int) -> None:
    coding, packed = CODED[name]
    if step and len(packed) > 10_000:
        step *= 9_973
    framed = _chunked(packed, step) if step else packed
    header = "Transfer-Encoding: chunked" if step else f"Content-Length: {len(packed)}"
    script: Script = lambda x: x.answer("200 OK", header, f"Content-Encoding: {coding}", body=framed)  # noqa: E731
    both(there, lambda: script, max_bytes=1 << 30, complete=True)


@pytest.mark.parametrize(
    "fields",
    [
        {
            "media_type": "text/csv",
            "headers": (("X-Key", "k"), ("User-Agent", "me")),
            "name": "n",
            "partition": ("KS",),
        },
        {"headers": (("Host", "x"),)},
        {"headers": (("x", "canary\r\nHost: y"),)},
        {"headers": (("\u212aey", "x"),)},
        {"headers": (("x", "caf\xe9"),)},
        {"max_bytes": 21},
        {"max_bytes": 22},
        {"expect_hash": digest_of(ROWS)},
        {"expect_hash": digest_of(b"")},
        {"expect_hash": "md5:1"},
        {"uri": "http://canary:secret@example.org/"},
        {"uri": "ftp://example.org/"},
        {"uri": "http://a b/"},
        {"uri": "nonsense"},
        {"uri": "http://example.org:99999/"},
    ],
    ids=str,
)
def test_a_question_is_asked_or_refused_alike(there: NodeSources, fields: dict[str, Any]) -> None:
    headers = ("Content-Length: 22", "Content-Type: text/csv", 'ETag: W/"caf\xe9"', "Last-Modified: today")
    both(there, lambda: lambda x: x.answer("200 OK", *headers, body=ROWS), **fields)


@pytest.mark.parametrize(
    "location",
    [
        "/x",
        "x",
        "../x?y",
        "?y",
        "#z",
        "./a//b/../c",
        "//127.0.0.1/",
        "HTTP://127.0.0.1/",
        "/caf\xc3\xa9",
        "http:x",
        "x:y",
    ],
)
def test_a_redirect_leads_to_the_same_place(there: NodeSources, location: str) -> None:
    def script(x: Exchange) -> None:
        if x.path.startswith("/data"):
            x.answer("301 Moved", f"Location: {location}", body=b"moved")
        else:
            x.answer("200 OK", "Content-Length: 22", body=ROWS + b"more than was promised")

    both(there, lambda: script, headers=(("Authorization", "Bearer canary"),))


def _answer(there: NodeSources, uri: str, ways: dict[str, Any], source: HttpSource, **fields: Any) -> dict[str, Any]:
    request = FetchRequest(uri=uri, **{"timeout_ms": 20_000, "total_ms": 60_000} | fields)
    answer = there.fetch(request, ways=ways, forget=True)
    ours = told(fetch_in_time(request, MemoryObjects(), source), "x:PORT")
    assert nowhere(answer, "x:PORT") == ours
    return answer


@pytest.mark.parametrize("host", INTERNAL)
def test_a_redirect_to_an_internal_address_is_denied_alike(there: NodeSources, host: str) -> None:
    answers = []
    for who in ("python", "node"):
        with ScriptedServer(lambda x: x.answer("302 Found", f"Location: http://{host}/latest/meta-data/")) as server:
            name = f"localhost:{server.port}"
            asked = request_for(server, uri=f"http://{name}/", allow=(name,), hosts=(host.strip("[]"),))
            if who == "python":
                source = HttpSource(resolve=lambda h, p: ["127.0.0.1"] if h == "localhost" else _resolve(h, p))
                answers.append(told(fetch_in_time(asked, MemoryObjects(), source), server.here))
            else:
                answer = there.fetch(asked, ways={"resolve": {"localhost": ["127.0.0.1"]}}, forget=True)
                answers.append(nowhere(answer, server.here))
                assert answer["dialled"] == [f"127.0.0.1:{server.port}"]
    assert answers[0] == answers[1]
    assert "the address is" in answers[0]["error"]["message"]


def _resolve(host: str, port: int) -> list[str]:
    from kfm.sources.connect import system_resolve

    return system_resolve(host, port)


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "017700000001", "0x7f.1", "127.0.1"])
def test_an_old_spelling_of_an_address_is_judged_on_what_it_is(there: NodeSources, host: str) -> None:
    answer = _answer(there, f"http://{host}:8931/", {}, HttpSource(), allow=("127.0.0.1:8931",))
    assert answer["error"]["kind"] == "Denied"
    assert answer["dialled"] == []


def _refusing(address: str, port: int, seconds: float) -> socket.socket:
    raise ConnectionRefusedError(111, "refused")


@pytest.mark.parametrize(
    ("resolve", "kind"),
    [
        (["93.184.216.34", "127.0.0.1"], "Denied"),
        (["127.0.0.1", "93.184.216.34"], "Denied"),
        (["93.184.216.34"], "Unavailable"),
        (["2606:4700::1111", "93.184.216.34"], "Unavailable"),
        ([], "Unavailable"),
    ],
)
def test_every_address_of_a_name_is_judged_and_the_first_is_dialled(
    there: NodeSources, resolve: list[str], kind: str
) -> None:
    ways = {"resolve": {"data.example.org": resolve}, "dial": dict.fromkeys(resolve, "ECONNREFUSED")}
    source = HttpSource(resolve=lambda host, port: resolve, dial=_refusing)
    answer = _answer(there, "http://data.example.org/", ways, source)
    assert answer["error"]["kind"] == kind
    assert answer["dialled"] == ([f"{address}:80" for address in resolve] if kind == "Unavailable" else [])


def test_a_name_without_an_address_or_an_answer_is_unavailable_alike(there: NodeSources) -> None:
    def failing(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    def slow(host: str, port: int) -> list[str]:
        import time

        time.sleep(1)
        return []

    _answer(there, "http://nowhere.example/", {"resolve": {"nowhere.example": None}}, HttpSource(resolve=failing))
    ways = {"resolve": {"slow.example": "never"}}
    answer = _answer(there, "http://slow.example/", ways, HttpSource(resolve=slow), timeout_ms=200)
    assert "silent" in answer["error"]["message"]
    ways = {"resolve": {"data.example.org": ["93.184.216.34"]}}
    source = HttpSource(resolve=lambda host, port: ["93.184.216.34"])
    assert "6379" in _answer(there, "http://data.example.org:6379/", ways, source)["error"]["message"]


def test_a_socket_whose_other_end_is_not_the_checked_address_is_denied(there: NodeSources) -> None:
    with ScriptedServer(lambda x: x.answer("200 OK", "Content-Length: 2", body=b"ok")) as server:
        ways = {
            "resolve": {"data.example.org": ["93.184.216.34"]},
            "dial": {"93.184.216.34": ["127.0.0.1", server.port]},
        }
        answer = there.fetch(FetchRequest(uri="http://data.example.org/"), ways=ways, forget=True)
    assert answer["error"]["kind"] == "Denied"
    assert "this machine" in answer["error"]["message"]
    assert all(x.path == "" for x in server.exchanges)


def test_a_name_that_changes_its_address_between_two_hops_is_denied_at_the_second(there: NodeSources) -> None:
    with ScriptedServer(lambda x: x.answer("302 Found", "Location: /again")) as server:
        ways = {
            "resolve": {"rebind.example.org": [["93.184.216.34"], ["127.0.0.1"]]},
            "dial": {"93.184.216.34": ["127.0.0.1", server.port, "93.184.216.34", 80]},
        }
        answer = there.fetch(FetchRequest(uri="http://rebind.example.org/"), ways=ways, forget=True)
    assert server.connections == 1
    assert (answer["error"]["kind"], answer["dialled"]) == ("Denied", ["93.184.216.34:80"])


# ------------------------------------------------------------------------------------------------------ TLS


def _secure(there: NodeSources, script: Script, wrap: Any, trust: bool = True, **fields: Any) -> list[dict[str, Any]]:
    answers = []
    source = HttpSource(tls=secured.trusting) if trust else HttpSource()
    ways = {"certFile": str(secured.TLS / "authority.pem")} if trust else {}
    for who in ("python", "node"):
        with ScriptedServer(script, wrap) as server:
            host = fields.get("host", "localhost")
            named = f"{host}:{server.port}"
            given = {"uri": f"https://{named}/", "allow": (named,), "timeout_ms": 20_000, "total_ms": 60_000}
            limits = {name: value for name, value in fields.items() if name != "host"}
            request = request_for(server, **given | limits)
            if who == "python":
                answers.append(told(fetch_in_time(request, MemoryObjects(), source), server.here))
            else:
                answers.append(nowhere(there.fetch(request, ways=ways, forget=True), server.here))
    return answers


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_server_that_proves_its_name_is_read(there: NodeSources, host: str) -> None:
    ours, theirs = _secure(there, secured.serve, secured.speaking("localhost"), host=host)
    assert ours == theirs
    assert ours["fetched"]["ref"]["content_hash"] == digest_of(secured.ROWS)


@pytest.mark.parametrize(
    ("certificate", "trust"), [("elsewhere", True), ("expired", True), ("localhost", False), ("authority", False)]
)
def test_a_certificate_that_does_not_prove_the_name_is_refused_alike(
    there: NodeSources, certificate: str, trust: bool
) -> None:
    ours, theirs = _secure(there, secured.serve, secured.speaking(certificate), trust)
    assert ours == theirs
    assert "certificate" in ours["error"]["message"]


@pytest.mark.parametrize(
    "fault", [secured._plain_http, secured._says_nothing, secured._half_a_handshake, secured._a_byte_now_and_then]
)
def test_a_broken_handshake_is_unavailable_alike(there: NodeSources, fault: Any) -> None:
    limits = TRICKLING if fault is secured._a_byte_now_and_then else SILENT
    ours, theirs = _secure(there, secured.serve, fault, **limits)
    assert ours == theirs
    assert ours["error"]["kind"] == "Unavailable"


def test_a_handshake_that_is_closed_is_unavailable(there: NodeSources) -> None:
    _, theirs = _secure(there, secured.serve, secured._closes)  # by an end or a reset, as the hello was read or not
    assert theirs["error"]["kind"] == "Unavailable"


def _cut(x: Exchange) -> None:
    x.send("HTTP/1.1 200 OK\r\n\r\n", ROWS)
    socket.socket(fileno=x.sock.detach()).close()  # closes the connection below TLS


def _cut_in_a_body(x: Exchange) -> None:
    x.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", ROWS)
    socket.socket(fileno=x.sock.detach()).close()


def _goodbye(x: Exchange) -> None:
    x.send("HTTP/1.1 200 OK\r\n\r\n", BIG)
    x.sock.unwrap()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("script", "came"), [(_cut, False), (_cut_in_a_body, False), (_goodbye, True)])
def test_only_the_goodbye_of_tls_ends_a_body(there: NodeSources, script: Script, came: bool) -> None:
    ours, theirs = _secure(there, script, secured.speaking("localhost"), max_bytes=1 << 30)
    assert ours == theirs
    assert ("fetched" in ours) is came


# ---------------------------------------------------------------------------------------------------- files


@pytest.fixture
def base(tmp_path: Path) -> Path:
    root = tmp_path / "sources"
    (root / "sub").mkdir(parents=True)
    for name in ("data.csv", "sub/data.csv", "sub/a b%.csv", "é.csv"):
        (root / name).write_bytes(ROWS)
    (tmp_path / "secret.csv").write_bytes(b"canary")
    (root / "link.csv").symlink_to(root / "data.csv")
    (root / "out").symlink_to(tmp_path)
    (root / "loop").symlink_to(root / "loop")
    (root / "dangling").symlink_to(root / "nothing")
    os.mkfifo(root / "fifo")
    (root / "empty").touch()
    (root / "large").write_bytes(BIG)
    with open(os.fsencode(root) + b"/\xff.csv", "wb") as file:
        file.write(ROWS)
    for name in ("data.csv", "large"):
        os.utime(root / name, ns=(0, (NOW - 86_400_000) * 1_000_000 - 1))
    return root


URIS = [
    "data.csv", "./data.csv", "file:data.csv", "FILE:data.csv", ".//data.csv", "file://{base}/data.csv",
    "file://localhost{base}/data.csv", "{base}/data.csv", "file:{base}/data.csv", "sub/a b%.csv",
    "file:sub/a%20b%25.csv",
    "file:%ff.csv", "file:%c3%a9.csv", "é.csv", "file:é%2ecsv", "empty", "large",
    "", "/", ".", "./", "file:", "file://", "file:///", "../secret.csv", "sub/../../secret.csv", "sub/../data.csv",
    "file:%2e%2e/secret.csv", "file:..%2fsecret.csv", "data.csv\0", "file:data.csv%00", "/etc/passwd",
    "file:///etc/passwd", "file://otherhost/etc/passwd", "file://{base}/../secret.csv", "{base}x/data.csv",
    "file:data.csv?x", "file:data.csv#x", "a" * 300, "missing.csv", "sub/missing.csv", "data.csv/x",
    "missing/../data.csv",
    "\ud800", "file:%41\ud800", "file:%fe", "sub", "sub/", "link.csv", "out/secret.csv", "loop", "loop/x", "dangling",
    "fifo",
    "file:%e9'\u00ad.csv", "file:%zz",
]  # fmt: skip


@pytest.mark.parametrize("uri", URIS, ids=ascii)
def test_a_file_is_read_or_refused_alike(there: NodeSources, base: Path, uri: str) -> None:
    named = uri.replace("{base}", str(base))
    request = FetchRequest(uri=named, base_dir=str(base), now_ms=NOW, name="n", media_type="text/csv", complete=True)
    objects = MemoryObjects()
    try:
        ours: Any = FileSource().fetch(request, None, objects)
    except Exception as problem:
        ours = problem
    answer = there.fetch(request, kind="file", session=f"file {uri}")
    assert hintless(nowhere(answer, "x:0")) == hintless(told(ours, "x:0"))
    assert (sorted(answer["stored"]), answer["open"]) == (sorted(objects.stored), 0)
    if isinstance(ours, Fetched):
        again = there.fetch(_later(request), ours.checkpoint, kind="file", session=f"file {uri}")
        expected = FileSource().fetch(_later(request), ours.checkpoint, objects)
        assert nowhere(again, "x:0") == told(expected, "x:0")


def hintless(answer: dict[str, Any]) -> dict[str, Any]:
    """What to do differs: only Python reads from folders that `read_from` names."""
    error = answer.get("error")
    return {**answer, "error": {**error, "hint": ""}} if error else answer


def _later(request: FetchRequest) -> FetchRequest:
    from msgspec.structs import replace

    return replace(request, now_ms=request.now_ms + 1000)


def test_limits_and_expectations_of_files_are_the_same(there: NodeSources, base: Path) -> None:
    for fields in (
        {"max_bytes": 21},
        {"expect_hash": digest_of(b"")},
        {"expect_hash": "abc"},
        {"base_dir": "/nowhere"},
    ):
        request = FetchRequest(**{"uri": "data.csv", "base_dir": str(base), "now_ms": NOW} | fields)
        with pytest.raises(Exception) as caught:
            FileSource().fetch(request, None, MemoryObjects())
        answer = there.fetch(request, kind="file", forget=True)
        assert nowhere(answer, "x:0") == told(caught.value, "x:0")
        assert answer["stored"] == []


def test_a_directory_swapped_for_a_link_while_opening_never_leads_out(
    there: NodeSources, base: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "data.csv").write_bytes(b"canary")
    (base / "real").mkdir()
    (base / "real" / "data.csv").write_bytes(ROWS)
    (base / "fake").symlink_to(tmp_path / "outside")
    stop, swaps, refused = threading.Event(), [], 0

    def swap() -> None:
        while not stop.is_set():
            for name in ("real", "fake"):
                os.rename(base / name, base / "here")
                os.rename(base / "here", base / name)
            swaps.append(1)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(400):
            request = FetchRequest(uri="here/data.csv", base_dir=str(base), now_ms=NOW)
            answer = there.fetch(request, kind="file", session="swap")
            refused += "error" in answer
    finally:
        stop.set()
        thread.join()
    assert swaps and refused
    assert set(answer["stored"]) <= {digest_of(ROWS)}


# ------------------------------------------------------------------------------------------------ generated


def _mutations(there: NodeSources, seeds: range) -> tuple[int, int]:
    replayer = Replayer()
    taken = refused = 0
    try:
        for seed in seeds:
            replayer.answer = _mutated(random.Random(seed))
            request = FetchRequest(
                uri=f"http://{replayer.here}/", allow=(replayer.here,), timeout_ms=20_000, total_ms=60_000,
                max_bytes=1 << 20, complete=True,
            )  # fmt: skip
            ours = told(fetch_in_time(request, MemoryObjects()), replayer.here)
            answer = there.fetch(request, forget=True)
            theirs = nowhere(answer, replayer.here)
            if "fetched" in ours and "fetched" in theirs:  # Node counts what it received behind the last chunk, too
                assert theirs["fetched"].pop("bytes_on_wire") >= ours["fetched"].pop("bytes_on_wire"), f"seed {seed}"
            assert alike(theirs, ours), f"seed {seed}"
            assert answer["open"] == 0
            taken += "fetched" in ours
            refused += "error" in ours
    finally:
        replayer.close()
    return taken, refused


def test_mutated_answers_are_read_alike(there: NodeSources) -> None:
    number = tries(1_000)
    taken, refused = _mutations(there, range(number))
    assert taken > number // 20 and refused > number // 2


@pytest.mark.long
def test_twenty_thousand_mutated_answers_are_read_alike(there: NodeSources) -> None:
    taken, refused = _mutations(there, range(1_000, 21_000))
    assert taken > 1_000 and refused > 10_000
