"""Credentials of the workload itself: from the agent of a container, or for the token of a web identity."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kfm.bucket import Bucket, open_bucket
from kfm.config.s3_settings import BucketConfig
from kfm.errors import Refused, Unavailable
from tests.servers.seaweed import ACCESS, KEPT, SECRET, Seaweed
from tests.servers.seaweed import seaweed as seaweed

TOKEN = "token-of-the-workload"


class Agent:
    """Gives credentials to those who show the token."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.address = ""


@pytest.fixture
def agent() -> Iterator[Agent]:
    found = Agent()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.headers.get("authorization", ""))
            known = {
                "AccessKeyId": ACCESS,
                "SecretAccessKey": SECRET,
                "Token": "",
                "Expiration": "2099-01-01T00:00:00Z",
            }
            self._answer(
                json.dumps(known) if found.asked[-1] == TOKEN else "", 200 if found.asked[-1] == TOKEN else 401
            )

        def do_PUT(self) -> None:
            found.asked.append("PUT")
            self._answer("", 500)

        def _answer(self, text: str, status: int) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


def opened(seaweed: Seaweed, prefix: str) -> Bucket:
    settings = BucketConfig(endpoint=seaweed.endpoint, identity="workload")

    def secret(_reference: str) -> bytes:
        raise AssertionError("no key is configured")

    return open_bucket(settings, KEPT, prefix, secret, wait_s=2)


@pytest.fixture
def token(tmp_path: Path) -> str:
    (tmp_path / "token").write_text(TOKEN)
    return str(tmp_path / "token")


def test_the_agent_of_a_container_gives_credentials(
    seaweed: Seaweed, agent: Agent, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{agent.address}/v1/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token)
    bucket = opened(seaweed, "container")
    assert bucket.write("a", b"x") and bucket.write("b", b"x")
    assert agent.asked == [TOKEN], "credentials are asked for once"


@pytest.mark.long
def test_credentials_that_are_not_given_are_asked_for_and_named(
    seaweed: Seaweed, agent: Agent, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"{agent.address}/")
    with pytest.raises(Unavailable, match="this workload gets no credentials for the bucket"):
        opened(seaweed, "machine").write("a", b"x")
    assert agent.asked == ["PUT"] * len(agent.asked) != [], "a machine is asked, because nothing else is there"
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{agent.address}/v1/credentials")
    Path(token).write_text("another token")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token)
    with pytest.raises(Refused, match="this workload gets no credentials") as raised:
        opened(seaweed, "container").write("a", b"x")
    assert "give it a role" in raised.value.hint and agent.asked[-1] == "another token"


def test_a_token_of_a_web_identity_is_read_and_sent_only_over_tls(
    seaweed: Seaweed, agent: Agent, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/kfm")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", agent.address)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", f"{token}-missing")
    with pytest.raises(Refused, match="this workload gets no credentials"):
        opened(seaweed, "web").write("a", b"x")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token)
    with pytest.raises(Unavailable, match="this workload gets no credentials") as raised:
        opened(seaweed, "web").write("a", b"x")
    assert agent.asked == [] and TOKEN not in str(raised.value)
