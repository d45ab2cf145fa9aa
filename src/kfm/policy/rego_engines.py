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
MAX_LISTED = 64 << 20  # the texts of all policies, with their syntax trees
_DATA, _POLICIES, _QUERY = "/v1/data/kfm/", "/v1/policies", "/v1/query"


class Unanswered(Exception):
    """Raised if an engine gives no answer; `reason` says why, without values."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Engine(Protocol):
    name: str

    asks_both: bool  # whether it knows the gate `both`, which decides about Work and Processed in one evaluation

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
    asks_both = True

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


BOTH = "both"
KEPT = ("minimum", "zone", BOTH, "serve")  # the gates of runs and of requests: their compiled programs ship with KFM
_FOLDER = os.path.join(os.path.dirname(__file__), "compiled")
# One evaluation of two questions. The question about Processed is the input, the one about Work is `input.work`. Only
# reasons to refuse are wanted: warnings of a yes about public data are not recorded.
_BOTH = """package kfm.both

verdict := {
	"work": {
		"allow": data.kfmwork.zone.allow,
		"deny": data.kfmwork.zone.deny,
		"warn": [],
		"obligations": data.kfmwork.zone.obligations,
		"subjects": input.work.subjects,
		"question": input.work.question,
		"policy": data.kfmwork.zone.policy,
	},
	"processed": {
		"allow": data.kfm.zone.allow,
		"deny": data.kfm.zone.deny,
		"warn": [],
		"obligations": data.kfm.zone.obligations,
		"subjects": input.subjects,
		"question": input.question,
		"policy": data.kfm.zone.policy,
	},
}
"""


def _program(policies: Policies, gate: str) -> Any:
    import regorus

    files = list(policies.files)
    if gate == BOTH:
        files += [*((f"work/{name}", _about_work(text)) for name, text in policies.files), ("both.rego", _BOTH)]
    return regorus.Program.compile_from_modules(policies.data, files, [f"data.kfm.{gate}.verdict"])


def _about_work(text: str) -> str:
    """Return a policy that reads its question from `input.work`. The compiler knows no `with input as`, so the rules
    are there a second time, in packages of their own."""
    import re

    text = re.sub(r"^package kfm\.", "package kfmwork.", text, flags=re.MULTILINE)
    return re.sub(r"\binput\.", "input.work.", re.sub(r"\bdata\.kfm\.(?!bundle\b)", "data.kfmwork.", text))


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
    """A policy engine that asks an OPA server over HTTP. A call takes at most `timeout_s`, including name lookup and
    slow answers: it runs in a thread, which is abandoned when the time is over.

    A server that was started on KFM's bundle names its policies in every answer. One that was started on a folder of
    policies names none: it is asked for their texts, and answers only if they are `policies`."""

    name = "opa"
    asks_both = False

    def __init__(self, url: str, *, timeout_s: float = 2.0, policies: Policies | None = None) -> None:
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
        self._policies = policies

    def ask(self, gate: str, body: bytes) -> bytes:
        answer = _answer(*self._call("POST", f"{_DATA}{gate}/verdict", b'{"input":' + body + b"}"))
        result = _result(answer)
        if self._policies is not None and _is_unnamed(result):
            return self._unnamed(gate, body, self._policies)
        return bytes(result)

    def _unnamed(self, gate: str, body: bytes, policies: Policies) -> bytes:
        """Return the answer of a server whose policies have no name, after a comparison of their texts. The name that
        every answer repeats is part of the query."""
        listed = _result(_answer(*self._call("GET", _POLICIES, b""), most=MAX_LISTED))
        try:
            texts = [module.raw for module in msgspec.json.decode(listed, type=list[_Module])]
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise Unanswered("the policy server does not say which policies it has") from None
        if not same_policies(texts, policies):
            raise Unanswered("the policy server has other policies: `kfm policy bundle` writes those in force")
        named = f'verdict := data.kfm.{gate}.verdict with data.kfm.bundle as {{"digest": "{policies.digest}"}}'
        asked = b'{"query":' + msgspec.json.encode(named) + b',"input":' + body + b"}"
        found = _result(_answer(*self._call("POST", _QUERY, asked)))
        try:
            (only,) = msgspec.json.decode(found, type=list[_Found])
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError):
            raise Unanswered("the policy server gives no verdict") from None
        return bytes(only.verdict)

    def _call(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        said: list[tuple[int, bytes]] = []
        failed: list[Exception] = []
        line = self._connection()

        def talk() -> None:
            try:
                said.append(_exchange(line, method, f"{self._path}{path}", body))
            except Exception as problem:
                failed.append(problem)

        thread = threading.Thread(target=talk, daemon=True, name="kfm-opa")
        thread.start()
        thread.join(self._timeout_s)
        late = thread.is_alive()  # before hanging up, which also ends the thread with an error
        _hang_up(line)
        if said:
            return said[0]
        slow = late or any(isinstance(problem, TimeoutError) for problem in failed)
        raise Unanswered("the policy server is too slow" if slow else "the policy server does not answer")

    def _connection(self) -> http.client.HTTPConnection:
        import http.client

        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=self._timeout_s)


def _no_address() -> BadInput:
    """Return the error for a malformed address. It does not quote the URL, which may hold a password."""
    return BadInput("the address of the OPA server is not a URL", hint="write http://HOST:PORT")


def _exchange(line: http.client.HTTPConnection, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    line.request(method, path, body or None, {"Content-Type": "application/json"})
    answer = line.getresponse()
    return answer.status, answer.read(MAX_LISTED + 1 if path.endswith(_POLICIES) else MAX_ANSWER + 1)


def _hang_up(line: http.client.HTTPConnection) -> None:
    """Close the connection, which wakes a thread that still reads."""
    import socket

    with suppress(OSError):  # it is closed already
        if line.sock is not None:
            line.sock.shutdown(socket.SHUT_RDWR)
    line.close()


def _answer(status: int, content: bytes, most: int = MAX_ANSWER) -> dict[str, msgspec.Raw]:
    if status != 200:
        raise Unanswered("the policy server answers with an error")
    if len(content) > most:
        raise Unanswered("the policy server says too much")
    try:
        return msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise Unanswered("the policy server does not answer with an object") from None


def _result(answer: dict[str, msgspec.Raw]) -> msgspec.Raw:
    if "result" not in answer:
        raise Unanswered("the policy server knows no such policy")
    return answer["result"]


def _is_unnamed(result: msgspec.Raw) -> bool:
    """Return whether a verdict names no policies, as from a server that was not started on a bundle."""
    try:
        return msgspec.json.decode(result, type=_Named).policy == ""
    except (msgspec.DecodeError, msgspec.ValidationError):
        return False


class _Named(msgspec.Struct):
    policy: str


class _Module(msgspec.Struct):
    raw: str = ""


class _Found(msgspec.Struct):
    verdict: msgspec.Raw


def same_policies(texts: list[str], policies: Policies) -> bool:
    """Return whether modules are these policies. Names of files, comments and empty lines do not matter. Further
    modules, such as tests, are accepted only in packages from which no rule reaches into a package of the policies."""
    wanted = [_meaning(text) for _, text in policies.files]
    packages = {_package(text) for text in wanted}
    rest = []
    for text in map(_meaning, texts):
        if text in wanted:
            wanted.remove(text)
        else:
            rest.append(_package(text))
    return not wanted and not any(_touches(one, other) for one in rest for other in packages)


def _meaning(text: str) -> str:
    """Return the lines of a module without comments of whole lines. A text with a raw string over several lines stays
    as it is, because a line in such a string may look like a comment."""
    lines = [line.rstrip() for line in text.splitlines()]
    code = [line for line in lines if line and not line.lstrip().startswith("#")]
    return text if any(line.count("`") % 2 for line in code) else "\n".join(code)


def _package(text: str) -> tuple[str, ...]:
    """Return the parts of a module's package; none if they cannot be told, which touches everything."""
    first = next((line for line in text.splitlines() if line.startswith("package ")), "")
    name = first.removeprefix("package ").strip()
    return tuple(name.split(".")) if name.replace(".", "").replace("_", "").isalnum() else ()


def _touches(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether one package contains the other."""
    return one[: len(other)] == other[: len(one)]
