"""A real HTTP receiver in its own process, and senders that speak to it over real sockets."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kfm.clock import SystemClock, rfc3339
from kfm.model.secret import Secret
from kfm.scheduling.webhook_requests import signature

SECRETS = {name: f"{name}-" + "0123456789abcdef" * 2 for name in ("plain", "hub", "std", "off")}
SECRETS["std"] = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="
CONFIG = """
datasets:
  wells:
    updater: wells.py:Wells
    sources: {wells: {uri: wells.csv, format: csv}}
webhooks:
  plain: {datasets: [wells], secrets: [env:KFM_SECRET_PLAIN]}
  hub: {datasets: [wells], secrets: [env:KFM_SECRET_HUB], accept: github}
  std: {datasets: [wells], secrets: [env:KFM_SECRET_STD], accept: standard}
  "off": {datasets: [wells], secrets: [env:KFM_SECRET_OFF], enabled: false}
"""
UPDATER = """
from kfm import Output, Plan, Step, Updater


class Wells(Updater):
    id = "wells"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("wells")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        return Output.csv(read.csv(0))
"""


def installation(folder: Path) -> Path:
    (folder / "kfm.yml").write_text(CONFIG)
    (folder / "wells.py").write_text(UPDATER)
    (folder / "wells.csv").write_text("api,depth\n15-001,100\n15-002,250\n")
    return folder


def environment(**more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KFM_")}
    return {**inherited, **{f"KFM_SECRET_{name.upper()}": value for name, value in SECRETS.items()}, **more}


@contextmanager
def served(folder: Path, *flags: str, **env: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The port, and the process that listens there; stopped as an operator would stop it."""
    command = [sys.executable, "-m", "kfm.cli.main", "--json", "webhooks", "serve", "--port", "0", *flags]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith('{"listening"'), (line, process.communicate(timeout=60))
        yield int(json.loads(line)["listening"].rpartition(":")[2]), process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


class Case(NamedTuple):
    kind: str
    source: str
    headers: tuple[tuple[str, bytes], ...]
    body: bytes
    statuses: frozenset[int]  # what the receiver may answer
    effect: str  # the delivery it stands for, or empty: it must leave nothing

    def request(self) -> bytes:
        head = [b"POST /webhooks/%s HTTP/1.1" % self.source.encode(), b"host: door"]
        head += [name.encode() + b": " + value for name, value in self.headers]
        head.append(b"content-length: %d" % len(self.body))
        return b"\r\n".join(head) + b"\r\n\r\n" + self.body


TAKEN = frozenset({202, 200})  # 200 if the very same message came before, or is on its way
REFUSED = frozenset({403})
MALFORMED = frozenset({400})


