"""The pages of the console. Each page shows the record that its address under /v1 answers with."""

from __future__ import annotations

from msgspec import structs

from kfm.api.console.dataset_sections import with_sections
from kfm.api.console.focus_page import focus_page
from kfm.api.console.frame import framed
from kfm.api.console.map_part import with_live_map
from kfm.api.console.search_page import search_box
from kfm.api.endpoints.data_routes import shown
from kfm.api.endpoints.run_routes import seen_by
from kfm.api.problems import not_found
from kfm.api.routes import HTML, Answer, ApiRoute, Call, View
from kfm.app.metadata.archive_places import places_of_public
from kfm.app.serving.dataset_answers import content_of
from kfm.app.serving.discretion import Discretion
from kfm.app.serving.focus import focus
from kfm.app.serving.freshness_answers import FreshnessRow, freshness_answer
from kfm.app.serving.quality_answers import quality_answer
from kfm.errors import BadInput
from kfm.projections.dataset_pages import FrontEntry, dataset_page, front_page, small_map

FOR_PROGRAMS = (
    ("/v1/docs", "The API"),
    ("/stac", "STAC API"),
    ("/catalog.jsonld", "DCAT catalog"),
)


def front(view: View, _call: Call) -> Answer:
    """Answer with the page of all datasets."""
    # The catalogs are those of this server, not the files next to the public folder.
    places, entries = structs.replace(places_of_public(view.session), catalog=""), []
    for one in view.shelf.all():
        page = content_of(view.session, one).page()
        said = page.version.metadata or page.version.made.metadata
        entries.append(
            FrontEntry(
                name=one.dataset,
                title=str(said.get("title") or one.dataset),
                description=str(said.get("description") or ""),
                published_at=page.version.published_at,
                masked=page.version.made.labels is not None,
                picture=small_map(page, places),
            )
        )
    return Answer(framed(front_page(entries, places, FOR_PROGRAMS, box=search_box()), ""), HTML)


def dataset(view: View, call: Call) -> Answer:
    """Answer with the page of a dataset."""
    at = shown(view, call)
    page, seen = content_of(view.session, at).page(), seen_by(view)
    quality = quality_answer(view.session, seen, at, at.version, view.entries)
    if quality is None:
        raise not_found()
    body = with_sections(
        dataset_page(page, places_of_public(view.session)),
        quality,
        _freshness(view, seen, at.dataset),
        page.version.made.labels,
        is_staff=seen.is_staff,
    )
    return Answer(with_live_map(framed(body, at.dataset), at.dataset), HTML)


def _freshness(view: View, seen: Discretion, dataset: str) -> FreshnessRow | None:
    """Return the freshness of a dataset; None if nothing is declared about it, or if a file of the schedules has a
    mistake."""
    try:
        found = freshness_answer(view.session, seen, dataset, view.entries)
    except BadInput:
        return None
    return found.freshness if found is not None else None


def explanation(view: View, call: Call) -> Answer:
    """Answer with Focus Mode of a dataset, under the name that its explanation has in the public folder."""
    return _focus_page(view, shown(view, call).dataset)


def focus_mode(view: View, call: Call) -> Answer:
    return _focus_page(view, call.path["thing"])


def _focus_page(view: View, thing: str) -> Answer:
    found = focus(view.session, view.shelf, thing, view.entries)
    if found is None:
        raise not_found()
    return Answer(focus_page(found, places_of_public(view.session).title), HTML)


ROUTES = (
    ApiRoute("GET", "/", "frontPage", "The page of all datasets", front, media=HTML, tag="pages"),
    ApiRoute("GET", "/index.html", "frontPageByName", "The same", front, media=HTML, tag="pages"),
    ApiRoute("GET", "/datasets/{name}/", "datasetPage", "The page of a dataset", dataset, media=HTML, tag="pages"),
    ApiRoute("GET", "/datasets/{name}/index.html", "datasetPageByName", "The same", dataset, media=HTML, tag="pages"),
    ApiRoute(
        "GET", "/datasets/{name}/explanation.html", "explanationPage", "Focus Mode of a dataset", explanation,
        media=HTML, tag="pages",
    ),
    ApiRoute("GET", "/focus/{thing}", "focusPage", "Focus Mode of a thing", focus_mode, media=HTML, tag="pages"),
)  # fmt: skip
