"""One text for one source, however its address is written. Labels, masks and remembered classifications are matched by
it; run keys, lineage and catalogs keep the address as written.

Two spellings that a server or a file system could read as the same place get the same text. A mistake therefore closes
too much and never too little.
"""

from __future__ import annotations

import os
import posixpath
import unicodedata
from urllib.parse import parse_qsl, unquote_to_bytes

_DEFAULT_PORTS = {"http": "80", "https": "443"}
_HERE = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "0.0.0.0", "::"})  # noqa: S104 names


def is_file(uri: str) -> bool:
    """True for a `file:` URI and for a plain path."""
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
    asked = sorted(parse_qsl(query, keep_blank_values=True, errors="surrogateescape")) if mark else []
    said = "?" + "&".join(f"{name}={value}" for name, value in asked) if asked else ""
    kind = "http" if scheme in _DEFAULT_PORTS else scheme
    return f"{kind}://{host}/{_path_identity(_decoded(path))}{said}{inside}"


def _cut(uri: str) -> tuple[str, str]:
    """Split off what names a part of a packed file, `#member=…` or `#unpack=…`, in one spelling."""
    outer, mark, inside = uri.partition("#")
    return outer, f"#{_decoded(inside)}" if mark else ""


def _decoded(text: str) -> str:
    if "%" not in text:
        return text
    return unquote_to_bytes(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogateescape")


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
    """The host in lower case without its default port. Every name and address of this machine is `localhost`."""
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
