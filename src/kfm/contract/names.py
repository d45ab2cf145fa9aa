"""Names that may become keys, refs and file names. Anything else is refused, not repaired."""

from __future__ import annotations

import re

from kfm.errors import BadInput

_ID = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?\Z")
_REF = re.compile(r"[a-z]+(?:/[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?){1,8}\Z")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_DATASET = "kfm://dataset/"
_RESERVED = {"con", "prn", "aux", "nul"} | {f"{n}{i}" for n in ("com", "lpt") for i in range(10)}


def check_id(text: str, what: str) -> str:
    """An updater or dataset id: lower case letters, digits, dot, dash, underscore; 63 at most."""
    if not _ID.match(text) or ".." in text or text.split(".")[0] in _RESERVED:
        raise BadInput(
            f"{what} {printable(text)} is not a valid name",
            hint="use lower-case letters, digits, '-', '_' and '.', at most 63 of them",
        )
    return text


def check_ref(text: str) -> str:
    if not _REF.match(text) or ".." in text:
        raise BadInput(
            f"{printable(text)} is not a ref",
            hint="a ref looks like processed/noaa-stations; see `kfm refs list`",
        )
    return text


def is_digest(text: str) -> bool:
    return _DIGEST.match(text) is not None


def dataset_id(dataset: str) -> str:
    """The id inside kfm://dataset/<id>; a bare id is accepted too."""
    return check_id(dataset.removeprefix(_DATASET), "dataset")


def dataset_uri(dataset: str) -> str:
    return _DATASET + dataset_id(dataset)


def check_path(text: str) -> str:
    """A relative path below a root: no empty, dot or hidden part, no backslash, nothing unprintable."""
    parts = text.split("/")
    for part in parts:
        if (
            not part
            or part.startswith(".")
            or part.endswith((".", " "))
            or "\\" in part
            or ":" in part
            or not part.isprintable()
            or len(part.encode("utf-8", "surrogatepass")) > 200
            or part.split(".")[0].lower() in _RESERVED
        ):
            raise BadInput(
                f"{printable(text)} is not a safe relative path",
                hint="use plain names joined by '/', none starting with a dot",
            )
    return text


def printable(text: str, limit: int = 80) -> str:
    """Foreign text for a message: quoted, escaped, cut."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "'" + "".join(c if c.isprintable() and c != "'" else f"\\u{ord(c):04x}" for c in cut) + "'"
