"""Names and small texts that several grammars share. Pure."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from kfm.model.canonical import canonical
from kfm.model.names import is_file_name
from kfm.model.public_run import PublicInput, PublicRun

OURS = "https://kfm.example/"  # a name, not a place: everything below it is shipped with the product
SCHEMAS = OURS + "schemas/"
PRODUCER = OURS + "kfm"
GOVERNANCE = SCHEMAS + "stac/governance/v1.0.0/schema.json"
_NOT_IN_IRIS = frozenset(' <>"{}|\\^`') | frozenset(map(chr, range(32)))
_IN_IRIS = ":/?#[]@!$&'()*+,;=%"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")


def multihash(digest: str) -> str:
    """sha256:<hex> as the multihash of STAC's `file:checksum`."""
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
    """One thing in one state, as an IRI: its own with the digest of its bytes as the fragment."""
    return f"{iri.replace('#', '%23')}#{digest}"


def address(each: PublicInput) -> str:
    """An IRI of an input. An id without a scheme, such as the path of a file, is below a name of ours."""
    if "://" in each.id or each.id.startswith("urn:"):
        return each.id if _NOT_IN_IRIS.isdisjoint(each.id) else quoted(each.id, _IN_IRIS)
    return f"kfm://source/{quoted(each.id)}"


def is_licence_id(said: str) -> bool:
    """Written as the ids of SPDX are; whether it is one of them, others may look up."""
    return said.isascii() and said.replace("-", "").replace(".", "").replace("+", "").isalnum()


def licence_iri(said: str) -> str:
    """What was declared as the licence, as an IRI: an address as it is, an id of SPDX at its place, and words of
    somebody's own below a name of ours."""
    if "://" in said:
        return said if _NOT_IN_IRIS.isdisjoint(said) else quoted(said, _IN_IRIS)
    return f"https://spdx.org/licenses/{said}" if is_licence_id(said) else f"kfm://licence/{quoted(said, '')}"


def quoted(text: str, safe: str = "/") -> str:
    """Percent-encoded where an IRI would not hold it; `urllib` is not for what does no input or output."""
    return "".join(
        chr(byte) if (byte < 128 and chr(byte).isalnum()) or chr(byte) in "._-~" + safe else f"%{byte:02X}"
        for byte in text.encode()
    )


def item_id(key: tuple[str, ...]) -> str:
    """One text for a key and no other: its parts, with what could be mistaken percent-encoded."""
    return "~".join(quoted(part, "").replace("~", "%7E") for part in key)


def file_name(key: tuple[str, ...]) -> str:
    """Of the document about a key: no two keys share one, whatever the file system makes of letter case."""
    name = "~".join(key)
    plain = all(part and part[0] not in "._-" and _PLAIN.issuperset(part) for part in key)
    if plain and len(name) <= 150 and is_file_name(name):
        return name
    return "_" + hashlib.sha256(canonical(list(key))).hexdigest()[:40]


def instant(text: str | None) -> str | None:
    """RFC 3339 in UTC, as STAC wants it; None if there is none or it cannot be read."""
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
    """What a dataset's declaration says of when its data are of."""
    found = (declared.get("extent") or {}).get("interval") or []
    start, end = found if len(found) == 2 else (None, None)
    return instant(start), instant(end)


def end_of_day(day: str) -> str | None:
    """The last second of a day such as 2027-06-30: a consent lasts until then."""
    return f"{day[:10]}T23:59:59Z" if len(day) >= 10 else None
