"""Names and short texts that several formats share. Pure."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from kfm.model.canonical import canonical
from kfm.model.names import is_file_name
from kfm.model.public_run import PublicInput, PublicRun

OURS = "https://kfm.example/"  # an identifier, not a web address: everything below it ships with the product
SCHEMAS = OURS + "schemas/"
PRODUCER = OURS + "kfm"
GOVERNANCE = SCHEMAS + "stac/governance/v1.0.0/schema.json"
_NOT_IN_IRIS = frozenset(' <>"{}|\\^`') | frozenset(map(chr, range(32)))
_IN_IRIS = ":/?#[]@!$&'()*+,;=%"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")


def multihash(digest: str) -> str:
    """Return sha256:<hex> as the multihash of STAC's `file:checksum`."""
    return "1220" + digest.removeprefix("sha256:")


def digest_of(multihash: str) -> str:
    return "sha256:" + multihash.removeprefix("1220")


def name_of(dataset: str) -> str:
    return dataset.removeprefix("kfm://dataset/")


def run_uri(run_id: str) -> str:
    return f"kfm://run/{run_id}"


def agent_uri(run: PublicRun) -> str:
    return f"kfm://updater/{run.updater_id}/{run.updater_version}"


def entity(iri: str, digest: str) -> str:
    """Return an IRI for an item in one state: its own IRI with the digest of its bytes as the fragment."""
    return f"{iri.replace('#', '%23')}#{digest}"


def address(each: PublicInput) -> str:
    """Return an IRI of an input."""
    return iri_of(each.id)


def iri_of(id: str) -> str:
    """Return an IRI for the id of a thing. An id without a scheme, such as a file path, goes below kfm://source/."""
    if "://" in id or id.startswith("urn:"):
        return id if _NOT_IN_IRIS.isdisjoint(id) else quoted(id, _IN_IRIS)
    return f"kfm://source/{quoted(id)}"


def is_licence_id(said: str) -> bool:
    """Say whether a text is written like an SPDX id; it is not looked up in the SPDX list. A custom licence is none."""
    plain = said.replace("-", "").replace(".", "").replace("+", "")
    return said.isascii() and plain.isalnum() and not said.startswith("LicenseRef-")


def licence_iri(said: str) -> str:
    """Return a declared licence as an IRI: an address as it is, an SPDX id at spdx.org, other text below
    kfm://licence/.
    """
    if "://" in said:
        return said if _NOT_IN_IRIS.isdisjoint(said) else quoted(said, _IN_IRIS)
    return f"https://spdx.org/licenses/{said}" if is_licence_id(said) else f"kfm://licence/{quoted(said, '')}"


def quoted(text: str, safe: str = "/") -> str:
    """Percent-encode a text for an IRI. Pure code does not import `urllib`."""
    return "".join(
        chr(byte) if (byte < 128 and chr(byte).isalnum()) or chr(byte) in "._-~" + safe else f"%{byte:02X}"
        for byte in text.encode()
    )


def item_id(key: tuple[str, ...]) -> str:
    """Return a text that identifies a key: its parts, percent-encoded where they could be confused."""
    return "~".join(quoted(part, "").replace("~", "%7E") for part in key)


def file_name(key: tuple[str, ...]) -> str:
    """Return the file name of the document about a key. No two keys share one, even on a file system that
    ignores case.
    """
    name = "~".join(key)
    plain = all(part and part[0] not in "._-" and _PLAIN.issuperset(part) for part in key)
    if plain and len(name) <= 150 and is_file_name(name):
        return name
    return "_" + hashlib.sha256(canonical(list(key))).hexdigest()[:40]


def instant(text: str | None) -> str | None:
    """Return an instant in RFC 3339 and UTC, as STAC requires; None if the text is missing or cannot be read."""
    if not text or text == "..":
        return None
    if len(text) >= 20 and text[10] == "T" and text.endswith("Z"):
        return text
    try:
        found = datetime.fromtimestamp(int(text), UTC) if text.isdecimal() else datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return None
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return found.isoformat(timespec="milliseconds" if found.microsecond else "seconds").replace("+00:00", "Z")


def interval(declared: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the interval of time that a dataset's declaration gives for its data."""
    found = (declared.get("extent") or {}).get("interval") or []
    start, end = found if len(found) == 2 else (None, None)
    return instant(start), instant(end)


def end_of_day(day: str) -> str | None:
    """Return the last second of a day such as 2027-06-30, when a consent ends."""
    return f"{day[:10]}T23:59:59Z" if len(day) >= 10 else None
