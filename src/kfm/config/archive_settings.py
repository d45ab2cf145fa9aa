"""The section `archive`, and `public_url`: what pages, catalogs, citations and feeds say about the archive itself."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kfm.model.records import Record
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document, Path
from kfm.parsing.lazy_regex import pattern

# Scheme, host, perhaps a port and a path: no user, password, query or fragment.
_ADDRESS = pattern(
    r"(https?)://((?:[A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~%+-]+)*/?\Z"
)
_MAIL = pattern(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z0-9-]{2,63}\Z")
_NAMESPACE = pattern(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?\Z")
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


class ArchiveConfig(Record, frozen=True):
    """What pages, catalogs, citations and feeds say about the archive itself."""

    name: Annotated[
        str, Meta(max_length=200, description="its name; empty: the publisher, else the host of public_url")
    ] = ""
    description: Annotated[str, Meta(max_length=4096, description="a sentence or two for the front page")] = ""
    publisher: Annotated[str, Meta(max_length=200, description="who publishes it; empty: its name")] = ""
    contact: Annotated[
        str, Meta(max_length=400, description="e-mail address or https address for questions; empty: none")
    ] = ""
    url: Annotated[str, Meta(max_length=2000, description="https address of its home page; empty: none")] = ""
    namespace: Annotated[
        str, Meta(max_length=63, description="its short name in catalogs; no other archive should have the same")
    ] = "kfm"
    outline: Annotated[
        str,
        Meta(
            max_length=4096,
            description="path of a GeoJSON file of lines or areas that maps draw as the outline of the area; "
            "empty: none",
        ),
    ] = ""


def check_archive(document: Document, public_url: str, archive: ArchiveConfig) -> None:
    if not public_url and archive == ArchiveConfig():
        return
    _check_address(document, ("public_url",), public_url, "https://data.example.org/kansas")
    _check_address(document, ("archive", "url"), archive.url, "https://example.org")
    for key in ("name", "description", "publisher", "outline"):
        text = getattr(archive, key)
        if not is_printable(text) or text != text.strip():
            document.refuse(("archive", key), "is not one line of plain text", "remove control characters and spaces")
    if not _NAMESPACE.match(archive.namespace):
        document.refuse(
            ("archive", "namespace"), "is not a short name", "write small letters, digits and dashes, like ks-archive"
        )
    if archive.contact.startswith(("https:", "http:")):
        _check_address(document, ("archive", "contact"), archive.contact, "https://example.org/contact")
    elif archive.contact and not _MAIL.match(archive.contact):
        document.refuse(
            ("archive", "contact"),
            "is neither an e-mail address nor an https address",
            "write data@example.org or https://example.org/contact",
        )


def _check_address(document: Document, path: Path, address: str, example: str) -> None:
    if not address:
        return
    found = _ADDRESS.match(address)
    if found is None:
        document.refuse(path, "is not an address", f"write {example}, without user, password, query or fragment")
    elif found[1] == "http" and found[2] not in _LOCAL:
        document.refuse(path, "is not encrypted", f"write {example}")


def public_root(public_url: str) -> str:
    """Return the address of the public folder without a slash at the end; "" if there is none."""
    return public_url.rstrip("/")


def archive_name(public_url: str, archive: ArchiveConfig) -> str:
    """Return the name of the archive: as set, else its publisher, else the host of the public folder."""
    return archive.name or archive.publisher or public_url.partition("://")[2].partition("/")[0] or "Data archive"
