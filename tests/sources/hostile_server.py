"""A raw-socket server that follows a script, and a catalogue of scripts no honest server would follow."""

from __future__ import annotations

import gzip
import socket
import struct
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kfm.errors import Denied, KfmError, Refused, Unavailable

Script = Callable[["Exchange"], object]


class Exchange:
    """One connection: the question that came, and ways to answer it."""

    def __init__(self, server: ScriptedServer, sock: socket.socket) -> None:
        self.server = server
        self.sock = sock
        self.fired = False
        self.path = ""
        self.headers: dict[str, str] = {}

    def read_question(self) -> None:
        raw = b""
        while b"\r\n\r\n" not in raw:
            piece = self.sock.recv(65536)
            if not piece:
                break
            raw += piece
        lines = raw.decode("latin-1").split("\r\n")
        self.path = lines[0].split(" ")[1] if " " in lines[0] else ""
        self.headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:] if line)}

    def send(self, *pieces: bytes | str) -> bool:
        """False once the other side is gone or the server is to stop."""
        left = memoryview(b"".join(p.encode("latin-1") if isinstance(p, str) else p for p in pieces))
        while left:
            try:
                left = left[self.sock.send(left) :]
            except OSError:
                return False
            self.fired = True  # some of it is on its way, though the other side may not want it all
        return not self.server.stopping.is_set()

    def answer(self, status: str, *headers: str, body: bytes = b"") -> bool:
        head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", *headers))
        return self.send(head, "\r\n", body)

    def forever(self, piece: bytes | str, pause: float = 0.0) -> None:
        while self.send(piece):
            if pause and self.server.stopping.wait(pause):
                return

    def wait(self) -> None:
        """Say nothing until the other side goes."""
        self.fired = True
        self.sock.settimeout(0.1)
        while not self.server.stopping.is_set():
            try:
                if not self.sock.recv(65536):
                    return
            except TimeoutError:
                continue
            except OSError:
                return

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()
        self.fired = True


class ScriptedServer:
    """Answers every connection on 127.0.0.1 by its script."""

    def __init__(self, script: Script, wrap: Callable[[socket.socket], socket.socket] | None = None) -> None:
        self._script = script
        self._wrap = wrap
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self.stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.here = f"127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def fired(self) -> bool:
        return any(x.fired for x in self.exchanges)

    def __enter__(self) -> ScriptedServer:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            sock.settimeout(60)  # a busy machine is no end of it
            try:
                exchange = Exchange(self, self._wrap(sock) if self._wrap else sock)
                self.exchanges.append(exchange)
                exchange.read_question()
                self._script(exchange)
                if exchange.sock.fileno() >= 0:
                    exchange.sock.close()
            except OSError:
                return


@dataclass
class Behaviour:
    """A script, and how a fetch from it has to end."""

    name: str
    script: Script
    error: type[KfmError]
    limits: dict[str, Any] = field(default_factory=dict)  # fields of the FetchRequest


BEHAVIOURS: list[Behaviour] = []
# For servers that only time can stop. Only one of the two can run out, however long this machine pauses.
SILENT = {"timeout_ms": 300, "total_ms": 20_000}
TRICKLING = {"timeout_ms": 20_000, "total_ms": 700}
OK = "HTTP/1.1 200 OK\r\n"
CHUNKED = OK + "Transfer-Encoding: chunked\r\n\r\n"


def _behaviour(error: type[KfmError], **limits: Any) -> Callable[[Script], Script]:
    def register(script: Script) -> Script:
        BEHAVIOURS.append(Behaviour(script.__name__, script, error, limits))
        return script

    return register


def _says(name: str, error: type[KfmError], *pieces: bytes | str, **limits: Any) -> None:
    """A behaviour that sends these bytes and closes."""
    BEHAVIOURS.append(Behaviour(name, lambda x: x.send(*pieces), error, limits))


# --- before and in the head ---------------------------------------------------------------------


@_behaviour(Unavailable, **SILENT)
def never_answers(x: Exchange) -> None:
    x.wait()


@_behaviour(Unavailable, **TRICKLING)
def never_answers_though_there_is_patience_between_two_bytes(x: Exchange) -> None:
    x.wait()


@_behaviour(Unavailable)
def closes_at_once(x: Exchange) -> None:
    x.fired = True


@_behaviour(Unavailable)
def resets_at_once(x: Exchange) -> None:
    x.reset()


@_behaviour(Unavailable, **TRICKLING)
def slow_head_byte_by_byte(x: Exchange) -> None:
    x.send(OK, "X-Slow: ")
    x.forever("a", pause=0.02)


