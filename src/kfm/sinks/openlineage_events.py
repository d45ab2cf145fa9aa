"""Where events of OpenLineage go: a file that grows by a line an event, or a server that takes them one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from kfm.errors import Denied, Refused, Unavailable
from kfm.fsio import REAL, Fs, failing_as_storage, read_note, write_note
from kfm.model.outbox_messages import Letter
from kfm.sinks.http_transport import HttpTransport

_NOTE = 32  # bytes of the note at the head of the index; the bits come behind it
_PIECE = 1 << 16
_LATER = (408, 425, 429)
_OURS = (401, 403, 404, 405, 407)  # the address or the key is wrong: no fault of what was told


class FileSink:
    """Each event once, whatever died: beside the file, in `.index`, a bit for each entry of the ledger whose events are
    in it. The note before the bits says how long the file was when they were true; what lies behind is read again.

    The file may be taken away: it begins anew, and what it held is not told again."""

    name = "openlineage.file"

    def __init__(self, path: str, fs: Fs = REAL) -> None:
        self._path = path
        self._fs = fs

    def send(self, letters: Sequence[Letter]) -> None:
        with failing_as_storage("write the events of OpenLineage"):
            self._fs.make_dirs(os.path.dirname(os.path.abspath(self._path)), 0o755)
            events, index = self._opened(self._path, 0o644), -1
            try:
                index = self._opened(self._path + ".index", 0o600)
                self._append(events, index, letters)
            finally:
                for fd in (events, index):
                    if fd >= 0:
                        self._fs.close(fd)

    def _opened(self, path: str, mode: int) -> int:
        if not self._fs.exists(path):
            fd = self._fs.create(path, mode)
            self._fs.sync_dir(os.path.dirname(os.path.abspath(path)))
            return fd
        return self._fs.open_write(path)

    def _append(self, events: int, index: int, letters: Sequence[Letter]) -> None:
        fs = self._fs
        there, size = self._behind(events, read_note(fs, index))
        if size < fs.size(events):
            fs.truncate(events, size)
        new = [letter for letter in letters if letter.run_id not in there and not self._bit(index, letter.index)]
        body = b"".join(msgspec.json.encode(event) + b"\n" for letter in new for event in letter.body)
        if body:
            fs.write_at(events, body, size)
        fs.sync(events)
        for letter in letters:
            self._set(index, letter.index)
        fs.sync(index)  # before the note: one that is too long would hide what the bits do not say
        write_note(fs, index, size + len(body))

    def _behind(self, events: int, noted: int) -> tuple[set[str], int]:
        """The runs whose events are whole behind what is noted, and where the last line of a whole run ends: what is
        behind that, half a line or a START without its end, was left by a kill or a power cut."""
        at = end = position = noted if noted <= self._fs.size(events) else 0
        found: set[str] = set()
        rest = b""
        while chunk := self._fs.read_at(events, _PIECE, at):
            at += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                position += len(line) + 1
                run_id, kind = _told(line)
                if kind != "START":
                    found.add(run_id)
                    end = position
        return found, end

    def _bit(self, index: int, number: int) -> bool:
        byte = self._fs.read_at(index, 1, _NOTE + number // 8)
        return bool(byte and byte[0] >> number % 8 & 1)

    def _set(self, index: int, number: int) -> None:
        byte = self._fs.read_at(index, 1, _NOTE + number // 8) or b"\x00"
        self._fs.write_at(index, bytes([byte[0] | 1 << number % 8]), _NOTE + number // 8)


def _told(line: bytes) -> tuple[str, str]:
    """The run and the kind of an event; of anything else, nothing."""
    try:
        event = msgspec.json.decode(line)
        return str(event["run"]["runId"]), str(event["eventType"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return "", ""


class HttpSink:
    """At least once: whoever takes them knows two of one run and kind for the same."""

    name = "openlineage.http"

    def __init__(self, url: Callable[[], str], api_key: Callable[[], str], transport: HttpTransport) -> None:
        self._url = url
        self._api_key = api_key
        self._transport = transport

    def send(self, letters: Sequence[Letter]) -> None:
        try:
            url, key = self._url(), self._api_key()
        except Refused as problem:  # no fault of what is to be told
            raise Denied(problem.message, hint=problem.hint) from None
        headers = {"Content-Type": "application/json", "User-Agent": "kfm"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        for letter in letters:
            for event in letter.body:
                body = msgspec.json.encode(event)
                status, answered, _ = self._transport.call(
                    "POST", url, {**headers, "Content-Length": str(len(body))}, body
                )
                _judge(status, answered, url.partition("://")[2].partition("/")[0])


def _judge(status: int, headers: dict[str, str], host: str) -> None:
    """Nothing of what it says is told but its number: it may say anything."""
    if 200 <= status < 300:
        return
    if status in _LATER or status >= 500:
        wait = headers.get("retry-after", "")
        after = int(wait) if wait.isascii() and wait.isdigit() and len(wait) < 6 else None
        raise Unavailable(f"{host} answers {status}", hint="look at the server", retry_after_s=after)
    if status in _OURS:
        raise Denied(f"{host} answers {status}", hint="look at openlineage.url, endpoint and api_key")
    if status < 400:
        raise Denied(f"{host} leads elsewhere ({status})", hint="name in openlineage.url the address it leads to")
    raise Refused(f"{host} answers {status} to what it is told", hint="ask whoever runs it which events it takes")
