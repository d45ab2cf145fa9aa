"""The answers about versions: their files, how two of them differ, and where refs lead."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from kfm.app.data.row_formats import sure_forms
from kfm.app.data.version_diff import Point, check_may_compare
from kfm.app.serving.dataset_answers import shown_files, shown_versions
from kfm.app.serving.served_records import Link, ShownFile, ShownVersion
from kfm.errors import Denied
from kfm.model import manifests, refs
from kfm.model.records import Record

if TYPE_CHECKING:
    from kfm.app.serving.discretion import Discretion
    from kfm.app.serving.shelf import ShownDataset
    from kfm.app.session.session import Session
    from kfm.model.records import ManifestEntry


class VersionList(Record, frozen=True):
    """The versions of a dataset that may be shown, the newest first."""

    dataset: str
    versions: tuple[ShownVersion, ...]
    ledger_entries: int


class VersionAnswer(Record, frozen=True):
    """One version of a dataset with its files."""

    dataset: str
    version: str
    published_at: str
    is_current: bool
    before: str  # the version before it that may be shown; empty: none
    run_id: str  # the run that made it
    updater: str
    updater_version: str
    made_at: str
    file_count: int
    size: int
    files: tuple[ShownFile, ...]
    row_formats: tuple[str, ...]  # in which its rows can be had; there may be more
    next: str  # the cursor of the next page of files
    links: tuple[Link, ...]
    ledger_entries: int


class KeyDifference(Record, frozen=True):
    """One output that differs between two versions."""

    key: tuple[str, ...]
    what: str  # added, changed or removed
    before: str  # its digest before; empty: it was added
    after: str
    size_before: int | None
    size_after: int | None


class VersionDifference(Record, frozen=True):
    """How two versions of a dataset differ. Of masked data there are counts alone."""

    dataset: str
    before: str
    after: str
    added: int
    changed: int
    removed: int
    changes: tuple[KeyDifference, ...]  # the first of them, by key
    more_changes: int
    is_withheld: bool  # keys are not shown: the data is not plainly public
    ledger_entries: int


class RefRow(Record, frozen=True):
    """Where a ref leads."""

    ref: str
    target: str  # a digest, or the value of a freeze flag; empty: it may not be shown


class RefList(Record, frozen=True):
    """The refs that lead to shown versions; for the staff also those of work in progress and freeze flags."""

    refs: tuple[RefRow, ...]
    ledger_entries: int


def version_list(session: Session, shown: ShownDataset, index: int) -> VersionList:
    return VersionList(dataset=shown.dataset, versions=tuple(shown_versions(session, shown)), ledger_entries=index)


def version_answer(
    session: Session, shown: ShownDataset, version: str, after: int, limit: int, index: int
) -> VersionAnswer | None:
    """Return a version; None if it may not be shown. `after` counts the files of the pages before."""
    record = session.state.ledger.version(shown.dataset, version) if version in shown.standing else None
    if record is None:
        return None
    own = next(each for each in shown_versions(session, shown) if each.version == version)
    entries = list(islice(manifests.entries(session.objects, version), after, after + limit))
    at = f"/v1/datasets/{shown.dataset}/versions/{version}"
    return VersionAnswer(
        dataset=shown.dataset,
        version=version,
        published_at=own.published_at,
        is_current=own.current,
        before=_before(shown, version),
        run_id=record.run_id,
        updater=record.updater_id,
        updater_version=record.updater_version,
        made_at=record.created_at,
        file_count=record.entries,
        size=record.size,
        files=tuple(shown_files_of(session, shown, version, entries)),
        row_formats=sure_forms(entry.media_type for entry in entries),
        next=str(after + limit) if after + limit < record.entries else "",
        links=(
            Link(rel="self", href=at),
            Link(rel="alternate", href=f"/versions/{shown.dataset}/{version}", type="text/html", title="the page"),
            Link(rel="dataset", href=f"/v1/datasets/{shown.dataset}"),
            Link(rel="data", href=f"{at}/data", type="*/*", title="its rows, in the format that Accept asks for"),
            Link(rel="run", href=f"/v1/runs/{record.run_id}"),
        ),
        ledger_entries=index,
    )


def shown_files_of(
    session: Session, shown: ShownDataset, version: str, entries: list[ManifestEntry]
) -> list[ShownFile]:
    """Return the files of a version, which need not be the current one."""
    as_current = shown._replace(standing=(*(each for each in shown.standing if each != version), version))
    return list(shown_files(session, as_current, entries))


def _before(shown: ShownDataset, version: str) -> str:
    at = shown.standing.index(version)
    return shown.standing[at - 1] if at else ""


def version_difference(
    session: Session, shown: ShownDataset, old: str, new: str, limit: int, index: int
) -> VersionDifference | None:
    """Return how two versions differ; None if one may not be shown. Without `new` it is the current version, without
    `old` the one before `new`; if there is none, everything was added."""
    after = new or shown.version
    if after not in shown.standing or (old and old not in shown.standing):
        return None
    before = old or _before(shown, after)
    points = [Point(dataset=shown.dataset, zone="published", version=each) for each in (before, after)]
    try:
        may_list = check_may_compare(session, *points)
    except Denied:
        return None
    counts = {"added": 0, "changed": 0, "removed": 0}
    listed: list[KeyDifference] = []
    for change in manifests.changes(session.objects, before, after):
        counts[change.what] += 1
        if may_list and len(listed) < limit:
            listed.append(
                KeyDifference(
                    key=change.key,
                    what=change.what,
                    before=change.old.digest if change.old is not None else "",
                    after=change.new.digest if change.new is not None else "",
                    size_before=change.old.size if change.old is not None else None,
                    size_after=change.new.size if change.new is not None else None,
                )
            )
    return VersionDifference(
        dataset=shown.dataset,
        before=before,
        after=after,
        **counts,
        changes=tuple(listed),
        more_changes=sum(counts.values()) - len(listed) if may_list else 0,
        is_withheld=not may_list,
        ledger_entries=index,
    )


def ref_list(session: Session, seen: Discretion, index: int) -> RefList:
    found: list[RefRow] = []
    zones = (refs.PUBLISHED, *((refs.PROCESSED, refs.SWITCH, refs.AMBER) if seen.is_staff else ()))
    for zone in zones:
        for ref, target in session.state.refs.all(zone):
            name = refs.parse(ref)
            flag = zone in (refs.SWITCH, refs.AMBER)
            if not target or not (name.rest == "global" if flag and not name.dataset else seen.may_name(name.dataset)):
                continue
            may_show = flag or seen.shelf.may_show(name.dataset, target) or seen.is_plain(name.dataset)
            found.append(RefRow(ref=ref, target=target if may_show else ""))
    return RefList(refs=tuple(found), ledger_entries=index)
