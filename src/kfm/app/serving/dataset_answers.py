"""Datasets, their versions and files, as the API and the pages show them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from kfm.app.metadata.archive_places import places_of_public
from kfm.app.serving.served_records import DatasetAnswer, DatasetList, DatasetSummary, Link, ShownFile, ShownVersion
from kfm.app.session.datasets import public_retention
from kfm.delivery.page_content import PageContent
from kfm.delivery.public_layout import Layout
from kfm.model import manifests

if TYPE_CHECKING:
    from kfm.app.serving.shelf import Shelf, ShownDataset
    from kfm.app.session.session import Session
    from kfm.model.public_run import PublicVersion
    from kfm.model.records import ManifestEntry

LISTED = 100  # files in the answer about a dataset


def content_of(session: Session, shown: ShownDataset) -> PageContent:
    """Return the content of the page of a dataset."""
    return PageContent(
        session.state,
        session.objects,
        places_of_public(session),
        shown.dataset,
        shown.moves,
        public_retention(session, shown.dataset),
    )


def dataset_list(session: Session, shelf: Shelf, after: str, limit: int, index: int) -> DatasetList:
    """Return a page of the datasets that may be shown; `after` is the last name of the page before."""
    found = [one for one in shelf.all() if one.dataset > after]
    page = found[:limit]
    return DatasetList(
        datasets=tuple(summary(content_of(session, one).version, one) for one in page),
        next=page[-1].dataset if len(found) > limit else "",
        ledger_entries=index,
    )


def summary(version: PublicVersion, shown: ShownDataset) -> DatasetSummary:
    said = _said(version)
    return DatasetSummary(
        dataset=shown.dataset,
        title=str(said.get("title") or shown.dataset),
        description=str(said.get("description") or ""),
        version=version.digest,
        published_at=version.published_at,
        level=_level(version),
        files=version.entries,
        size=version.size,
        links=tuple(_links(shown.dataset)),
    )


def dataset_answer(session: Session, shown: ShownDataset, index: int) -> DatasetAnswer:
    content = content_of(session, shown)
    version, said = content.version, _said(content.version)
    entries = list(islice(manifests.entries(session.objects, shown.version), LISTED))
    return DatasetAnswer(
        dataset=shown.dataset,
        title=str(said.get("title") or shown.dataset),
        description=str(said.get("description") or ""),
        license=str(said.get("license") or ""),
        attribution=str(said.get("attribution") or ""),
        version=version.digest,
        published_at=version.published_at,
        level=_level(version),
        bbox=version.bbox,
        interval=version.interval,
        labels=version.made.labels,
        updater=version.made.updater_id,
        updater_version=version.made.updater_version,
        run_id=version.made.run_id,
        versions=tuple(shown_versions(session, shown)),
        files=tuple(shown_files(session, shown, entries)),
        more_files=version.entries - len(entries),
        links=tuple(_links(shown.dataset)),
        ledger_entries=index,
    )


def shown_versions(session: Session, shown: ShownDataset) -> Iterator[ShownVersion]:
    """Yield the versions that may be shown, the newest first."""
    published = {move.after: move.ts for move in reversed(shown.moves)}
    for digest in reversed(shown.standing):
        record = session.state.ledger.version(shown.dataset, digest)
        if record is not None:
            yield ShownVersion(
                version=digest,
                published_at=published.get(digest, ""),
                files=record.entries,
                size=record.size,
                current=digest == shown.version,
            )


def shown_files(session: Session, shown: ShownDataset, entries: list[ManifestEntry]) -> Iterator[ShownFile]:
    layout = Layout(session.state, session.objects, shown.dataset, shown.moves)
    for entry in entries:
        yield ShownFile(
            key=entry.key,
            digest=entry.digest,
            size=entry.size,
            media_type=entry.media_type,
            href="/" + layout.path(shown.version, entry),
        )


def _said(version: PublicVersion) -> dict[str, Any]:
    return version.metadata or version.made.metadata


def _level(version: PublicVersion) -> str:
    return version.made.labels.level if version.made.labels is not None else "public"


def _links(dataset: str) -> Iterator[Link]:
    yield Link(rel="self", href=f"/v1/datasets/{dataset}")
    yield Link(rel="alternate", href=f"/datasets/{dataset}/", type="text/html", title="the page")
    yield Link(rel="focus", href=f"/v1/focus/{dataset}", title="how it was produced")
    yield Link(rel="collection", href=f"/stac/collections/{dataset}", title="the STAC collection")
