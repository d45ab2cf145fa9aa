"""The errors of a Postgres server as errors of KFM: one line with the cure, no secret, no value of the data."""

from __future__ import annotations

from typing import NamedTuple

from kfm.errors import Broken, Busy, Denied, KfmError, Refused, StorageFailed, Unavailable
from kfm.store.corruption import damaged

OLDEST = 130_000  # Postgres 13


class Rejected(Exception):
    """The server refused a statement."""

    def __init__(self, state: str, said: str) -> None:
        super().__init__(state)
        self.state = state  # SQLSTATE
        self.said = said

    @property
    def ends_connection(self) -> bool:
        """Return whether the server closes the connection with this error: it restarts, an administrator ended the
        process, or the transaction was idle for too long."""
        return self.state in ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04") or self.state[:2] == "08"


class ConnectionLost(Exception):
    """No answer came: a statement may have been carried out or not."""

    def __init__(self, said: Rejected | None = None, *, problem: KfmError | None = None) -> None:
        super().__init__("connection lost")
        self.said = said
        self.problem = problem  # what to report if it does not come back


def missing_driver() -> Unavailable:
    return Unavailable("the Postgres driver is not installed", hint="pip install 'kansas-frontier-matrix[postgres]'")


class Answer(NamedTuple):
    """What KFM answers to a problem of a server. `passes`: waiting may cure it."""

    kind: type[KfmError]
    what: str
    hint: str
    passes: bool = False


_PASSWORD = Answer(Denied, "refuses the password", "check `postgres: {password: …}` and the user in `state`")
TAKES_NO_WRITES = "name the primary server in `state`, not a replica; `kfm doctor` says if it is a setting of this one"
_DATABASE = Answer(Refused, "has no such database or user", "create it, or correct `state`")
_NO_ADDRESS = Answer(Unavailable, "has no address", "check the host in `state`")
_NAME_SERVICE = Answer(
    Unavailable, "has no address just now", "check the host in `state`, and the name service", passes=True
)
_STARTS = Answer(
    Unavailable, "is starting, stopping or recovering", "run the command again when the server is up", passes=True
)
_FULL = Answer(
    Unavailable, "has too many connections", "raise max_connections, use a pooler, or run fewer workers", passes=True
)
_AWAY = Answer(Unavailable, "does not answer", "check that it runs, and the host and port in `state`", passes=True)
# What libpq, the server or a pooler says while KFM connects. The first words that occur decide.
_CONNECT: dict[str, Answer] = {
    "password authentication failed": _PASSWORD,
    "SASL authentication failed": _PASSWORD,
    "no password supplied": Answer(Denied, "wants a password", "name one: `postgres: {password: env:NAME}`"),
    "no pg_hba.conf entry": Answer(
        Denied,
        "does not let this user in from here",
        "ask its administrator for a line in pg_hba.conf, or set `postgres: {sslmode: require}`",
    ),
    "authentication failed": _PASSWORD,
    "not permitted to log in": Answer(Denied, "does not let this user in", "ask its administrator for the right"),
    "does not exist": _DATABASE,
    "no such database": _DATABASE,
    "no such user": _DATABASE,
    "does not support SSL": Answer(
        Refused, "offers no encryption", "turn `ssl` on at the server, or set `postgres: {sslmode: prefer}`"
    ),
    "certificate verify failed": Answer(
        Refused, "has a certificate that this machine does not trust", "install its root certificate where libpq looks"
    ),
    "root certificate": Answer(
        Refused,
        "cannot be checked: there is no root certificate",
        "put it where libpq looks, or set `postgres: {sslmode: require}`",
    ),
    "server certificate for": Answer(
        Refused, "has the certificate of another host", "use the host that the certificate names"
    ),
    "SSL required": Answer(Refused, "accepts only encrypted connections", "set `postgres: {sslmode: require}`"),
    "Name or service not known": _NO_ADDRESS,
    "No address associated": _NO_ADDRESS,
    "could not translate host name": _NAME_SERVICE,
    "starting up": _STARTS,
    "shutting down": _STARTS,
    "recovery mode": _STARTS,
    "not yet accepting connections": _STARTS,
    "not accepting connections": _STARTS,
    "too many clients": _FULL,
    "too many connections": _FULL,
    "remaining connection slots": _FULL,
    "no more connections allowed": _FULL,
    "Connection refused": _AWAY,
    "No such file or directory": _AWAY,
    "timeout expired": _AWAY,
    "invalid port number": Answer(Refused, "has no such port", "correct `state`"),
}


def connect_problem(said: str, place: str) -> tuple[KfmError, bool]:
    """Return the error for a failed attempt to connect, and whether waiting may cure it."""
    for words, answer in _CONNECT.items():
        if words in said:
            return answer.kind(f"{place} {answer.what}", hint=answer.hint), answer.passes
    return Unavailable(f"{place} cannot be reached", hint="check that it runs, and the network"), True


# By the beginning of the SQLSTATE. The first that fits decides.
_STATES: dict[str, Answer] = {
    "55P03": Answer(Busy, "is busy: another process is writing to the state", "try again when it is done"),
    "25006": Answer(Refused, "takes no writes", TAKES_NO_WRITES),
    "42501": Answer(
        Denied,
        "does not grant this user the right to do it",
        "let the user own the schema: CREATE SCHEMA … AUTHORIZATION …",
    ),
    "53100": Answer(
        StorageFailed, "cannot write the state: its disk is full", "make room on the server, then `kfm resume`"
    ),
    "53300": _FULL,
    "53": Answer(Unavailable, "is short of memory or other resources", "try again later"),
    "40001": Answer(Unavailable, "ended the read: too much has changed since it began", "run the command again"),
    "40P01": Answer(Unavailable, "ended the transaction: it waited for another one", "run the command again"),
    "57014": Answer(
        Unavailable,
        "ended a statement that took too long",
        "raise statement_timeout of this user, and run the command again",
    ),
    "58": Answer(StorageFailed, "failed to read or write its disk", "check it before anything else, then `kfm resume`"),
}
_NOT_OURS = ("42P01", "42703", "3F000", "42P10", "42804")


def statement_problem(refused: Rejected, place: str) -> KfmError:
    """Return the error for a refused statement. The server's words are left out, because they may quote a value."""
    state = refused.state
    if state[:2] == "XX":
        return damaged(f"{place} reports error {state}")
    if state in _NOT_OURS:
        return damaged("its tables are not those that KFM made")
    for start, answer in _STATES.items():
        if state.startswith(start):
            return answer.kind(f"{place} {answer.what}", hint=answer.hint)
    return Broken(f"{place} refused a statement with error {state or 'unknown'}", hint="see the server's log")


def too_old(version: int, place: str) -> Refused:
    return Refused(
        f"{place} is version {version // 10_000}, and KFM needs {OLDEST // 10_000}",
        hint="upgrade the server",
        code_hint="version.too_old",
    )


def read_only(place: str) -> Refused:
    return Refused(f"{place} is a read-only replica or takes no writes", hint=TAKES_NO_WRITES)


def unavailable(place: str) -> Unavailable:
    return Unavailable(f"the connection to {place} was lost", hint="run the command again")
