"""Records of what was discovered in a foreign catalog, and names for it. No I/O."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from kfm.errors import BadInput
from kfm.model.keys import digest
from kfm.model.names import check_id
from kfm.model.records import Record
from kfm.parsing.characters import is_printable

CatalogKind = Literal["stac", "stac-api", "dcat", "listing"]
Status = Literal["new", "grown", "changed", "known"]
KINDS: tuple[CatalogKind, ...] = ("stac", "stac-api", "dcat", "listing")


class Page(Record, frozen=True):
    """A document that was read, by its bytes."""

    uri: str
    digest: str
    size: int


class Offer(Record, frozen=True):
    """A file that a catalog lists. It was not fetched."""

    name: str  # the name its source would have
    uri: str
    media_type: str = ""
    size: int | None = None
    digest: str = ""  # sha256:<hex>, if the catalog gives one
    status: Literal["new", "changed", "known"] = "new"
    source: str = ""  # the dataset/source that already has it


class Finding(Record, frozen=True):
    """A possible dataset: a STAC collection, a DCAT dataset, or a folder."""

    id: str
    kind: CatalogKind
    page: str  # the document that describes it
    title: str
    description: str
    license: str
    attribution: str
    bbox: tuple[float, ...]
    interval: tuple[str | None, ...]
    offers: list[Offer]
    status: Status = "new"
    dataset: str = ""  # the dataset of kfm.yml that has it; empty: none


class Discovery(Record, frozen=True):
    """The result of reading one catalog."""

    source: str
    kind: CatalogKind
    findings: list[Finding]
    pages: list[Page]
    skipped: dict[str, int]  # count of skipped links by reason


def words(value: object, limit: int) -> str:
    """Return foreign text as one printable line; empty if it is not text."""
    if not isinstance(value, str):
        return ""
    line = " ".join("".join(c if is_printable(c) else " " for c in value[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def slug(text: str, limit: int = 50) -> str:
    """Return a dataset name made from a foreign title: lower-case letters, digits and dashes; empty if none remain."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower())
    return "-".join(part for part in kept.split("-") if part)[:limit].strip("-")


def named(text: str, about: str, taken: Collection[str]) -> str:
    """Return a valid name that is not taken; if necessary with a few digits of a digest of `about`."""
    plain = slug(text)
    mark = digest(about.encode())[7:13]
    for name in (plain, f"{plain}-{mark}".strip("-"), f"found-{mark}", f"found-{digest(about.encode())[7:39]}"):
        try:
            if name and name not in taken and name != "global":
                return check_id(name, "dataset")
        except BadInput:
            continue
    raise BadInput("the name for a discovered dataset is taken", hint="rename the dataset of that name in kfm.yml")
