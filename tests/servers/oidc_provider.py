"""A real OpenID Connect provider (oidc-provider of npm) on loopback, and a person who signs in there."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urljoin, urlsplit

from tests.abilities import lacking

ROOT = Path(__file__).resolve().parents[2]
CLIENT, SECRET = "kfm", "0123456789abcdef-a-secret-of-the-client"


class Page(NamedTuple):
    status: int
    location: str
    body: str


class RealProvider:
    """The provider, as its clients and the browsers of people see it."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer

    def authorize(self, location: str, person: str) -> str:
        """Sign in as this person, agree to everything, and return the address that the provider sends the browser to.
        The browser keeps cookies whatever their time: the clock of the provider stands still."""
        cookies: dict[str, str] = {}
        page = self._ask(location, cookies)
        for _ in range(12):
            while page.location:
                if not page.location.startswith(f"{self.issuer}/"):
                    return page.location
                page = self._ask(page.location, cookies)
            assert page.status == 200, page.body
            action = re.search(r'action="([^"]+)"', page.body)
            prompt = re.search(r'name="prompt" value="([^"]+)"', page.body)
            assert action is not None and prompt is not None, page.body
            form = {"prompt": prompt.group(1), "login": person, "password": "any"}
            page = self._ask(urljoin(self.issuer, action.group(1)), cookies, form)
        raise AssertionError("the provider does not end")

    def revoke(self, access_token: str) -> None:
        basic = b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        form = {"token": access_token, "token_type_hint": "access_token"}
        answer = self._ask(f"{self.issuer}/token/revocation", {}, form, f"Basic {basic}")
        assert answer.status == 200, answer.body

    def _ask(
        self, address: str, cookies: dict[str, str], form: dict[str, str] | None = None, authorization: str = ""
    ) -> Page:
        parts = urlsplit(address)
        connection = http.client.HTTPConnection(parts.netloc, timeout=30)
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())} if cookies else {}
        headers |= {"Authorization": authorization} if authorization else {}
        headers |= {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
        try:
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            body = None if form is None else urlencode(form)
            connection.request("GET" if form is None else "POST", target, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            for line in answer.headers.get_all("set-cookie", []):
                name, _, value = line.partition(";")[0].partition("=")
                cookies[name] = value
                if not value:
                    del cookies[name]
            location = answer.headers.get("location", "")
            return Page(answer.status, urljoin(address, location) if location else "", text)
        finally:
            connection.close()


@contextmanager
def provider(redirects: Sequence[str], now_ms: int, alg: str = "RS256") -> Iterator[RealProvider]:
    """Start a provider whose clock stands at this time; it ends with the block."""
    node = shutil.which("node")
    if node is None or not (ROOT / "node" / "node_modules" / "oidc-provider").exists():
        lacking("oidc-provider is not here: `make test` installs it with the packages of the Node runner")
    said = {"now": now_ms, "client_id": CLIENT, "client_secret": SECRET, "redirect_uris": list(redirects), "alg": alg}
    process = subprocess.Popen(
        [node, "oidc_provider.mjs", json.dumps(said)], cwd=ROOT / "node" / "tests", stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        issuer = process.stdout.readline().strip()
        assert issuer.startswith("http://127.0.0.1:"), "the provider did not start"
        yield RealProvider(issuer)
    finally:
        process.communicate(timeout=30)
