"""One connection to a Postgres server, used in pipelines: many statements in one round trip.

Every statement has its parameters and results in binary form, and nothing on the connection outlives a transaction, so
that a pooler may give each transaction another server process.
"""

from __future__ import annotations

import os
import select
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kfm.clock import Clock
from kfm.errors import KfmError
from kfm.store.postgres.server_errors import ConnectionLost, Rejected, connect_problem, missing_driver

try:
    from psycopg import Error as DriverError
    from psycopg import pq
except ImportError as problem:
    raise missing_driver() from problem

BYTEA, BIGINT, TEXT, BYTEAS, BIGINTS = 17, 20, 25, 1001, 1016
_PATIENCE_S = 60.0  # without any progress, after which a server that is waited for counts as lost
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0  # between two attempts to connect
_ATTEMPT_S = 10.0  # for one attempt
_IDLE = (pq.TransactionStatus.IDLE, pq.TransactionStatus.UNKNOWN)


class Statement(NamedTuple):
    """A statement with its parameters, each as an object identifier of its type and its binary form."""

    text: str
    parameters: Sequence[tuple[int, bytes]] = ()


Row = tuple[bytes | None, ...]


def number(value: int) -> tuple[int, bytes]:
    return BIGINT, struct.pack(">q", value)


def text(value: str) -> tuple[int, bytes]:
    return TEXT, value.encode()


def blob(value: bytes) -> tuple[int, bytes]:
    return BYTEA, value


def blobs(values: Sequence[bytes]) -> tuple[int, bytes]:
    """Return an array of byte strings as a parameter."""
    parts = [_array(BYTEA, len(values))]
    for value in values:
        parts += struct.pack(">i", len(value)), value
    return BYTEAS, b"".join(parts)


def numbers(values: Sequence[int]) -> tuple[int, bytes]:
    """Return an array of integers as a parameter."""
    return BIGINTS, _array(BIGINT, len(values)) + b"".join(struct.pack(">iq", 8, value) for value in values)


def _array(kind: int, length: int) -> bytes:
    return struct.pack(">iii", 0, 0, kind) if not length else struct.pack(">iiiii", 1, 0, kind, length, 1)


def as_number(value: bytes | None) -> int:
    return int.from_bytes(value or b"", "big", signed=True)


