"""The cookie with which a browser stays signed in: a token, or the id of a session that this process remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request

NAME, BINDING = "kfm_session", "kfm_sign_in"
RETURN = "/sign-in/return"  # where the provider sends the browser back to
_STRICT = "Path=/; HttpOnly; SameSite=Strict"


def cookie_of(request: Request) -> str:
    """Return what the cookie of a request holds; empty if it has none. Several are joined to one that is not valid:
    another server under the same domain may have set one of them."""
    found = _values(request.headers.getlist("cookie"), NAME)
    return "\x00".join(found)


def set_cookie(value: str, seconds: int, *, is_secure: bool) -> tuple[str, str]:
    """Return the header that sets the cookie for so long."""
    return "Set-Cookie", f"{NAME}={value}; Max-Age={max(seconds, 0)}; {_STRICT}{_secure(is_secure=is_secure)}"


def binding_of(cookies: str) -> str:
    """Return the cookie that binds a sign-in at a provider to its browser; empty without exactly one."""
    found = _values([cookies], BINDING)
    return found[0] if len(found) == 1 else ""


def bind_cookie(value: str, seconds: int, *, is_secure: bool) -> tuple[str, str]:
    """Return the header that sets that cookie. It is sent although the provider, another site, sends the browser
    back."""
    flags = f"Path={RETURN}; HttpOnly; SameSite=Lax{_secure(is_secure=is_secure)}"
    return "Set-Cookie", f"{BINDING}={value}; Max-Age={seconds}; {flags}"


def clear_cookie(*, is_secure: bool) -> tuple[str, str]:
    return set_cookie("", 0, is_secure=is_secure)


def _values(headers: list[str], name: str) -> list[str]:
    pairs = (part.strip().partition("=") for header in headers for part in header.split(";"))
    return [value for found, _, value in pairs if found == name]


def _secure(*, is_secure: bool) -> str:
    return "; Secure" if is_secure else ""
