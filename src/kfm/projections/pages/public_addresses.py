"""Addresses of the public folder for search engines, feeds and citations. Pure."""

from __future__ import annotations

from kfm.model.public_run import Places

SITEMAP = "sitemap.xml"
FEED = "feed.xml"
CITATION = "CITATION.cff"


def absolute(places: Places, path: str) -> str:
    """Return the https address of a path in the public folder; "" if the archive has no address."""
    return f"{places.public_url}/{path}" if places.public_url else ""


def page_address(places: Places, dataset: str) -> str:
    """Return the https address of a dataset's page; "" if the archive has no address."""
    return absolute(places, f"datasets/{dataset}/")


def feed_path(dataset: str) -> str:
    """Return the path of the feed of a dataset's versions."""
    return f"datasets/{dataset}/{FEED}"


def citation_path(dataset: str) -> str:
    """Return the path of the citation file of a dataset."""
    return f"datasets/{dataset}/{CITATION}"


def sums_path(dataset: str, version: str) -> str:
    """Return the path of the checksums of a version: next to its folder, so that the folder holds only its files."""
    return f"datasets/{dataset}/versions/{version[7:23]}.SHA256SUMS"