class PostgresConnection:
    """A connection that is made when it is needed, and again after it was lost."""

    def __init__(self, parameters: Mapping[str, str | int], wait_s: float, clock: Clock) -> None:
        self._parameters = {name: str(value) for name, value in parameters.items() if value not in ("", None)}
        self.place = place_of(self._parameters)
        self.wait_s = wait_s
        self.clock = clock
        self.round_trips = 0
        self.connections = 0  # made so far
        self._pg: pq.abc.PGconn | None = None
        self._pid = os.getpid()
        self._pending = 0  # pipelines sent without waiting for their results
        self._conninfo = b" ".join(
            f"{name}='{_escaped(value)}'".encode() for name, value in ({**_DEFAULTS, **self._parameters}).items()
        )

    # -- connecting

    @property
    def is_open(self) -> bool:
        return self._pg is not None and self._pid == os.getpid()

    @property
    def server_version(self) -> int:
        return self._pg.server_version if self._pg is not None else 0

    @property
    def process_id(self) -> int:
        """Return the server process as the connection's start named it; a pooler names none of the server's."""
        return self._pg.backend_pid if self._pg is not None else 0

    def end_forgotten(self) -> None:
        """Undo a transaction that an interrupt left open just after it began. Nobody would end it, or its lock."""
        open_ = (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)
        if self._pg is not None and self.is_open and not self._pending and self._pg.transaction_status in open_:
            self.post(Statement("ROLLBACK"))

    def until(self) -> float:
        """Return the instant, on the monotonic clock, up to which an operation that begins now may wait."""
        return self.clock.monotonic() + self.wait_s

    def connect(self, until: float, problem: KfmError | None = None) -> None:
        """Connect unless connected, with attempts up to `until`. Raise the last problem of a server that stays away,
        and at once one that waiting does not cure."""
        if self.is_open:
            return
        self.drop()
        self._pid = os.getpid()
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                self._pg = self._attempt(until)
            except DriverError as failed:
                problem, passes = connect_problem(str(failed), self.place)
            else:
                self._pending = 0
                self.connections += 1
                return
            left_s = until - self.clock.monotonic()
            if not passes or left_s <= 0:
                raise problem
            self.clock.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _attempt(self, until: float) -> pq.abc.PGconn:
        ends = min(max(until, self.clock.monotonic() + 0.5), self.clock.monotonic() + _ATTEMPT_S)
        pg = pq.PGconn.connect_start(self._conninfo)
        try:
            while pg.status != pq.ConnStatus.BAD:
                status = pg.connect_poll()
                if status == pq.PollingStatus.OK:
                    pg.nonblocking = 1
                    pg.enter_pipeline_mode()
                    self.round_trips += 1
                    return pg
                if status == pq.PollingStatus.FAILED:
                    break
                events = select.POLLIN if status == pq.PollingStatus.READING else select.POLLOUT
                if not _poll(pg.socket, events, ends - self.clock.monotonic()):
                    raise DriverError("timeout expired")
            raise DriverError(pg.get_error_message("utf-8"))
        except BaseException:
            pg.finish()
            raise

    def drop(self) -> None:
        """Close the connection. A connection made before a fork is left to the process that made it."""
        pg, self._pg = self._pg, None
        if pg is not None and self._pid == os.getpid():
            pg.finish()

    # -- statements

    def run(self, *statements: Statement) -> list[list[Row]]:
        """Send the statements together, wait once, and return the rows of each. Raise Rejected for the first one that
        the server refused (the others did nothing), ConnectionLost if no answer came."""
        results: list[list[Row]] = []
        refused: Rejected | None = None
        for result in self._exchange(statements):
            if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
                results.append(_rows(result))
            elif refused is None and result.status != pq.ExecStatus.PIPELINE_ABORTED:
                refused = _rejection(result)
        if refused is not None:
            if refused.ends_connection:
                self.drop()
                raise ConnectionLost(refused)
            if self._pg is not None and self._pg.transaction_status not in _IDLE:
                self.post(Statement("ROLLBACK"))
            raise refused
        return results

    def post(self, *statements: Statement) -> None:
        """Send the statements without waiting for an answer: for the end of a transaction that wrote nothing."""
        with suppress(ConnectionLost):
            self._send(statements)

    def _send(self, statements: Sequence[Statement]) -> pq.abc.PGconn:
        pg = self._pg
        if pg is None or self._pid != os.getpid():
            raise ConnectionLost()
        try:
            for statement in statements:
                pg.send_query_params(
                    statement.text.encode(),
                    [value for _, value in statement.parameters],
                    param_types=[kind for kind, _ in statement.parameters],
                    param_formats=[pq.Format.BINARY] * len(statement.parameters),
                    result_format=pq.Format.BINARY,
                )
            pg.pipeline_sync()
            pg.flush()
        except DriverError as problem:
            self.drop()
            raise ConnectionLost() from problem
        except BaseException:
            self.drop()
            raise
        self._pending += 1
        return pg

    def _exchange(self, statements: Sequence[Statement]) -> list[pq.abc.PGresult]:
        """Send one pipeline and return its results. Those of earlier pipelines, which were not waited for, pass by."""
        pg = self._send(statements)
        self.round_trips += 1
        found: list[pq.abc.PGresult] = []
        try:
            while self._pending:
                unsent = pg.flush()
                if pg.is_busy():
                    if not _poll(
                        pg.socket, select.POLLIN | (select.POLLOUT if unsent else 0), _PATIENCE_S + self.wait_s
                    ):
                        raise DriverError("no answer")
                    pg.consume_input()
                    continue
                result = pg.get_result()
                if result is None:
                    if pg.status == pq.ConnStatus.BAD:
                        raise DriverError("connection lost")
                elif result.status == pq.ExecStatus.PIPELINE_SYNC:
                    self._pending -= 1
                elif self._pending == 1:
                    found.append(result)
                    if pg.status == pq.ConnStatus.BAD:
                        break
                elif pg.status == pq.ConnStatus.BAD:
                    raise DriverError("connection lost")
        except DriverError as problem:
            self.drop()
            last = _rejection(found[-1]) if found and found[-1].status == pq.ExecStatus.FATAL_ERROR else None
            raise ConnectionLost(last) from problem
        except BaseException:
            self.drop()
            raise
        return found


def _poll(fd: int, events: int, seconds: float) -> bool:
    watched = select.poll()
    watched.register(fd, events)
    return bool(watched.poll(max(0.0, seconds) * 1000))


def _rows(result: pq.abc.PGresult) -> list[Row]:
    columns = range(result.nfields)
    return [tuple(result.get_value(row, column) for column in columns) for row in range(result.ntuples)]


def _rejection(result: pq.abc.PGresult) -> Rejected:
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    said = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
    return Rejected(state, said)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


def place_of(parameters: Mapping[str, str]) -> str:
    """Return how messages name the server: never with a password."""
    host = parameters.get("host", "")
    if not host or host.startswith("/"):
        return "the Postgres server of this machine"
    return f"the Postgres server at {host}:{parameters.get('port', '5432')}"


_DEFAULTS = {
    "application_name": "kfm",
    "client_encoding": "UTF8",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
}
