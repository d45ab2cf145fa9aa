"""A small OpenID Connect provider in this process that tells the truth, or one lie that a test names."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from kfm.clock import FixedClock

CLIENT, SECRET = "kfm", "a-secret-of-the-client"
Claims = dict[str, Any]


def b64(body: bytes) -> str:
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def _number(value: int, size: int = 0) -> str:
    return b64(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


@cache
def keys() -> dict[str, Any]:
    """Private keys by the names that the provider gives them; `other` and `weak` are not the provider's."""
    return {
        "rsa": rsa.generate_private_key(65537, 2048),
        "ec": ec.generate_private_key(ec.SECP256R1()),
        "ed": ed25519.Ed25519PrivateKey.generate(),
        "other": rsa.generate_private_key(65537, 2048),
    }


def jwk(name: str, kid: str = "") -> dict[str, str]:
    public, kid = keys()[name].public_key(), kid or name
    if isinstance(public, rsa.RSAPublicKey):
        numbers = public.public_numbers()
        return {"kty": "RSA", "kid": kid, "n": _number(numbers.n), "e": _number(numbers.e), "use": "sig"}
    if isinstance(public, ec.EllipticCurvePublicKey):
        point = public.public_numbers()
        return {"kty": "EC", "kid": kid, "crv": "P-256", "x": _number(point.x, 32), "y": _number(point.y, 32)}
    return {"kty": "OKP", "kid": kid, "crv": "Ed25519", "x": b64(public.public_bytes_raw())}


def signed(claims: Claims | bytes, alg: str = "RS256", key: str = "rsa", **header: Any) -> str:
    """Return a token, signed by the key of this name with this algorithm."""
    head = {"alg": alg, "kid": key, "typ": "JWT", **header}
    body = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    message = f"{b64(json.dumps(head).encode())}.{b64(body)}".encode()
    private = keys().get(key)
    if alg in ("RS256", "PS256"):
        how = padding.PKCS1v15() if alg == "RS256" else padding.PSS(padding.MGF1(hashes.SHA256()), 32)
        signature = private.sign(message, how, hashes.SHA256())  # type: ignore[union-attr]
    elif alg == "ES256":
        one, other = decode_dss_signature(private.sign(message, ec.ECDSA(hashes.SHA256())))  # type: ignore[union-attr]
        signature = one.to_bytes(32, "big") + other.to_bytes(32, "big")
    elif alg == "EdDSA":
        signature = private.sign(message)  # type: ignore[union-attr]
    elif alg == "none":
        signature = b""
    else:  # the public key of the provider as the secret of an HMAC
        public = keys()["rsa"].public_key()
        pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        signature = hmac.digest(pem, message, "sha256" if alg == "HS256" else "sha512")
    return f"{message.decode()}.{b64(signature)}"


class LyingProvider:
    """`token` makes the ID token, `answers` replaces the answer at a path, and `sent` names what was answered."""

    def __init__(self, clock: FixedClock) -> None:
        self.clock = clock
        self.claims: Claims = {"preferred_username": "vic"}
        self.token: Callable[[Claims], str] = signed
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.metadata: dict[str, Any] = {}
        self.sent: list[str] = []
        self.tokens: list[str] = []  # every code and token that was given
        self.revoked = False
        self.expires_in: Any = 3600
        self._codes: dict[str, tuple[dict[str, str], Claims]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def authorize(self, location: str) -> dict[str, str]:
        """Return what the provider gives a browser that comes from there and says who it is."""
        asked = dict(parse_qsl(urlsplit(location).query, strict_parsing=True))
        assert location.startswith(f"{self.issuer}/authorize?") and asked["response_type"] == "code"
        assert (asked["client_id"], asked["code_challenge_method"]) == (CLIENT, "S256")
        assert len(asked["state"]) >= 43 and len(asked["nonce"]) >= 43 and asked["state"] != asked["nonce"]
        code = f"code-{len(self.tokens)}-of-the-provider"
        now = self.clock.now_ms() // 1000
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": "subject-7", "iat": now, "exp": now + 300}
        self._codes[code] = (asked, {**claims, "nonce": asked["nonce"], **self.claims})
        self.tokens += [code, asked["nonce"]]
        return {"code": code, "state": asked["state"], "iss": self.issuer}

    def answer(self, path: str, form: dict[str, str], authorization: str) -> tuple[int, Any]:
        if path == "/.well-known/openid-configuration":
            ends = {"authorization": "authorize", "token": "token", "userinfo": "userinfo", "introspection": "inspect"}
            found: dict[str, Any] = {f"{name}_endpoint": f"{self.issuer}/{at}" for name, at in ends.items()}
            found |= {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
            return 200, {**found, "authorization_response_iss_parameter_supported": True, **self.metadata}
        if path == "/keys":
            return 200, {"keys": [jwk("rsa"), jwk("ec"), jwk("ed")]}
        if path == "/token":
            return self._granted(form, authorization)
        if path == "/inspect":
            return 200, {"active": not self.revoked and form["token"] in self.tokens, "sub": "subject-7"}
        if path == "/userinfo":
            known = not self.revoked and authorization.removeprefix("Bearer ") in self.tokens
            return (200, {"sub": "subject-7", **self.claims}) if known else (401, {})
        return 404, {}

    def _granted(self, form: dict[str, str], authorization: str) -> tuple[int, Any]:
        asked, claims = self._codes.pop(form["code"], ({}, {}))
        challenge = b64(hashlib.sha256(form["code_verifier"].encode()).digest())
        basic = f"Basic {base64.b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}"
        if authorization != basic and form.get("client_id") != CLIENT:
            return 401, {"error": "invalid_client"}
        if asked.get("code_challenge") != challenge or asked["redirect_uri"] != form["redirect_uri"]:
            self.sent.append("no grant")
            return 400, {"error": "invalid_grant"}
        access, token = f"access-token-{len(self.tokens)}", self.token(claims)
        self.tokens += [access, token, form["code_verifier"]]
        self.sent.append("token")
        more = {} if self.expires_in is None else {"expires_in": self.expires_in}
        return 200, {"access_token": access, "token_type": "Bearer", "id_token": token, **more}


def _handler(provider: LyingProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            size = int(self.headers.get("content-length", "0"))
            form = {name: values[0] for name, values in parse_qs(self.rfile.read(size).decode()).items()}
            if path in provider.answers:
                provider.sent.append(path)
                provider.answers[path](self)
                return
            status, found = provider.answer(path, form, self.headers.get("authorization", ""))
            provider.sent.append(f"{path} {status}")
            reply(self, json.dumps(found).encode(), status)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


def reply(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    try:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
    except OSError:
        """The caller has heard enough."""
