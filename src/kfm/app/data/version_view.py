"""What may be shown of a version at a glance: its first rows and a map of its places, as the public pages show them.
Only of plainly public data: anything else has no view."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kfm.app.metadata.archive_places import places_of_public
from kfm.app.runs.visibility import Visibility, plainly_public
from kfm.delivery.page_samples import first_rows, places_in
from kfm.errors import BadInput
from kfm.model.public_run import PublicArtifact
from kfm.projections.pages.page_map import draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kfm.app.data.version_reader import Selection
    from kfm.app.session.session import Session


class VersionView(NamedTuple):
    """The first rows of the first entry, and a map of the places in the first entries."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    svg: str  # empty if no places are known


def view_of(session: Session, found: Selection) -> VersionView | None:
    """Return the view of a selection; None unless its dataset and this version are plainly public."""
    if not found.dataset or not plainly_public(session, [found.dataset]):
        return None
    version = session.state.ledger.version(found.dataset, found.version)
    try:
        if version is None or not Visibility(session).is_public(found.dataset, version):
            return None
    except BadInput:  # without readable labels, no version counts as public
        return None
    files = [
        PublicArtifact(
            id="", key=entry.key, digest=entry.digest, size=entry.size, media_type=entry.media_type, path="",
            bbox=entry.bbox,
        )
        for entry in found.entries
    ]  # fmt: skip
    sample = first_rows(session.objects, files[0]) if files else None
    drawing = places_in(session.objects, files, masked=False).drawing
    svg = ""
    if drawing.places():
        svg = draw(drawing, places_of_public(session).outline, f"Map of {found.dataset}").svg
    if sample is None:
        return VersionView((), (), svg)
    return VersionView([column.name for column in sample.columns], sample.rows, svg)
