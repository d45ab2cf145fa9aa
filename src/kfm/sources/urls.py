"""Parse a URL strictly: a URL that two readers could understand differently is refused."""

from __future__ import annotations

from typing import NamedTuple

from kfm.errors import BadInput
from kfm.parsing.characters import printable

DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_URL = 8192
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
_IPV6 = frozenset("0123456789abcdef:.")
_SCHEME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789+-.")


class ParsedUrl(NamedTuple):
    """A parsed URL. It never holds a user name or password, because `parse` refuses them."""

    scheme: str
    host: str  # lower case, without the brackets of an IPv6 literal
    port: int
    target: str  # path and query as they are sent

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == DEFAULT_PORTS[self.scheme] else f"{name}:{self.port}"

    def shown(self) -> str:
        """Return the URL for messages and logs, without its query, which may hold a key."""
        path = self.target.partition("?")[0]
        return f"{self.scheme}://{self.authority}{path if len(path) <= 120 else path[:119] + '…'}"

    def follow(self, reference: str) -> ParsedUrl:
        """Return the location that a `Location` header at this address names. Bytes above 0x7f count as
        percent-encoded.
        """
        if not reference:
            raise BadInput("the URL is empty")
        _check_characters(reference)
        ascii_only = "".join(c if c < "\x80" else f"%{ord(c):02X}" for c in reference)
        return parse(_resolved(self, ascii_only.partition("#")[0]))


def _resolved(base: ParsedUrl, reference: str) -> str:
    """Resolve a reference by RFC 3986, section 5.2. urljoin drops empty segments and takes `http:x` for a path."""
    head, colon, _ = reference.partition(":")
    if colon and head[:1].isalpha() and _SCHEME.issuperset(head.lower()):
        return reference
    if reference.startswith("//"):
        return f"{base.scheme}:{reference}"
    path, mark, query = reference.partition("?")
    here, own_mark, own_query = base.target.partition("?")
    if not path:
        path = here
        if not mark:
            mark, query = own_mark, own_query
    elif not path.startswith("/"):
        path = here[: here.rfind("/") + 1] + path
    return f"{base.scheme}://{base.authority}{_without_dots(path)}{mark}{query}"


def _without_dots(path: str) -> str:
    """Return an absolute path with its `.` and `..` segments resolved."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def parse(url: str) -> ParsedUrl:
    """Parse an http or https URL. Error messages never quote it: it may hold a password."""
    _check_characters(url)
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in DEFAULT_PORTS:
        named = printable(url.partition(":")[0], 20) if ":" in url else "none"
        raise BadInput(f"the URL's scheme is not http or https but {named}", hint="give http://… or https://…")
    rest = rest.partition("#")[0]
    cut = min((i for i in (rest.find("/"), rest.find("?")) if i >= 0), default=len(rest))
    authority, target = rest[:cut], rest[cut:]
    if "@" in authority:
        raise BadInput(
            "the URL holds a user name or password",
            hint="remove it, and give it as a reference under the source's `headers:`",
        )
    # Before lower(): the lower case of some letters outside ASCII is an ASCII letter.
    host, port = _host_and_port(authority.lower() if authority.isascii() else authority, DEFAULT_PORTS[scheme])
    if not target.startswith("/"):
        target = "/" + target
    return ParsedUrl(scheme, host, port, _encode(target))


def _check_characters(url: str) -> None:
    if len(url) > _MAX_URL:
        raise BadInput(f"the URL is longer than {_MAX_URL} characters")
    if any(c <= " " or c in "\\\x7f" for c in url):
        raise BadInput(
            "the URL holds a space, backslash or control character", hint="percent-encode it, e.g. %20 for a space"
        )


def _host_and_port(authority: str, default: int) -> tuple[str, int]:
    if authority.startswith("["):
        host, bracket, after = authority[1:].partition("]")
        if not bracket or (after and not after.startswith(":")) or ":" not in host or not _IPV6.issuperset(host):
            raise BadInput("the URL's IPv6 address cannot be read", hint="write it as http://[2001:db8::1]:8080/")
        digits = after[1:]
    else:
        host, _, digits = authority.partition(":")
        host = host.removesuffix(".")
        labels = host.split(".")
        if len(host) > 253 or any(not label or len(label) > 63 or not _NAME.issuperset(label) for label in labels):
            raise BadInput(
                "the URL's host name cannot be read", hint="use letters, digits, '-' and '.'; write others as xn--…"
            )
    if not digits:
        return host, default
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and 0 < int(digits) < 65536):
        raise BadInput("the URL's port is not a number between 1 and 65535")
    return host, int(digits)


def _encode(target: str) -> str:
    if target.isascii():
        return target
    try:
        return "".join(c if c < "\x80" else "".join(f"%{b:02X}" for b in c.encode()) for c in target)
    except UnicodeEncodeError:
        raise BadInput("the URL holds a character that is not Unicode text") from None
