"""Datasets and the datasets they are made of, as declared and as they are now."""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Record

How = Literal["reads", "after"]
# From the best to the worst.
Stands = Literal["current", "above", "behind", "rolled back", "withdrawn", "never made"]
STANDS: tuple[Stands, ...] = ("current", "above", "behind", "rolled back", "withdrawn", "never made")


class Dependency(Record, frozen=True):
    """One dataset depends on another."""

    of: str
    to: str
    how: How  # it reads its versions, or only runs after them
    source: str = ""  # the name of the source that reads it
    zone: str = ""
    pinned: str = ""  # the version that kfm.yml names; empty: it reads the newest
    made_of: str = ""  # the version that the current one was made of; empty: none, or not public
    now: str = ""  # the current value of the ref that it reads
    stands: Stands = "current"
    since: str = ""  # when it got this status
    says: str = ""  # a sentence for people; empty: current


class Asset(Record, frozen=True):
    """One dataset and its status."""

    dataset: str
    stands: Stands
    version: str  # the current version; empty: none, or not public
    made_at: str
    level: str  # how open it is, including its inputs; `unsaid`: nothing declares it public
    when: str  # what requests its runs
    outside: int  # count of sources that are not datasets


class AssetGraph(Record, frozen=True):
    assets: list[Asset]  # each after the datasets it is made of
    dependencies: list[Dependency]
