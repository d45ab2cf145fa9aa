"""Datasets and what they are made of, as they are declared and as they stand."""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record

How = Literal["reads", "after"]
# From the best to the worst.
Stands = Literal["current", "above", "behind", "rolled back", "withdrawn", "never made"]
STANDS: tuple[Stands, ...] = ("current", "above", "behind", "rolled back", "withdrawn", "never made")


class Dependency(Record, frozen=True):
    """One dataset comes of another."""

    of: str
    to: str
    how: How  # it reads its versions, or only comes after them
    source: str = ""  # the name of the source that reads it
    zone: str = ""
    pinned: str = ""  # the version that kfm.yml names; empty: the newest is read
    made_of: str = ""  # the version that the current one was made of; empty: none, or it may not be told
    now: str = ""  # where the ref is that is read
    stands: Stands = "current"
    since: str = ""  # when it came to stand so
    says: str = ""  # for people; empty: all is well


class Asset(Record, frozen=True):
    """One dataset."""

    dataset: str
    stands: Stands
    version: str  # the current one; empty: there is none, or it may not be told
    made_at: str
    level: str  # how open it is, with all that it is made of; `unsaid`: nobody says that it may be public
    when: str  # what asks for it
    outside: int  # sources that are no datasets


class AssetGraph(Record, frozen=True):
    assets: list[Asset]  # each after what it is made of
    dependencies: list[Dependency]
