"""The log of rejected webhook requests, one line each: never the body, signature or secret, and never more than two
files of a fixed size.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable

from kfm.clock import rfc3339
from kfm.model.canonical import canonical

LIMIT = 1 << 20  # bytes per file; the previous file is kept, so at most twice this


class FailureLog:
    """The file `webhook_failures.jsonl`, limited in size and rotated. A crash may lose its last lines, which changes no
    result."""

    def __init__(self, path: str, limit: int = LIMIT, tell: Callable[[str, str], None] | None = None) -> None:
        """`tell` receives a kind and a line if the log cannot be written; the request stays rejected."""
        self._path = path
        self._tell = tell
        self._limit = limit
        self._lock = threading.Lock()
        self._file: int | None = None
        self._size = 0

    def note(self, now_ms: int, source_claim: str, reason: str, body: bytes, size: int) -> None:
        """Record a rejected request. `source_claim` is the name the sender gave; canonical JSON escapes it."""
        claim = source_claim[:80].encode("utf-8", "backslashreplace").decode()
        line = canonical(
            {
                "ts": rfc3339(now_ms),
                "source_id": claim,
                "reason": reason,
                "body_sha256": hashlib.sha256(body).hexdigest(),
                "size": size,
            }
        )
        try:
            with self._lock:
                self._write(line + b"\n")
        except OSError as problem:
            if self._tell is not None:
                reason = (problem.strerror or "unknown").lower()
                told = f"{os.path.basename(self._path)} cannot be written: {reason}; rejected requests are not recorded"
                self._tell(told, told)

    def _write(self, line: bytes) -> None:
        if self._file is None:
            os.makedirs(os.path.dirname(self._path) or ".", mode=0o700, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._size = os.fstat(self._file).st_size
        if self._size + len(line) > self._limit:
            os.close(self._file)
            self._file = None
            # No sync: a power cut may take the end of this log.
            os.replace(self._path, self._path + ".1")
            self._write(line)
            return
        os.write(self._file, line)
        self._size += len(line)

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None
