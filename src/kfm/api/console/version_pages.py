"""The pages of a version and of the lineage of a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from kfm.api.console.frame import Around, console_page
from kfm.api.console.lineage_picture import lineage_picture
from kfm.api.console.parts import (
    dataset_link,
    json_link,
    more,
    pairs,
    run_link,
    section,
    table,
    version_link,
)
from kfm.app.serving.lineage_answers import MOST
from kfm.projections.pages.page_style import many, short_digest, size_of, time_tag

if TYPE_CHECKING:
    from kfm.app.serving.lineage_answers import LineageAnswer, LineageNode
    from kfm.app.serving.version_answers import VersionAnswer, VersionDifference


_FORMATS = {"csv": "CSV", "geojson": "GeoJSON", "ndjson": "NDJSON", "parquet": "Parquet"}


def version_page(told: VersionAnswer, differs: VersionDifference | None, around: Around) -> bytes:
    words = "the current version" if told.is_current else "a superseded version"
    lead = f'<p class="lead">{words} of {dataset_link(told.dataset)}</p>'

    def inside() -> Iterator[str]:
        yield from section("Facts", pairs(_facts(told)))
        if differs is not None:
            yield from section("What changed", _difference(differs))
        yield from section("Files", _files(told), "files")
        yield json_link(f"/v1/datasets/{told.dataset}/versions/{told.version}")

    return console_page(f"Version {told.version[7:19]}", around, list(inside()), lead=lead)


def _facts(told: VersionAnswer) -> Iterator[tuple[str, str]]:
    yield "Version", f"<code>{escape(told.version)}</code>"
    yield "Published", time_tag(told.published_at, clock=True)
    yield "Made", time_tag(told.made_at, clock=True)
    yield "By run", run_link(told.run_id)
    yield "Updater", escape(f"{told.updater} {told.updater_version}")
    yield "Files", f"{many(told.file_count, 'file')}, {size_of(told.size)}"
    if told.row_formats:
        yield "Rows", ", ".join(_rows(told))
    yield "Before it", version_link(told.dataset, told.before)
    yield "Lineage", f'<a href="/lineage/{escape(told.dataset)}">what it was made of</a>'


def _rows(told: VersionAnswer) -> Iterator[str]:
    at = f"/v1/datasets/{told.dataset}/versions/{told.version}/data"
    for each in told.row_formats:
        yield f'<a href="{escape(at)}?format={each}">{_FORMATS.get(each, each)}</a>'


def _difference(found: VersionDifference) -> Iterator[str]:
    since = f"Since {version_link(found.dataset, found.before)}" if found.before else "It is the first version"
    yield f"<p>{since}: {found.added:,} added, {found.changed:,} changed, {found.removed:,} removed.</p>"
    rows = (
        (escape(each.what), escape("/".join(each.key)), short_digest(each.before) if each.before else "",
         short_digest(each.after) if each.after else "")
        for each in found.changes
    )  # fmt: skip
    empty = "Keys are not shown: the data is not plainly public." if found.is_withheld else "Nothing changed."
    yield from table("Changed outputs", ("Change", "Key", "Before", "After"), rows, empty)
    if found.more_changes:
        yield f"<p>… and {found.more_changes:,} more</p>"


def _files(told: VersionAnswer) -> Iterator[str]:
    rows = (
        (f'<a href="{escape(each.href)}">{escape("/".join(each.key))}</a>', escape(each.media_type), size_of(each.size),
         short_digest(each.digest))
        for each in told.files
    )  # fmt: skip
    yield from table("Files of this version", ("Key", "Type", "Size", "Digest"), rows, "It has no file.")
    if told.next:
        yield more(f"/versions/{told.dataset}/{told.version}", {"after": told.next}, "More files")


def lineage_page(told: LineageAnswer, around: Around) -> bytes:
    lead = f'<p class="lead">What {dataset_link(told.dataset)} was made of, and what was made of it</p>'

    def inside() -> Iterator[str]:
        yield '<section><h2>Picture</h2><div class="scroll picture lineage" role="region" aria-label="The lineage as a '
        yield 'graph" tabindex="0">'
        yield lineage_picture(told)
        yield "</div></section>"
        names = {node.id: node for node in told.nodes}
        rows = (
            (_named(names[each.source]), _named(names[each.target]), many(each.runs, "run"))
            for each in told.edges
            if each.source in names and each.target in names
        )
        empty = "It was made of nothing that is shown here."
        yield from section("Who reads what", table("Lineage", ("Read", "Made", "By"), rows, empty), "edges")
        at = f"/lineage/{told.dataset}"
        if told.is_cut and told.limit < MOST:
            asked: dict[str, object] = {"depth": told.depth, "limit": min(told.limit * 4, MOST)}
            yield more(at, asked, f"More than {told.limit} datasets and sources")
        elif told.is_cut:
            yield '<p class="note">There is more than a page shows. Begin at a dataset nearer to what you look for.</p>'
        elif not told.is_whole:
            yield more(at, {"depth": told.depth + 1, "limit": told.limit}, "One run further")
        yield json_link(f"/v1/datasets/{told.dataset}/lineage?depth={told.depth}&limit={told.limit}")

    return console_page(f"Lineage of {told.dataset}", around, list(inside()), lead=lead)


def _named(node: LineageNode) -> str:
    if node.kind == "dataset" and node.is_shown:
        return f'<a href="/lineage/{escape(node.name)}">{escape(node.name)}</a>'
    return escape(node.name)
