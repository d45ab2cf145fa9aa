"""Protection against forged requests: a change that a browser could be made to send carries a token and its origin.

A browser adds a cookie to each request by itself, and every page can send requests to this machine. A caller who sends
`Authorization` proves with it that the request is the caller's own.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from kfm.api.problems import HttpProblem

if TYPE_CHECKING:
    from starlette.requests import Request

HEADER, FIELD = "kfm-csrf", "csrf"
_PURPOSE = b"kfm csrf"
_PORTS = {"http": "80", "https": "443"}


def csrf_of(secret: bytes) -> str:
    """Return the token that belongs to a cookie or to this process. Nothing is stored, and nobody computes it without
    the secret."""
    return hmac.digest(secret, _PURPOSE, "sha256").hex()


def check(request: Request, sent: str, wanted: str, *, is_secure: bool) -> None:
    """Check a change. HttpProblem 403 if it is not of this very origin, or does not carry the token that is wanted.
    A stranger (`wanted` is empty) needs no token, but a browser of a stranger sends no request from elsewhere."""
    if not _is_same_origin(request, is_secure=is_secure, is_needed=bool(wanted)):
        raise HttpProblem(403, "send it from a page of this server; a browser says so in `Origin`", "csrf")
    if wanted and not hmac.compare_digest(sent.encode("utf-8", "replace"), wanted.encode()):
        raise HttpProblem(
            403, "send `csrf` of /v1/me as the header KFM-CSRF, or a token as `Authorization: Bearer TOKEN`", "csrf"
        )


def _is_same_origin(request: Request, *, is_secure: bool, is_needed: bool) -> bool:
    """Return whether the headers that a browser sets say that a page of this server sent a request. A form of a page
    that names no referrer has the origin `null`; then `Sec-Fetch-Site` decides."""
    sites, origins = request.headers.getlist("sec-fetch-site"), request.headers.getlist("origin")
    if len(sites) > 1 or len(origins) > 1:
        return False
    own = _origin(("https" if is_secure else "http") + "://" + request.headers.get("host", ""))
    is_own = bool(origins) and _origin(origins[0]) == own
    if sites:
        return sites == ["same-origin"] and (is_own or origins in ([], ["null"]))
    return is_own if origins else not is_needed


def _origin(text: str) -> str:
    """Return an origin without the port that its scheme has anyway."""
    scheme, _, rest = text.lower().partition("://")
    return f"{scheme}://{rest.removesuffix(':' + _PORTS.get(scheme, ''))}"
