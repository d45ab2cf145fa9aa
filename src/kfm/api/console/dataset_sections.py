"""What the console adds to the public page of a dataset: quality, freshness with what makes it late, labels and
custodians. The public page has its own style sheet and loads nothing, so these parts use no other."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from kfm.api.console.parts import dataset_link, pairs, run_link, section
from kfm.api.console.schedule_page import words_of_cause
from kfm.projections.pages.page_style import time_tag

if TYPE_CHECKING:
    from kfm.app.serving.freshness_answers import FreshnessRow
    from kfm.app.serving.quality_answers import QualityAnswer
    from kfm.model.public_run import PublicLabels

END_OF_MAIN_COLUMN = b"</div><aside>"
_RESULTS = {
    "passed": "every row passed the data contracts of its sources",
    "quarantined": "some rows did not pass the data contracts of the sources, and are not in it",
    "unchecked": "no source has a data contract",
    "not shown": "not shown: the data is not plainly public",
}


def with_sections(
    page: bytes,
    quality: QualityAnswer,
    freshness: FreshnessRow | None,
    labels: PublicLabels | None,
    *,
    is_staff: bool,
) -> bytes:
    """Return the page of a dataset with these sections at the end of its main column."""
    parts = [
        *section("Quality", pairs(_quality(quality)), "quality"),
        *(section("Freshness", pairs(_freshness(freshness)), "freshness") if freshness is not None else ()),
        *section("Labels", _labels(labels), "labels"),
        *section("As data", _addresses(quality, is_staff=is_staff), "data"),
    ]
    return page.replace(END_OF_MAIN_COLUMN, "".join(parts).encode("utf-8", "replace") + END_OF_MAIN_COLUMN, 1)


def _quality(told: QualityAnswer) -> Iterator[tuple[str, str]]:
    yield "Result", _RESULTS[told.result]
    if told.sources is not None and told.contracts is not None:
        yield "Sources with a contract", f"{told.contracts:,} of {told.sources:,}"
    yield "Rows read", "" if told.rows is None else f"{told.rows:,}"
    yield "Rows quarantined", "" if told.quarantined_rows is None else f"{told.quarantined_rows:,}"
    yield "Checked by", f"run {run_link(told.checked_by)}"
    yield "Reports", ", ".join(map(dataset_link, told.reports))


def _freshness(told: FreshnessRow) -> Iterator[tuple[str, str]]:
    yield "As of", time_tag(told.as_of, clock=True)
    target = told.target if told.target.startswith("by ") else f"at most {told.target}"
    yield "Age that is promised", escape(target) if told.target else "none"
    yield "State", f"late since {time_tag(told.late_since, clock=True)}" if told.late_since else escape(told.verdict)
    if told.late_since:
        yield "Because of", escape(", ".join(each.cause for each in told.blame))
        yield "Waits for", "<br>".join(map(words_of_cause, told.waits_for))


def _labels(labels: PublicLabels | None) -> Iterator[str]:
    if labels is None:
        yield "<p>It is public, and no label restricts it.</p>"
        return
    places = "exact" if labels.resolution is None else f"cells of H3 resolution {labels.resolution} or coarser"
    yield from pairs(
        (
            ("Level", escape(labels.level)),
            ("CARE", escape(labels.care)),
            ("Access", escape(labels.access)),
            ("Places", escape(places)),
            ("Custodian", escape(", ".join(labels.custodians))),
            ("Authority", escape(", ".join(labels.authorities))),
            ("Community labels", escape(", ".join(labels.community_labels))),
            ("Consent until", time_tag(labels.expires)),
        )
    )


def _addresses(told: QualityAnswer, *, is_staff: bool) -> Iterator[str]:
    own = f"/v1/datasets/{told.dataset}"
    found = [own, f"{own}/schema", f"{own}/freshness", f"{own}/versions/{told.version}/quality", f"{own}/lineage"]
    pages = [(f"/lineage/{told.dataset}", "What it was made of, and what was made of it")]
    if is_staff:
        pages.append((f"/decisions/{told.dataset}", "What the policies decided"))
        pages.append((f"/why-not/{told.dataset}", "What stands in the way of a newer version"))
    yield '<ul class="plain">'
    yield from (f'<li><a href="{escape(to)}">{escape(words)}</a></li>' for to, words in pages)
    yield from (f'<li><a href="{escape(to)}"><code>{escape(to)}</code></a></li>' for to in found)
    yield "</ul>"
