"""The engines that evaluate policies: embedded in this process, or an OPA server. decision.py checks every answer. A
failure raises `Unanswered` with a reason that quotes no value.
"""

from __future__ import annotations

import binascii
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kfm.errors import BadInput
from kfm.policy.policy_bundle import Policies

if TYPE_CHECKING:
    import http.client

MAX_ANSWER = 1 << 20
_DATA = "/v1/data/kfm/"


class Unanswered(Exception):
    """Raised if an engine gives no answer; `reason` says why, without values."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Engine(Protocol):
    name: str

    def ask(self, gate: str, body: bytes) -> bytes | str:
        """Return the verdict of a gate as JSON, unchecked."""
        ...


class Embedded:
    """Evaluates Rego in this process. A machine belongs to the thread that made it, so each thread has its own.

    It runs compiled programs, because the library's interpreter takes four times as long. In a program a function call
    costs more than its body, and a rule of another package under an imported name evaluates that whole package; so the
    policies inline such checks and name such rules in full. A program continues after an undefined value: the types
    allow only whole parts to be undefined, no comparison with a missing part holds, and tests try every set of missing
    parts in both engines and compare generated questions with OPA.
    """

    name = "embedded"

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._machines = threading.local()

    def ask(self, gate: str, body: bytes) -> str:
        machine = self._machines.__dict__.get(gate)
        if machine is None:
            machine = self._machines.__dict__[gate] = self._compiled(gate)
        try:
            machine.set_input_json(body.decode())
            answer: str = machine.execute()
        except BaseException:
            # Its state is unknown after a failure: the next question gets a new machine.
            del self._machines.__dict__[gate]
            raise
        return answer

    def _compiled(self, gate: str) -> Any:
        try:
            import regorus
        except ImportError:
            raise Unanswered("the policy engine is not installed") from None
        machine = regorus.Rvm()
        machine.load_program(_kept(gate, self._policies.digest) or _program(self._policies, gate))
        machine.set_data_json(self._policies.data)
        return machine


KEPT = ("minimum", "zone")  # the gates that runs use: their compiled programs ship with the product
_FOLDER = os.path.join(os.path.dirname(__file__), "compiled")


def _program(policies: Policies, gate: str) -> Any:
    import regorus

    return regorus.Program.compile_from_modules(policies.data, list(policies.files), [f"data.kfm.{gate}.verdict"])


def compiled(policies: Policies, gate: str) -> str:
    """Return the compiled program of exactly these policies, as it is shipped."""
    return f"{policies.digest}\n{binascii.b2a_base64(_program(policies, gate).serialize_binary()).decode()}"


def _kept(gate: str, digest: str) -> Any:
    """Return the shipped program; None if it belongs to other policies or has a format this engine does not know."""
    import regorus

    if gate not in KEPT:
        return None
    try:
        with open(os.path.join(_FOLDER, f"{gate}.txt"), encoding="ascii") as file:
            of, body = file.readline().rstrip("\n"), file.readline()
        if of != digest:
            return None
        program, must_be_compiled = regorus.Program.deserialize_binary(binascii.a2b_base64(body))
    except (OSError, ValueError, RuntimeError):
        return None
    return None if must_be_compiled else program


class Opa:
    """A policy engine that asks an OPA server over HTTP. A call takes at most `timeout_s` in all, including name lookup
    and slow answers: it runs in a thread, which is abandoned when the time is over."""

    name = "opa"

    def __init__(self, url: str, *, timeout_s: float = 2.0) -> None:
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(url)
            secure, host, port = parts.scheme == "https", parts.hostname or "", parts.port
        except ValueError:
            raise _no_address() from None
        if parts.scheme not in ("http", "https") or not host or parts.username or parts.query or parts.fragment:
            raise _no_address()
        self._secure, self._host, self._port, self._path = secure, host, port, parts.path.rstrip("/")
        self._timeout_s = timeout_s

    def ask(self, gate: str, body: bytes) -> bytes:
        said: list[tuple[int, bytes]] = []
        failed: list[Exception] = []
        line = self._connection()

        def talk() -> None:
            try:
                said.append(_exchange(line, f"{self._path}{_DATA}{gate}/verdict", body))
            except Exception as problem:
                failed.append(problem)

        thread = threading.Thread(target=talk, daemon=True, name="kfm-opa")
        thread.start()
        thread.join(self._timeout_s)
        late = thread.is_alive()  # before hanging up, which also ends the thread with an error
        _hang_up(line)
        if said:
            return _result(*said[0])
        slow = late or any(isinstance(problem, TimeoutError) for problem in failed)
        raise Unanswered("the policy server is too slow" if slow else "the policy server does not answer")

    def _connection(self) -> http.client.HTTPConnection:
        import http.client

        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=self._timeout_s)


def _no_address() -> BadInput:
    """Return the error for a malformed address. It does not quote the URL, which may hold a password."""
    return BadInput("the address of the OPA server is not a URL", hint="write http://HOST:PORT")


def _exchange(line: http.client.HTTPConnection, path: str, body: bytes) -> tuple[int, bytes]:
    line.request("POST", path, b'{"input":' + body + b"}", {"Content-Type": "application/json"})
    answer = line.getresponse()
    return answer.status, answer.read(MAX_ANSWER + 1)


def _hang_up(line: http.client.HTTPConnection) -> None:
    """Close the connection, which wakes a thread that still reads."""
    import socket

    with suppress(OSError):  # it is closed already
        if line.sock is not None:
            line.sock.shutdown(socket.SHUT_RDWR)
    line.close()


def _result(status: int, content: bytes) -> bytes:
    if status != 200:
        raise Unanswered("the policy server answers with an error")
    if len(content) > MAX_ANSWER:
        raise Unanswered("the policy server says too much")
    try:
        answer = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise Unanswered("the policy server does not answer with an object") from None
    if "result" not in answer:
        raise Unanswered("the policy server knows no such policy")
    return bytes(answer["result"])
