"""A browser that keeps cookies, and an installation whose kfm.yml names a provider."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from tests.api.asking import Asked, Reply
from tests.api.listed import Listed
from tests.api.lying_provider import CLIENT, LyingProvider

START, RETURN = "/sign-in/start", "/sign-in/return"
SECTION = "sign_in: {{issuer: '{}', client_id: {}, client_secret: 'env:KFM_SECRET_SIGN_IN'{}}}\n"


class Browser:
    """A browser at one server."""

    def __init__(self, served: Asked) -> None:
        self.served = served
        self.cookies: dict[str, str] = {}

    def get(self, path: str, method: str = "GET", **headers: str) -> Reply:
        sent = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = self.served.get(path, method=method, headers={**({"cookie": sent} if sent else {}), **headers})
        name, _, value = answer.headers.get("set-cookie", "").partition(";")[0].partition("=")
        if name:
            self.cookies[name] = value
            if not value:
                del self.cookies[name]
        return answer

    def begin(self) -> str:
        answer = self.get(START)
        assert answer.status == 303, answer.body
        return answer.headers["location"]

    def sign_in(self, provider: LyingProvider) -> Reply:
        return self.get(f"{RETURN}?{urlencode(provider.authorize(self.begin()))}")


def write(listed: Listed, issuer: str, more: str = "", client: str = CLIENT) -> None:
    """Name a provider in kfm.yml."""
    path = listed.folder / "kfm.yml"
    before = path.read_text().partition("sign_in:")[0]
    path.write_text(before + SECTION.format(issuer, client, more))


def words(answer: Reply) -> str:
    """What a page says about a sign-in that failed."""
    found = re.search(r'role="alert">([^<]*)<', answer.body.decode())
    return found.group(1) if found else ""
