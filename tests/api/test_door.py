"""Whatever a sender does: nothing forged or replayed has an effect, nothing accepted is lost, no answer is a 5xx."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from kfm import config
from kfm.app.session.session import open_session
from kfm.errors import BadInput
from kfm.model.secret import Secret
from kfm.scheduling.webhook_requests import Hook, Rejected, verify
from tests.api.door import SECRETS, Case, Senders, environment, installation, send_all, served


def requests(seed: int, count: int) -> list[Case]:
    senders = Senders(seed)
    makers = (senders.valid, senders.replayed, senders.forged)
    return [makers[n % 3]() for n in range(count)]


def kept(folder: Path) -> list[str]:
    with open_session(config.load(str(folder / "kfm.yml"), {}), mode="read") as session:
        return [trigger.trigger_id for trigger in session.state.inbox.waiting()]


def storm(folder: Path, cases: list[Case]) -> Counter[str]:
    with served(installation(folder)) as (port, process):
        answers = asyncio.run(send_all(port, cases))
        assert process.poll() is None
    wrong = [(case.kind, status) for case, status in zip(cases, answers, strict=True) if status not in case.statuses]
    assert not wrong, wrong[:10]
    accepted = Counter(case.effect for case, status in zip(cases, answers, strict=True) if status == 202)
    meant = {case.effect for case in cases if case.effect}
    assert set(accepted) == meant, "every delivery is taken"
    assert set(accepted.values()) == {1}, "and each once, however often it came"
    assert len(kept(folder)) == len(meant)
    return Counter(case.kind for case in cases)


def test_another_time_is_never_the_one_that_was_signed_though_the_clock_ticks_meanwhile() -> None:
    seconds = itertools.count(1_763_277_121)
    senders = Senders(1, now=lambda: next(seconds) * 1000)
    hook = Hook(source_id="std", secrets=(Secret(SECRETS["std"].encode()),), accept="standard")
    cases = [case for case in (senders.forged() for _ in range(2_000)) if case.kind == "other_time"]
    assert len(cases) > 50
    for case in cases:
        headers = [(name.encode(), value) for name, value in case.headers]
        with pytest.raises(Rejected) as caught:
            verify(hook, headers, case.body, int(dict(case.headers)["webhook-timestamp"]) * 1000)
        assert caught.value.reason == "signature.mismatch"


def test_nothing_forged_or_replayed_has_an_effect(tmp_path: Path) -> None:
    kinds = storm(tmp_path, requests(1, 3_000))
    assert kinds["valid"] >= 1_000 and kinds["replayed"] >= 500 and len(kinds) >= 20
    log = (tmp_path / ".kfm/webhook_failures.jsonl").read_bytes()
    assert len(log.splitlines()) > 500
    for line in log.splitlines():
        assert set(json.loads(line)) == {"ts", "source_id", "reason", "body_sha256", "size"}
    for secret in SECRETS.values():
        assert secret.encode() not in log
    assert b"etag-change" not in log and b"sha256=" not in log


@pytest.mark.long
def test_nothing_forged_or_replayed_has_an_effect_among_three_hundred_thousand(tmp_path: Path) -> None:
    kinds = storm(tmp_path, requests(2, 300_000))
    assert sum(kinds.values()) == 300_000
    sizes = [(tmp_path / f".kfm/webhook_failures.jsonl{end}").stat().st_size for end in ("", ".1")]
    assert all(size <= 1 << 20 for size in sizes), "the log of refusals stays within its bounds"


@pytest.mark.parametrize("seed", range(6))
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, seed: int) -> None:
    """The observer is the sender: whatever it was told 202 for is in the inbox after kill -9."""
    senders = Senders(seed)
    cases = [senders.valid() for _ in range(400)]
    told: list[int] = []

    async def send_and_kill(port: int, process: subprocess.Popen[str]) -> None:
        async def killer() -> None:
            while len(told) < 40 + 50 * seed:
                await asyncio.sleep(0)
            process.send_signal(signal.SIGKILL)

        async def sender(mine: list[Case]) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for case in mine:
                writer.write(case.request())
                head = await reader.readuntil(b"\r\n\r\n")
                told.append(int(head[9:12]))
                await reader.readuntil(b"\n")

        tasks = [asyncio.create_task(sender(cases[n::8])) for n in range(8)]
        await killer()
        await asyncio.gather(*tasks, return_exceptions=True)

    with served(installation(tmp_path)) as (port, process):
        asyncio.run(send_and_kill(port, process))
        assert process.wait(timeout=30) == -signal.SIGKILL, "the fault fired"
    assert 0 < len(told) < len(cases) and set(told) == {202}
    assert len(told) <= len(kept(tmp_path)) <= len(told) + 8, "at most one more for each open connection"


def test_a_sender_who_never_ends_its_head_or_sends_too_much_of_it_is_hung_up_on(tmp_path: Path) -> None:
    async def long_head(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /webhooks/plain HTTP/1.1\r\nx-a: ")
        try:
            for _ in range(64):
                writer.write(b"a" * 4096)
                await writer.drain()
            return await reader.read(100)
        except ConnectionError:
            return b""

    with served(installation(tmp_path)) as (port, process):
        assert asyncio.run(long_head(port)) == b""
        assert process.poll() is None


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"GET /webhooks/plain HTTP/1.1\r\nhost: x\r\n\r\n", 405),
        (b"POST /elsewhere HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", 404),
        (b"POST /webhooks/ HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", 404),
        (b"POST /webhooks/a/b HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", 404),
        (b"POST /webhooks/%ff%0a HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", 403),
        (b"POST /webhooks/plain HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999999\r\n\r\n", 413),
        (b"POST /webhooks/plain HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST /webhooks/plain HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n", 200),
    ],
)
def test_a_request_that_is_none_gets_a_4xx(door_port: int, request_text: bytes, status: int) -> None:
    async def ask() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", door_port)
        writer.write(request_text)
        head = await reader.readuntil(b"\r\n")
        writer.close()
        return int(head[9:12])

    assert asyncio.run(ask()) == status


@pytest.fixture(scope="module")
def door_port(tmp_path_factory: pytest.TempPathFactory) -> object:
    with served(installation(tmp_path_factory.mktemp("door"))) as (port, _):
        yield port


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("KFM_SECRET_PLAIN", "", "the secret env:KFM_SECRET_PLAIN is empty"),
        ("KFM_SECRET_PLAIN", "tiny", "the secret env:KFM_SECRET_PLAIN is shorter than 32 bytes"),
        ("KFM_SECRET_STD", "not base64 - " * 4, "a Standard Webhooks secret is not base64"),
        ("KFM_SECRET_PLAIN", SECRETS["hub"], "webhooks hub and plain have the same secret"),
    ],
)
def test_an_interface_with_a_weak_secret_does_not_start(tmp_path: Path, name: str, value: str, complaint: str) -> None:
    command = [sys.executable, "-m", "kfm.cli.main", "webhooks", "serve", "--port", "0"]
    env = {**environment(), name: value}
    done = subprocess.run(command, cwd=installation(tmp_path), env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert complaint in done.stderr
    assert value == "" or value not in done.stderr


def test_a_secret_file_open_to_others_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 40 + "\n")
    os.chmod(secret, 0o644)
    resolved = config.load(str(installation(tmp_path) / "kfm.yml"), {})
    with pytest.raises(BadInput, match="open to others"):
        resolved.secret("file:secret", {})
    os.chmod(secret, 0o600)
    assert resolved.secret("file:secret", {}).reveal() == b"s" * 40
    assert "s" * 40 not in repr(resolved.secret("file:secret", {}))


def test_an_interface_open_to_other_machines_needs_tls_or_a_proxy(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kfm.cli.main", "webhooks", "serve", "--host", "0.0.0.0", "--port", "0"]
    folder = installation(tmp_path)
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "there is no TLS" in done.stderr


TLS = Path(__file__).parent.parent / "sources" / "tls"


@pytest.mark.parametrize(
    ("cert", "key", "complaint"),
    [
        ("nope.pem", "key.pem", "--tls-cert 'nope.pem' cannot be read: no such file or directory"),
        ("localhost.pem", "nope.pem", "--tls-key 'nope.pem' cannot be read: no such file or directory"),
        ("", "key.pem", "--tls-cert '' cannot be read: no such file or directory"),
        (".", "key.pem", "--tls-cert '.' cannot be read: is a directory"),
        ("kfm.yml", "key.pem", "--tls-cert 'kfm.yml' holds no certificate"),
        ("key.pem", "key.pem", "--tls-cert 'key.pem' holds no certificate"),
        ("localhost.pem", "kfm.yml", "--tls-key 'kfm.yml' holds no key that can be used"),
        ("localhost.pem", "other_key.pem", "--tls-key 'other_key.pem' is not the key of --tls-cert 'localhost.pem'"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_refused_before_anything_is_announced(
    tmp_path: Path, cert: str, key: str, complaint: str
) -> None:
    folder = installation(tmp_path)
    for name in ("localhost.pem", "key.pem", "other_key.pem"):
        shutil.copy(TLS / name, folder)
    command = [sys.executable, "-m", "kfm.cli.main", "webhooks", "serve", "--tls-cert", cert, "--tls-key", key]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (folder / ".kfm").exists()


def test_an_interface_with_a_certificate_is_reached_by_tls(tmp_path: Path) -> None:
    files = ["--tls-cert", str(TLS / "localhost.pem"), "--tls-key", str(TLS / "key.pem")]
    with served(installation(tmp_path), *files) as (port, _):
        context = ssl.create_default_context(cafile=str(TLS / "authority.pem"))
        status = 503
        for _ in range(300):  # it listens before its state is open, and says so
            connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
            connection.request("GET", "/readyz")
            status = connection.getresponse().status
            if status != 503:
                break
            time.sleep(0.1)
        assert status == 200
        connection.close()