class Senders:
    """Honest ones, and those who try everything else. The same seed gives the same requests but for the time.

    All are made before the first is sent, and the last may wait minutes for its turn: what is stale stays so, what is
    fresh too. The exact bounds are in conformance/webhooks.
    """

    def __init__(self, seed: int, now: Callable[[], int] | None = None, count: int = 0) -> None:
        self._random = random.Random(seed)
        self._count = count  # of deliveries before: each has an id of its own
        self._valid: list[Case] = []
        self._now = now or SystemClock().now_ms

    def valid(self) -> Case:
        self._count += 1
        source = self._random.choice(("plain", "plain", "hub", "std"))
        name = f"delivery-{self._count}"
        if source == "plain":
            body = self._unified(name, self._random.choice((0, 0, -60, 290)))
            headers = (("x-kfm-signature", self._hex(source, body)),)
        elif source == "hub":
            body = json.dumps({"ref": "refs/heads/main", "n": self._count}).encode()
            headers = (
                ("x-hub-signature-256", self._hex(source, body)),
                ("x-github-event", b"push"),
                ("x-github-delivery", name.encode()),
            )
        else:
            body = b'{"type":"stations.changed"}'
            headers = self._standard(name, body)
        case = Case("valid", source, headers, body, TAKEN, name)
        self._valid.append(case)
        return case

    def replayed(self) -> Case:
        if not self._valid:
            return self.valid()
        case = self._random.choice(self._valid[-200:])
        if case.source == "hub" and self._random.random() < 0.5:  # its id is not signed: a thief may change it
            headers = (*case.headers[:2], ("x-github-delivery", b"stolen-%d" % self._random.getrandbits(60)))
            return case._replace(kind="replayed under another id", headers=headers)
        return case._replace(kind="replayed")

    def forged(self) -> Case:
        make = self._random.choice(
            (
                self._flipped_body, self._flipped_signature, self._other_time, self._stale, self._concatenated,
                self._empty_secret, self._other_algorithm, self._twice, self._unsigned, self._unknown, self._off,
                self._other_scheme, self._not_utf8, self._duplicate_keys, self._not_json, self._oversize,
                self._elsewhere,
            )
        )  # fmt: skip
        case = make()
        return case._replace(kind=make.__name__.strip("_"), effect="")

    # -- the parts

    def _unified(self, name: str, ago_s: int = 0, **more: object) -> bytes:
        said = {
            "source_id": "plain",
            "trigger": "etag-change",
            "event_type": "update",
            "sent_at": rfc3339(self._now() + ago_s * 1000),
            "metadata": {"delivery_id": name},
            "integrity": {"version": "v1"},
        }
        return json.dumps({**said, **more}).encode()

    def _hex(self, source: str, body: bytes) -> bytes:
        return signature("kfm", Secret(SECRETS[source].encode()), body).encode()

    def _standard(self, name: str, body: bytes, ago_s: int = 0) -> tuple[tuple[str, bytes], ...]:
        stamp = str(self._now() // 1000 + ago_s)
        sealed = signature("standard", Secret(SECRETS["std"].encode()), body, message_id=name, timestamp=stamp)
        return (
            ("webhook-id", name.encode()),
            ("webhook-timestamp", stamp.encode()),
            ("webhook-signature", sealed.encode()),
        )

    def _plain(self, body: bytes, sealed: bytes | None = None, statuses: frozenset[int] = REFUSED) -> Case:
        return Case("", "plain", (("x-kfm-signature", sealed or self._hex("plain", body)),), body, statuses, "")

    def _fresh(self) -> str:
        return f"forged-{self._random.getrandbits(80)}"

    # -- the tricks

    def _flipped_body(self) -> Case:
        body = bytearray(self._unified(self._fresh()))
        sealed = self._hex("plain", bytes(body))
        body[self._random.randrange(len(body))] ^= 1 << self._random.randrange(8)
        return self._plain(bytes(body), sealed)

    def _flipped_signature(self) -> Case:
        body = self._unified(self._fresh())
        sealed = bytearray(self._hex("plain", body))
        place = self._random.randrange(7, len(sealed))
        sealed[place] = self._random.choice([c for c in b"0123456789abcdef" if c != sealed[place]])
        return self._plain(body, bytes(sealed))

    def _other_time(self) -> Case:
        """Fresh, too, but not the time that was signed: counted from that one, whatever the clock says by now."""
        name, (header, signed), sealed = self._standard(self._fresh(), b"{}")
        other = int(signed) + self._random.choice((1, -1, 60))
        return Case("", "std", (name, (header, str(other).encode()), sealed), b"{}", REFUSED, "")

    def _stale(self) -> Case:
        ago = self._random.choice((-305, 3_600, -86_400))
        if self._random.random() < 0.5:
            return Case("", "std", self._standard(self._fresh(), b"{}", ago), b"{}", REFUSED, "")
        return self._plain(self._unified(self._fresh(), ago))

    def _concatenated(self) -> Case:
        body = self._unified(self._fresh())
        return self._plain(body, b"sha256=" + hashlib.sha256(SECRETS["plain"].encode() + body).hexdigest().encode())

    def _empty_secret(self) -> Case:
        body = self._unified(self._fresh())
        return self._plain(body, b"sha256=" + hmac.new(b"", body, hashlib.sha256).hexdigest().encode())

    def _other_algorithm(self) -> Case:
        body = self._unified(self._fresh())
        name = self._random.choice(("sha1", "md5", "sha512"))
        mac = hmac.new(SECRETS["plain"].encode(), body, name).hexdigest().encode()
        return self._plain(body, self._random.choice((name.encode() + b"=" + mac, b"sha256=" + mac)))

    def _twice(self) -> Case:
        body = self._unified(self._fresh())
        sealed = ("x-kfm-signature", self._hex("plain", body))
        other = self._random.choice(
            (sealed, ("x-kfm-signature", b"sha256=" + b"0" * 64), ("webhook-signature", b"v1,x"))
        )
        return Case("", "plain", (sealed, other), body, REFUSED, "")

    def _unsigned(self) -> Case:
        return Case("", "plain", (), self._unified(self._fresh()), REFUSED, "")

    def _unknown(self) -> Case:
        return self._plain(self._unified(self._fresh()))._replace(source=f"no-{self._random.getrandbits(20)}")

    def _off(self) -> Case:
        body = self._unified(self._fresh(), source_id="off")
        return Case("", "off", (("x-kfm-signature", self._hex("off", body)),), body, REFUSED, "")

    def _other_scheme(self) -> Case:
        body = self._unified(self._fresh())
        return Case("", "plain", (("x-hub-signature-256", self._hex("plain", body)),), body, REFUSED, "")

    def _not_utf8(self) -> Case:
        return self._plain(b'{"source_id": "\xff\xc0"}', statuses=MALFORMED)

    def _duplicate_keys(self) -> Case:
        body = self._unified(self._fresh())[:-1] + b', "event_type": "delete"}'
        return self._plain(body, statuses=MALFORMED)

    def _not_json(self) -> Case:
        junk = (b"", b"[]", b"null", b"{", b'{"a":NaN}', b"[" * 5000, self._random.randbytes(200))
        return self._plain(self._random.choice(junk), statuses=MALFORMED)

    def _oversize(self) -> Case:
        return self._plain(b" " * (256 * 1024 + 1), statuses=frozenset({413}))

    def _elsewhere(self) -> Case:
        return self._plain(self._unified(self._fresh(), source_id="std"))


async def send_all(port: int, cases: list[Case], connections: int = 16) -> list[int]:
    """The status of each, in their order. Each sender keeps its connection as long as the receiver does."""
    answers = [0] * len(cases)
    waiting = iter(range(len(cases)))

    async def sender() -> None:
        reader: asyncio.StreamReader | None = None
        writer: asyncio.StreamWriter | None = None
        for n in waiting:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert reader is not None
            writer.write(cases[n].request())
            head = await reader.readuntil(b"\r\n\r\n")
            answers[n] = int(head[9:12])
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(length)
            if b"connection: close" in head.lower():
                writer.close()
                writer = None
        if writer is not None:
            writer.close()

    await asyncio.gather(*(sender() for _ in range(connections)))
    return answers
