"""Secrets of a source: the configuration holds references, output shows references, and no URL holds a secret in
clear."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kfm.model.redaction import is_key
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.documents import Document, Path

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_HEX = frozenset("0123456789abcdefABCDEF")


def key_in_clear(uri: str) -> str:
    """Return the name of the first query parameter that looks like a key and has a value; empty if none does."""
    if "://" not in uri:
        return ""
    query = uri.partition("#")[0].partition("?")[2]
    for pair in query.replace(";", "&").split("&"):
        name, _, content = pair.partition("=")
        if content and is_key(decoded(name)):
            return decoded(name)
    return ""


def percent(body: bytes) -> str:
    """Return the bytes percent-encoded, so that they may be anywhere in a URL."""
    return "".join(chr(c) if chr(c) in _UNRESERVED else f"%{c:02X}" for c in body)


def decoded(text: str) -> str:
    """Undo percent-encoding, one character per byte."""
    head, *rest = text.split("%")
    return head + "".join(
        chr(int(p[:2], 16)) + p[2:] if _HEX.issuperset(p[:2]) and len(p) > 1 else f"%{p}" for p in rest
    )


def with_query(uri: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Add parameters, already percent-encoded, to a URL and drop its fragment."""
    base = uri.partition("#")[0]
    more = "&".join(f"{name}={value}" for name, value in pairs)
    mark = "" if not more or base.endswith(("?", "&")) else "&" if "?" in base else "?"
    return base + mark + more


def referring(uri: str, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """Return the recorded name of a source: its URL with references to the secrets of its query and headers."""
    if not headers and not query:
        return uri
    shown = with_query(uri, ((percent(name.encode()), _braced(query[name])) for name in sorted(query)))
    in_headers = {name.lower(): _braced(reference) for name, reference in headers.items()}
    return shown + ("#" + "&".join(f"{name}={in_headers[name]}" for name in sorted(in_headers)) if in_headers else "")


def _braced(reference: str) -> str:
    kind, _, rest = reference.partition(":")
    return f"{{{kind}:{percent(rest.encode('utf-8', 'surrogateescape'))}}}"


def check_secrets(
    document: Document, path: Path, uri: str, headers: Mapping[str, str], query: Mapping[str, str]
) -> None:
    """Raise BadInput if the URL holds a key, or if headers and query hold anything but references."""
    if key := key_in_clear(uri):
        document.refuse(
            (*path, "uri"),
            f"holds a key in clear, as the parameter {printable(key, 40)}",
            "receipts record the URL: move the key to `query:` and write a reference to it",
        )

    for kind, given in (("headers", headers), ("query", query)):
        seen: set[str] = set()
        for name, reference in given.items():
            here: Path = (*path, kind, name)
            if not re.match(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z", name) or name.lower() in seen:
                document.refuse(here, "is not a valid name, or is given twice", "use letters, digits, - and _")
            if kind == "headers":
                seen.add(name.lower())
            check_reference(document, here, reference)
        if given and not re.match(r"https://|http://(?:127\.0\.0\.1|localhost)(?::[0-9]+)?(?:/|\Z)", uri):
            document.refuse((*path, kind), "would be sent unencrypted, or not at all", "use an https URL")


def check_reference(document: Document, path: Path, reference: str) -> None:
    kind, _, rest = reference.partition(":")
    if kind not in ("env", "file") or not rest or not is_printable(rest):
        document.refuse(path, "is not a reference", "write env:NAME or file:PATH")
