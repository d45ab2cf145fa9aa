"""The cookie with which a browser stays signed in: a token, or the id of a session that this process remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request

NAME = "kfm_session"
_STRICT = "Path=/; HttpOnly; SameSite=Strict"


def cookie_of(request: Request) -> str:
    """Return what the cookie of a request holds; empty if it has none. Several are joined to one that is not valid:
    another server under the same domain may have set one of them."""
    found = []
    for header in request.headers.getlist("cookie"):
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == NAME:
                found.append(value)
    return "\x00".join(found)


def set_cookie(value: str, seconds: int, *, is_secure: bool) -> tuple[str, str]:
    """Return the header that sets the cookie for so long."""
    return "Set-Cookie", f"{NAME}={value}; Max-Age={max(seconds, 0)}; {_STRICT}{_secure(is_secure=is_secure)}"


def clear_cookie(*, is_secure: bool) -> tuple[str, str]:
    return set_cookie("", 0, is_secure=is_secure)


def _secure(*, is_secure: bool) -> str:
    return "; Secure" if is_secure else ""
