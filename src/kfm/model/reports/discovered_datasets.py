"""What was found at a catalog of somebody else: nouns, and the names that are made for them. No I/O."""

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
    """A file that a catalog speaks of. It was not fetched."""

    name: str  # what its source would be called
    uri: str
    media_type: str = ""
    size: int | None = None
    digest: str = ""  # sha256:<hex>, if the catalog says so
    status: Literal["new", "changed", "known"] = "new"
    source: str = ""  # of which dataset and source it is known: dataset/source


class Finding(Record, frozen=True):
    """What would be a dataset here: a collection of STAC, a dataset of DCAT, a folder."""

    id: str
    kind: CatalogKind
    page: str  # the document that says so
    title: str
    description: str
    license: str
    attribution: str
    bbox: tuple[float, ...]
    interval: tuple[str | None, ...]
    offers: list[Offer]
    status: Status = "new"
    dataset: str = ""  # the one of kfm.yml that has it; empty: none does


class Discovery(Record, frozen=True):
    """What a look at a catalog gave."""

    source: str
    kind: CatalogKind
    findings: list[Finding]
    pages: list[Page]
    skipped: dict[str, int]  # links that were not followed or not taken, by the reason


def words(value: object, limit: int) -> str:
    """Foreign text as one printable line; empty if it is none."""
    if not isinstance(value, str):
        return ""
    line = " ".join("".join(c if is_printable(c) else " " for c in value[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def slug(text: str, limit: int = 50) -> str:
    """A name of ours made of somebody else's: lower case, digits and dashes. Empty: there is nothing in it."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower())
    return "-".join(part for part in kept.split("-") if part)[:limit].strip("-")


def named(text: str, about: str, taken: Collection[str]) -> str:
    """A name that is free and valid; where it is not, with a few digits of what it is about."""
    plain = slug(text)
    mark = digest(about.encode())[7:13]
    for name in (plain, f"{plain}-{mark}".strip("-"), f"found-{mark}", f"found-{digest(about.encode())[7:39]}"):
        try:
            if name and name not in taken and name != "global":
                return check_id(name, "dataset")
        except BadInput:
            continue
    raise BadInput("a name for what was found is taken", hint="rename the dataset of that name in kfm.yml")