@_behaviour(Unavailable, **TRICKLING)
def slow_head_line_by_line(x: Exchange) -> None:
    x.send(OK)
    x.forever("X-Slow: a\r\n", pause=0.05)


@_behaviour(Unavailable, **TRICKLING)
def slow_status_line(x: Exchange) -> None:
    x.forever("H", pause=0.02)


@_behaviour(Refused)
def thousand_headers(x: Exchange) -> None:
    x.answer("200 OK", *(f"X-{i}: {i}" for i in range(1000)), "Content-Length: 2", body=b"ok")


@_behaviour(Refused)
def ten_megabyte_header(x: Exchange) -> None:
    x.answer("200 OK", "X-Long: " + "a" * 10_000_000, "Content-Length: 2", body=b"ok")


@_behaviour(Refused)
def endless_header(x: Exchange) -> None:
    x.send(OK, "X-Long: ")
    x.forever("a" * 65536)


@_behaviour(Refused)
def endless_status_line(x: Exchange) -> None:
    x.send("HTTP/1.1 200 ")
    x.forever("a" * 65536)


@_behaviour(Refused)
def endless_interim_answers(x: Exchange) -> None:
    x.forever("HTTP/1.1 100 Continue\r\n\r\n")


_says("nine_interim_answers", Refused, "HTTP/1.1 103 Early Hints\r\n\r\n" * 9, OK, "Content-Length: 2\r\n\r\nok")
_says("switches_protocols", Refused, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n")
_says("head_cut_off", Unavailable, OK, "Content-Len")
_says("head_without_its_end", Unavailable, OK, "Content-Length: 2\r\n")
_says("interim_answer_only", Unavailable, "HTTP/1.1 103 Early Hints\r\n\r\n")
_says("folded_header", Refused, OK, "X-A: b\r\n Content-Length: 2\r\n\r\nok")
_says("header_without_colon", Refused, OK, "Content-Length 2\r\n\r\nok")
_says("space_before_colon", Refused, OK, "Content-Length : 2\r\n\r\nok")
_says("header_without_name", Refused, OK, ": 2\r\n\r\nok")
_says("nul_in_header", Refused, OK, "X-A: a\0b\r\nContent-Length: 2\r\n\r\nok")
_says("bare_carriage_return_in_header", Refused, OK, "X-A: a\rContent-Length: 2\r\n\r\nok")
_says("bare_line_feed_in_header", Refused, OK, "X-A: a\nContent-Length: 2\r\n\r\nok")
_says("bare_line_feeds_throughout", Refused, "HTTP/1.1 200 OK\nContent-Length: 2\n\nok")
_says("empty_line_of_a_bare_line_feed", Refused, OK, "Content-Length: 2\r\n\nok")
_says("empty_line_before_the_status", Refused, "\r\n", OK, "Content-Length: 2\r\n\r\nok")
_says("bare_carriage_return_in_the_reason", Refused, "HTTP/1.1 200 O\rK\r\nContent-Length: 2\r\n\r\nok")
_says("nul_in_the_reason", Refused, "HTTP/1.1 200 O\0K\r\nContent-Length: 2\r\n\r\nok")
_says("delete_in_header", Refused, OK, "X-A: a\x7fb\r\nContent-Length: 2\r\n\r\nok")
_says("folded_length", Refused, OK, "Content-Length:\r\n 2\r\n\r\nok")
_says("folded_interim_answer", Refused, "HTTP/1.1 103 Hints\r\nX: a\r\n b\r\n\r\n", OK, "Content-Length: 2\r\n\r\nok")
_says("two_hundred_and_one_headers", Refused, OK, "X: y\r\n" * 200, "Content-Length: 2\r\n\r\nok")
_says("heads_too_long_together", Refused, f"HTTP/1.1 103 A\r\nX: {'a' * 40_000}\r\n\r\n" * 2, CHUNKED, "0\r\n\r\n")
_says("switches_protocols_by_an_upgrade", Refused, "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n")
_says("not_http_at_all", Refused, "SSH-2.0-OpenSSH_9.6\r\n")
_says("http_0_9", Refused, "station,name\n1,Topeka\n")
_says("http_2_status_line", Refused, "HTTP/2.0 200 OK\r\n\r\nok")
_says("status_of_letters", Refused, "HTTP/1.1 abc OK\r\n\r\nok")
_says("status_999", Refused, "HTTP/1.1 999 Denied\r\n\r\nok")
_says("status_of_four_digits", Refused, "HTTP/1.1 2000 OK\r\n\r\nok")
_says("status_below_100", Refused, "HTTP/1.1 020 OK\r\n\r\nok")


# --- framing of the body --------------------------------------------------------------------------

for _name, _length in {
    "negative": "-1", "plus": "+2", "hexadecimal": "0x2", "underscored": "1_0", "of_letters": "two", "fraction": "2.0",
    "listed_twice": "2, 2", "empty": "", "of_thirty_digits": "9" * 30, "spaced": "1 0", "of_foreign_digits": "\xb2",
}.items():  # fmt: skip
    _says(f"content_length_{_name}", Refused, OK, f"Content-Length: {_length}\r\n\r\nok")
_says("content_length_twice_and_different", Refused, OK, "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!")
_says("content_length_twice_and_equal", Refused, OK, "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok")
_says("content_length_and_chunked", Refused, OK, "Content-Length: 2\r\n", CHUNKED[len(OK) :], "2\r\nok\r\n0\r\n\r\n")
_says("content_length_above_the_limit", Refused, OK, "Content-Length: 99999999999\r\n\r\nok")
_says("closes_before_the_length", Unavailable, OK, "Content-Length: 100\r\n\r\nhalf of it")
_says("closes_before_the_first_byte", Unavailable, OK, "Content-Length: 100\r\n\r\n")
_says("transfer_encoding_gzip", Refused, OK, "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
_says("transfer_encoding_twice", Refused, OK, "Transfer-Encoding: chunked\r\n" * 2, "\r\n2\r\nok\r\n0\r\n\r\n")
_says("transfer_encoding_unknown", Refused, OK, "Transfer-Encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
for _name, _size in {
    "negative": "-2", "plus": "+2", "hexadecimal_prefix": "0x2", "underscored": "0_2", "empty": "", "of_letters": "zz",
    "beyond_all_numbers": "f" * 40, "after_a_space": " 2", "of_two_words": "2 2",
}.items():  # fmt: skip
    _says(f"chunk_size_{_name}", Refused, CHUNKED, f"{_size}\r\nok\r\n0\r\n\r\n")
_says("chunk_longer_than_it_says", Refused, CHUNKED, "2\r\nokay\r\n0\r\n\r\n")
_says("chunk_one_byte_longer_than_it_says", Refused, CHUNKED, "2\r\nokX\n0\r\n\r\n")
_says("chunk_size_before_a_bare_line_feed", Refused, CHUNKED, "2\nok\r\n0\r\n\r\n")
_says("chunk_before_a_bare_line_feed", Refused, CHUNKED, "2\r\nok\n0\r\n\r\n")
_says("chunk_size_before_a_space", Refused, CHUNKED, "2 \r\nok\r\n0\r\n\r\n")
_says("trailer_without_colon", Refused, CHUNKED, "2\r\nok\r\n0\r\nnonsense\r\n\r\n")
_says("two_hundred_and_one_trailers", Refused, CHUNKED, "2\r\nok\r\n0\r\n", "X: y\r\n" * 201, "\r\n")
_says("chunked_cut_in_a_chunk", Unavailable, CHUNKED, "10\r\nhalf")
_says("chunked_cut_after_a_chunk", Unavailable, CHUNKED, "2\r\nok")
_says("chunked_cut_before_the_last_chunk", Unavailable, CHUNKED, "2\r\nok\r\n")
_says("chunked_cut_in_a_size", Unavailable, CHUNKED, "2\r\nok\r\n0")
_says("chunked_cut_before_the_last_line", Unavailable, CHUNKED, "2\r\nok\r\n0\r\n")


@_behaviour(Refused)
def never_ending_chunked(x: Exchange) -> None:
    x.send(CHUNKED)
    x.forever(b"10000\r\n" + b"a" * 65536 + b"\r\n")


@_behaviour(Refused, max_bytes=100_000)
def never_ending_chunk_extensions(x: Exchange) -> None:
    x.send(CHUNKED)
    x.forever(b"1;" + b"e" * 1000 + b"\r\na\r\n")


@_behaviour(Refused)
def endless_chunk_header(x: Exchange) -> None:
    x.send(CHUNKED)
    x.forever("0" * 65536)


@_behaviour(Refused)
def endless_trailer(x: Exchange) -> None:
    x.send(CHUNKED, "2\r\nok\r\n0\r\n")
    x.forever("X-More: and more\r\n" * 1000)


@_behaviour(Unavailable, **TRICKLING)
def slow_trailer(x: Exchange) -> None:
    x.send(CHUNKED, "2\r\nok\r\n0\r\n")
    x.forever("X-More: and more\r\n", pause=0.05)


@_behaviour(Unavailable, **TRICKLING)
def slow_body(x: Exchange) -> None:
    x.answer("200 OK", "Content-Length: 100000")
    x.forever("a", pause=0.02)


@_behaviour(Unavailable, **TRICKLING)
def slow_chunked_body(x: Exchange) -> None:
    x.send(CHUNKED)
    x.forever("1\r\na\r\n", pause=0.02)


@_behaviour(Unavailable, **SILENT)
def body_that_stops(x: Exchange) -> None:
    x.answer("200 OK", "Content-Length: 100", body=b"half of it")
    x.wait()


@_behaviour(Refused)
def never_ending_body_without_length(x: Exchange) -> None:
    x.send(OK, "\r\n")
    x.forever(b"a" * 65536)


@_behaviour(Unavailable, **TRICKLING)
def slow_body_without_length(x: Exchange) -> None:
    x.send(OK, "\r\n")
    x.forever("a", pause=0.02)


@_behaviour(Unavailable)
def resets_in_the_body(x: Exchange) -> None:
    x.answer("200 OK", "Content-Length: 100", body=b"half of it")
    x.reset()


# --- content codings ------------------------------------------------------------------------------

ROWS = b"station,name\n" + b"1,Topeka\n" * 200
PACKED = gzip.compress(ROWS, mtime=0)


def _encoded(coding: str, body: bytes, *more: str) -> tuple[bytes | str, ...]:
    head = "".join(f"{h}\r\n" for h in (f"Content-Encoding: {coding}", f"Content-Length: {len(body)}", *more))
    return OK, head, "\r\n", body


def _bomb(wbits: int) -> tuple[bytes, bytes]:
    """A beginning, and a piece of 16 KiB to be repeated that unpacks to 16 MiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    begin = packer.compress(b"0") + packer.flush(zlib.Z_FULL_FLUSH)
    return begin, packer.compress(bytes(16 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)


def _explode(x: Exchange, coding: str, wbits: int) -> None:
    begin, piece = _bomb(wbits)
    x.answer("200 OK", f"Content-Encoding: {coding}", f"Content-Length: {len(begin) + 640 * len(piece)}", body=begin)
    for _ in range(640):  # 10 MB that unpack to 10 GB
        if not x.send(piece):
            return


@_behaviour(Refused, max_bytes=1 << 40)
def gzip_bomb_against_the_ratio(x: Exchange) -> None:
    _explode(x, "gzip", 31)


@_behaviour(Refused, max_bytes=64 << 20, max_ratio=1 << 40)
def gzip_bomb_against_the_size(x: Exchange) -> None:
    _explode(x, "gzip", 31)


@_behaviour(Refused, max_bytes=1 << 40)
def deflate_bomb(x: Exchange) -> None:
    _explode(x, "deflate", -15)


@_behaviour(Refused, max_bytes=100_000)
def gzip_of_endless_nothing(x: Exchange) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    x.answer("200 OK", "Content-Encoding: gzip", body=packer.compress(b"0") + packer.flush(zlib.Z_FULL_FLUSH))
    x.forever(packer.flush(zlib.Z_FULL_FLUSH) + b"\x00\x00\x00\xff\xff" * 1000)


@_behaviour(Refused, max_bytes=100_000)
def gzip_of_endless_empty_members(x: Exchange) -> None:
    x.answer("200 OK", "Content-Encoding: gzip")
    x.forever(gzip.compress(b"", mtime=0) * 100)


for _coding in ("br", "zstd", "compress", "x-made-up", "gzip;q=1", "\xffgzip"):
    _says(f"content_encoding_{_coding!a}", Refused, *_encoded(_coding, PACKED))
_says("gzip_in_gzip", Refused, *_encoded("gzip, gzip", gzip.compress(PACKED)))
_says("gzip_in_deflate", Refused, *_encoded("gzip, deflate", zlib.compress(PACKED)))
_says("two_content_encodings", Refused, *_encoded("gzip", gzip.compress(PACKED), "Content-Encoding: gzip"))
_says("many_content_encodings", Refused, *_encoded(", ".join(["gzip"] * 1000), PACKED))
_says("gzip_cut_off", Unavailable, *_encoded("gzip", PACKED[:-9]))
_says("gzip_without_its_checksum", Unavailable, *_encoded("gzip", PACKED[:-4]))
_says("gzip_of_no_bytes", Unavailable, *_encoded("gzip", b""))
_says("gzip_with_a_wrong_checksum", Refused, *_encoded("gzip", PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:]))
_says("gzip_that_is_none", Refused, *_encoded("gzip", ROWS))
_says("gzip_with_more_after_it", Refused, *_encoded("gzip", PACKED + b"more"))
_says("gzip_cut_in_a_second_member", Unavailable, *_encoded("gzip", PACKED + b"\x1f"))
_says("gzip_of_nothing", Refused, *_encoded("gzip", gzip.compress(b"")))
_says("deflate_with_more_after_it", Refused, *_encoded("deflate", zlib.compress(ROWS) + zlib.compress(ROWS)))
_says("deflate_cut_off", Unavailable, *_encoded("deflate", zlib.compress(ROWS)[:-4]))


# --- answers that mean something else ---------------------------------------------------------------

_says("not_modified_unasked", Unavailable, 'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n')
_says("not_modified_unasked_with_a_body", Unavailable, "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nok")
_says("empty_200", Refused, OK, "Content-Length: 0\r\n\r\n")
_says("empty_200_without_length", Refused, OK, "\r\n")
_says("empty_200_chunked", Refused, CHUNKED, "0\r\n\r\n")
_says("no_content", Refused, "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok")
_says("partial_content_unasked", Refused, "HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\n\r\nok")
_says("multiple_choices", Refused, "HTTP/1.1 300 Multiple Choices\r\nContent-Length: 2\r\n\r\nok")
_HTML = b"<!DOCTYPE html><title>Sorry</title>"
_says(
    "web_page", Refused, OK, f"Content-Type: text/html\r\nContent-Length: {len(_HTML)}\r\n\r\n", _HTML,
    media_type="text/csv",
)  # fmt: skip
_says(
    "web_page_under_another_type", Refused, OK, f"Content-Type: text/csv\r\nContent-Length: {len(_HTML) + 5}\r\n\r\n",
    b"\xef\xbb\xbf\r\n", _HTML, media_type="text/csv",
)  # fmt: skip
_says("web_page_without_a_type", Refused, OK, "\r\n", b"  <html><body>Sorry", media_type="application/json")
for _status in (400, 401, 403, 404, 407, 410, 418, 451):
    _says(f"answers_{_status}", Refused, f"HTTP/1.1 {_status} No\r\nContent-Length: 2\r\n\r\nno")
for _status in (408, 425, 429, 500, 502, 503, 599):
    _says(f"answers_{_status}", Unavailable, f"HTTP/1.1 {_status} Later\r\nContent-Length: 2\r\n\r\nno")
_says("other_bytes_than_expected", Refused, OK, "Content-Length: 2\r\n\r\nok", expect_hash="sha256:" + "0" * 64)


# --- redirects ----------------------------------------------------------------------------------------


@_behaviour(Refused)
def redirect_loop(x: Exchange) -> None:
    x.answer("302 Found", f"Location: {x.path}")


@_behaviour(Refused)
def redirects_without_end(x: Exchange) -> None:
    x.answer("302 Found", f"Location: /{x.server.connections}")


def _redirects(name: str, error: type[KfmError], *locations: str) -> None:
    headers = "".join(f"Location: {location}\r\n" for location in locations)
    _says(f"redirect_{name}", error, f"HTTP/1.1 302 Found\r\n{headers}Content-Length: 0\r\n\r\n")


_redirects("to_nowhere", Refused)
_redirects("to_an_empty_place", Refused, "")
_redirects("to_two_places", Refused, "/a", "/b")
_redirects("to_a_file", Refused, "file:///etc/passwd")
_redirects("to_ftp", Refused, "ftp://ftp.example.org/a")
_redirects("to_gopher", Refused, "gopher://127.0.0.1:6379/_FLUSHALL")
_redirects("to_data", Refused, "data:text/csv,a")
_redirects("to_a_script", Refused, "javascript:alert(1)")
_redirects("with_a_password", Refused, "http://user:canary-secret@127.0.0.1/")
_redirects("with_a_backslash", Refused, "http:\\\\127.0.0.1\\")
_redirects("with_a_space", Refused, "http://127.0.0.1 .example.org/")
_redirects("with_a_percent_in_the_host", Refused, "http://127%2e0.0.1/")
_redirects("with_a_zone", Refused, "http://[fe80::1%25eth0]/")
_redirects("with_an_impossible_port", Refused, "http://127.0.0.1:99999/")
_redirects("to_another_host", Denied, "http://example.org/")
_redirects("to_another_host_without_scheme", Denied, "//example.org/")
