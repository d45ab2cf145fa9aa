"""Deliver OpenLineage events: append them to a file, one line per event, or send them to a server one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from kfm.errors import Denied, Refused, Unavailable
from kfm.fsio import REAL, Fs, failing_as_storage, read_note, write_note
from kfm.model.outbox_messages import Letter
from kfm.sinks.http_transport import HttpTransport

_NOTE = 32  # bytes of the note at the start of the index; the bits follow
_PIECE = 1 << 16
_LATER = (408, 425, 429)
_OURS = (401, 403, 404, 405, 407)  # the address or the key is wrong, not the event


class FileSink:
    """Appends each event to a file exactly once, whichever process is killed. Next to the file, `.index` has one bit
    per ledger entry whose events are written.

    The index begins with the length that the file had when the bits were written; lines after that length are read
    again. If the file is removed, a new one begins, and old events are not written again.
    """

    name = "openlineage.file"

    def __init__(self, path: str, fs: Fs = REAL) -> None:
        self._path = path
        self._fs = fs
        self.written = 0  # runs whose events were added since it was opened

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
            self.written += len(new)
        fs.sync(events)
        for letter in letters:
            self._set(index, letter.index)
        fs.sync(index)  # before the note: a note that is too large would hide lines that have no bit yet
        write_note(fs, index, size + len(body))

    def _behind(self, events: int, noted: int) -> tuple[set[str], int]:
        """Return the runs whose events are complete after the noted length, and the end of the last complete run. Bytes
        after that (half a line, or a START without its end) were left by a kill or a power cut.
        """
        at = end = position = noted if noted <= self._fs.size(events) else 0
        found: set[str] = set()
        rest = b""
        while chunk := self._fs.read_at(events, _PIECE, at):
            at += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                position += len(line) + 1
                run_id, kind = _event_of(line)
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


def _event_of(line: bytes) -> tuple[str, str]:
    """Return the run and the type of the event on a line; ("", "") if the line holds no event."""
    try:
        event = msgspec.json.decode(line)
        return str(event["run"]["runId"]), str(event["eventType"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return "", ""


class HttpSink:
    """Sends OpenLineage events to a server, each at least once. The receiver recognizes a repetition by run and
    type."""

    name = "openlineage.http"

    def __init__(self, url: Callable[[], str], api_key: Callable[[], str], transport: HttpTransport) -> None:
        self._url = url
        self._api_key = api_key
        self._transport = transport

    def send(self, letters: Sequence[Letter]) -> None:
        try:
            url, key = self._url(), self._api_key()
        except Refused as problem:  # the message itself is not at fault
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
    """Raise unless the server accepted the event. The error names only the status, because the answer's text may hold
    anything.
    """
    if 200 <= status < 300:
        return
    if status in _LATER or status >= 500:
        wait = headers.get("retry-after", "")
        after = int(wait) if wait.isascii() and wait.isdigit() and len(wait) < 6 else None
        raise Unavailable(f"{host} answers {status}", hint="check the server", retry_after_s=after)
    if status in _OURS:
        raise Denied(f"{host} answers {status}", hint="check openlineage.url, endpoint and api_key")
    if status < 400:
        raise Denied(f"{host} redirects ({status})", hint="set openlineage.url to the final address")
    raise Refused(f"{host} answers {status} to an event", hint="ask the server's operator which events it accepts")
