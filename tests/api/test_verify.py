"""The vectors of conformance/webhooks, and the rules behind them."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from kfm.model.secret import Secret
from kfm.scheduling import webhook_requests
from kfm.scheduling.webhook_requests import Hook, Rejected, signature, verify

VECTORS = json.loads((Path(__file__).resolve().parents[2] / "conformance/webhooks/verify.json").read_text())["vectors"]


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["why"][:60] for vector in VECTORS])
def test_every_vector_is_answered(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["body_hex"]) if "body_hex" in vector else vector["body"].encode()
    headers = [(name.encode(), value.encode("latin-1")) for name, value in vector["headers"]]
    hook = None
    if vector["hook"] is not None:
        secrets = tuple(Secret(text.encode()) for text in vector["hook"]["secrets"])
        hook = Hook(**{**vector["hook"], "secrets": secrets})
    if "rejected" in vector:
        with pytest.raises(Rejected) as caught:
            verify(hook, headers, body, vector["now_ms"])
        assert {"reason": caught.value.reason, "status": caught.value.status} == vector["rejected"]
    else:
        message = verify(hook, headers, body, vector["now_ms"])
        for name, expected in vector["accepted"].items():
            found = getattr(message, name)
            assert (list(found) if isinstance(found, tuple) else found) == expected, name


def test_the_published_examples_are_signed_alike() -> None:
    github = Secret(b"It's a Secret to Everybody")
    assert signature("github", github, b"Hello, World!") == (
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    )
    standard = Secret(b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    sealed = signature(
        "standard",
        standard,
        b'{"test": 2432232314}',
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp="1614265330",
    )
    assert sealed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("scheme", ["kfm", "github", "standard"])
def test_every_secret_is_compared_in_constant_time_whichever_fits(scheme: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = (Secret(b"first+" + b"x" * 34), Secret(b"second" + b"x" * 34))
    hook = Hook(source_id="a", secrets=secrets, accept=scheme)
    body = b'{"type":"t"}'
    real = webhook_requests.hmac.compare_digest
    compared: list[tuple[bytes, bytes]] = []

    def spy(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(webhook_requests.hmac, "compare_digest", spy)
    for secret in secrets:
        compared.clear()
        sealed = signature(scheme, secret, body, message_id="m", timestamp="1000").encode()
        name = next(name for name, of in webhook_requests.SIGNATURE_OF.items() if of == scheme)
        headers = [(b"webhook-id", b"m"), (b"webhook-timestamp", b"1000"), (b"x-github-event", b"push"), (name, sealed)]
        with contextlib.suppress(Rejected):  # of `kfm` the body is not the schema; its signature was compared
            verify(hook, headers, body, 1_000_000)
        assert len(compared) == 2 and len({one for one, _ in compared}) == 2


def test_a_secret_is_never_shown() -> None:
    secret = Secret(b"do-not-show-me-do-not-show-me-ever")
    hook = Hook(source_id="a", secrets=(secret,))
    for shown in (repr(secret), str(secret), f"{secret}", repr(hook), repr([secret])):
        assert "show-me" not in shown
