"""Hides text that looks like a secret. It is a second defence: first of all, secrets are only referred to."""

from __future__ import annotations

from typing import Any

_WORDS = ("secret", "password", "passwd", "token", "credential", "authorization", "api_key", "apikey", "private_key")
_QUERY = ("key", "sig", "auth", "signature", "x_amz_signature", "x_goog_signature")


def is_secret_name(name: str) -> bool:
    plain = name.lower().replace("-", "_")
    return any(word in plain for word in _WORDS)


def redacted(value: Any, name: str = "") -> Any:
    """Return a plain value with secret texts replaced by `***`; references (env:NAME, file:PATH) stay readable."""
    if isinstance(value, dict):
        return {key: redacted(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item, name) for item in value]
    if not isinstance(value, str):
        return value
    if is_secret_name(name):
        return value if value.startswith(("env:", "file:")) or not value else "***"
    return redacted_url(value)


def redacted_url(text: str) -> str:
    """Return a URL without user, password and the values of secret-looking query parameters; other text unchanged."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        return text
    end = min((at for at in (rest.find("/"), rest.find("?"), rest.find("#")) if at >= 0), default=len(rest))
    authority, tail = rest[:end], rest[end:]
    if "@" in authority:
        authority = "***@" + authority.rpartition("@")[2]
    address, question, query = tail.partition("?")
    return scheme + mark + authority + address + question + "&".join(_parameter(p) for p in query.split("&"))


def _parameter(pair: str) -> str:
    name, equals, content = pair.partition("=")
    return f"{name}{equals}***" if content and is_key(name) else pair


def is_key(name: str) -> bool:
    """Return whether a query parameter of this name is probably a secret."""
    return is_secret_name(name) or name.lower().replace("-", "_") in _QUERY
