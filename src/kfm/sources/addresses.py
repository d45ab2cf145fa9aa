"""May this address be reached? A pure decision, taken on numbers, never on names.

KFM keeps its own tables. `ipaddress.is_global` does not serve: it allows 64:ff9b::169.254.169.254, 2002:7f00:1::,
fec0::1 and 224.0.0.1, and its answers changed between Python releases.
"""

from __future__ import annotations

from collections.abc import Iterable
from socket import AF_INET, AF_INET6, inet_pton

WEB_PORTS = frozenset({80, 443})

_DENIED_V4 = (
    ("0.0.0.0", 8, "unspecified"),  # noqa: S104
    ("10.0.0.0", 8, "private"),
    ("100.64.0.0", 10, "shared by a carrier"),
    ("127.0.0.0", 8, "this machine"),
    ("168.63.129.16", 32, "a cloud platform's own service"),
    ("169.254.0.0", 16, "link-local"),
    ("172.16.0.0", 12, "private"),
    ("192.0.0.0", 24, "reserved for protocols"),
    ("192.0.2.0", 24, "documentation"),
    ("192.88.99.0", 24, "a 6to4 relay"),
    ("192.168.0.0", 16, "private"),
    ("198.18.0.0", 15, "for benchmarks"),
    ("198.51.100.0", 24, "documentation"),
    ("203.0.113.0", 24, "documentation"),
    ("224.0.0.0", 4, "multicast"),
    ("240.0.0.0", 4, "reserved"),
)

# The first row that matches decides. An address that matches no row is allowed only inside 2000::/3.
_DENIED_V6 = (
    ("::", 128, "unspecified"),
    ("::1", 128, "this machine"),
    ("::", 96, "an IPv4-compatible address"),
    ("64:ff9b::", 96, "NAT64"),
    ("64:ff9b:1::", 48, "NAT64"),
    ("100::", 64, "a discard address"),
    ("2001::", 32, "Teredo"),
    ("2001::", 23, "reserved for protocols"),
    ("2001:db8::", 32, "documentation"),
    ("2002::", 16, "6to4"),
    ("3fff::", 20, "documentation"),
    ("fc00::", 7, "private"),
    ("fe80::", 10, "link-local"),
    ("fec0::", 10, "site-local"),
    ("ff00::", 8, "multicast"),
)

_Table = tuple[tuple[int, int, str], ...]  # network, number of bits to shift an address before comparing, reason


def _compile(family: int, width: int, rows: tuple[tuple[str, int, str], ...]) -> _Table:
    return tuple(
        (int.from_bytes(inet_pton(family, network), "big") >> (width - prefix), width - prefix, why)
        for network, prefix, why in rows
    )


_V4 = _compile(AF_INET, 32, _DENIED_V4)
_V6 = _compile(AF_INET6, 128, _DENIED_V6)


def refusal(host: str, address: str, port: int, allow: Iterable[str] = ()) -> str:
    """Return why `address:port`, which `host` resolved to, may not be reached; return "" if it may.

    `host` is the name that the URL gives. An entry of `allow` opens this name only: an entry for 127.0.0.1 opens
    neither `127.1` nor a public name that resolves to 127.0.0.1.
    """
    if is_allowed(host, port, allow):
        return ""
    why = not_global(address)
    if why:
        return f"the address is {why}"
    if port not in WEB_PORTS:
        return f"port {port} is neither 80 nor 443"
    return ""


def is_allowed(host: str, port: int, allow: Iterable[str]) -> bool:
    """Say whether `allow` has an entry `host` (any port) or `host:port` for this host and port. IPv6 is written as ::1
    or [::1]:8080.
    """
    named = host.lower()
    spelled = {named, f"[{named}]", f"[{named}]:{port}"} if ":" in named else {named, f"{named}:{port}"}
    return any(entry.lower() in spelled for entry in allow)


def not_global(address: str) -> str:
    """Return the kind of an address that is not globally routed unicast; return "" for one that is."""
    text = address.partition("%")[0]
    try:
        if ":" not in text:
            return _search(_V4, int.from_bytes(inet_pton(AF_INET, text), "big"))
        number = int.from_bytes(inet_pton(AF_INET6, text), "big")
    except (OSError, ValueError):  # ValueError: the address holds a NUL
        return "unreadable"
    if number >> 32 == 0xFFFF:  # ::ffff:0:0/96 is an IPv4 address written as IPv6
        return _search(_V4, number & 0xFFFFFFFF)
    return _search(_V6, number) or ("" if number >> 125 == 1 else "outside the global range")


def _search(table: _Table, number: int) -> str:
    for network, shift, why in table:
        if number >> shift == network:
            return why
    return ""
