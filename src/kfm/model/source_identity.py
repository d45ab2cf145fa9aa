"""One text for one source, however its address is written. Labels, masks and remembered classifications are matched by
it; run keys, lineage and catalogs keep the address as written.

Two spellings that a server or a file system could read as the same place get the same text. A mistake therefore closes
too much and never too little.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from functools import lru_cache

_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_HERE = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "0.0.0.0", "::"})  # noqa: S104 names


def is_file(uri: str) -> bool:
    """Return whether an address is a `file:` URI or a plain path."""
    return "://" not in uri or uri[:5].lower() == "file:"


def file_path(uri: str) -> str:
    """Return the path that a `file:` URI or a plain path names, with the percent-encoding of the URI decoded."""
    if uri[:5].lower() != "file:":
        return uri
    rest = uri[5:]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path if host.lower() in ("", "localhost") else f"{host}{slash}{path}"
    return _decoded(rest)


@lru_cache(4096)
def source_identity(uri: str, base: str) -> str:
    """Return the identity of the source at an address; relative file paths start in the folder `base`."""
    if is_file(uri):
        path, inside = _cut(uri)
        return _file_identity(file_path(path), base) + inside
    scheme, _, rest = uri.partition("://")
    scheme = scheme.lower()
    rest, inside = _cut(rest)
    rest, mark, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    host = authority if scheme not in _DEFAULT_PORTS else _host_identity(scheme, authority)
    asked = sorted(_decoded(pair.replace("+", " ")) for pair in query.split("&") if pair)
    said = "?" + "&".join(asked) if mark and asked else ""
    return f"{scheme}://{host}/{_path_identity(_decoded(path))}{said}{inside}"


def same_source(one: str, other: str, base: str) -> bool:
    """Return whether two addresses name the same source: the same file, or the same place under http and https."""
    first, second = source_identity(one, base), source_identity(other, base)
    if first == second or _secure(first) == _secure(second):
        return True
    return is_file(one) and is_file(other) and _is_same_file(first, second, base)


def is_part_of(uri: str, said: str, base: str) -> bool:
    """Return whether `said` names the source at `uri`: all of it, the archive that holds it, or its address without a
    query."""
    whole = uri.partition("#")[0]
    # An archive as a whole holds each of its members, so a label on one of them is on the archive, too.
    if whole == uri and "#" in said and same_source(said.partition("#")[0], uri, base):
        return True
    return any(same_source(said, one, base) for one in dict.fromkeys((uri, whole, whole.partition("?")[0])))


def spellings(uri: str, base: str) -> tuple[str, ...]:
    """Return every identity under which the state may know this source: its own, and the same place under http or
    https."""
    own = source_identity(uri, base)
    scheme, colon, rest = own.partition("://")
    if not colon or scheme not in _DEFAULT_PORTS:
        return (own,)
    return own, f"{'https' if scheme == 'http' else 'http'}://{rest}"


def _secure(identity: str) -> str:
    return "https" + identity[4:] if identity.startswith("http://") else identity


def _is_same_file(one: str, other: str, base: str) -> bool:
    """Return whether two names are of one file, such as hard links, or names that differ only in case on a disk that
    ignores case."""
    try:
        first, second = (os.stat(os.path.join(base, path.partition("#")[0])) for path in (one, other))
    except (OSError, ValueError):
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino) and _inside(one) == _inside(other)


def _inside(identity: str) -> str:
    return identity.partition("#")[2]


def _cut(uri: str) -> tuple[str, str]:
    """Return an address without the part that names a member of a packed file, and that part (`#member=…` or
    `#unpack=…`) in one spelling."""
    outer, mark, inside = uri.partition("#")
    return outer, f"#{_decoded(inside)}" if mark else ""


def _decoded(text: str) -> str:
    """Return a text with its percent-encoding undone."""
    if "%" not in text:
        return text
    raw = text.encode("utf-8", "surrogatepass")
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), raw).decode("utf-8", "surrogateescape")


def _path_identity(path: str) -> str:
    kept: list[str] = []
    for part in unicodedata.normalize("NFC", path.replace("\\", "/")).split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    return "/".join(kept)


def _file_identity(path: str, base: str) -> str:
    if os.path.isabs(path) and base:
        path = os.path.relpath(path, base)
    return unicodedata.normalize("NFC", posixpath.normpath(path))


def _host_identity(scheme: str, authority: str) -> str:
    """Return the host in lower case without its default port. Every name and address of this machine becomes
    `localhost`."""
    authority = authority.rpartition("@")[2]
    if authority.startswith("["):
        host, _, after = authority[1:].partition("]")
        port = after.removeprefix(":")
    else:
        host, _, port = authority.partition(":")
    host = _one_name(_decoded(host).lower().rstrip("."))
    port = port.lstrip("0")
    return host if port in ("", _DEFAULT_PORTS[scheme]) else f"{host}:{port}"


def _one_name(host: str) -> str:
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            return host
    number = _address_of(host)
    if host in _HERE or host.endswith(".localhost") or number in _HERE or number == "::1" or number.startswith("127."):
        return "localhost"
    return number or host


def _address_of(host: str) -> str:
    """Return an IP address in its one spelling, or "" for a name. `127.1`, `0x7f.1` and `2130706433` are addresses."""
    if not host or (":" not in host and not host[-1].isdigit() and "0x" not in host):
        return ""
    import ipaddress

    try:
        if ":" in host:
            six = ipaddress.IPv6Address(host.partition("%")[0])
            return str(six.ipv4_mapped or six)
        parts = [_number(part) for part in host.split(".")]
        if len(parts) > 4 or any(part > 255 for part in parts[:-1]) or parts[-1] >= 256 ** (5 - len(parts)):
            return ""
        whole = parts[-1] + sum(part << 8 * (3 - at) for at, part in enumerate(parts[:-1]))
        return str(ipaddress.IPv4Address(whole))
    except ValueError:
        return ""


def _number(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    if len(text) > 1 and text.startswith("0"):
        return int(text, 8)
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)
