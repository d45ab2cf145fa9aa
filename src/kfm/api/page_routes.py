"""The pages of the console, with their files. Each page shows the record that its address under /v1 answers with."""

from __future__ import annotations

from kfm.api.console.focus_page import focus_page
from kfm.api.console.frame import framed
from kfm.api.console.static_files import MEDIA_TYPES, body_of, file_of
from kfm.api.data_routes import shown
from kfm.api.problems import not_found
from kfm.api.routes import HTML, Answer, ApiRoute, Call, View
from kfm.app.metadata.archive_places import places_of_public
from kfm.app.serving.dataset_answers import content_of
from kfm.app.serving.focus import focus
from kfm.projections.dataset_pages import FrontEntry, dataset_page, front_page, small_map

_FOR_GOOD = (("Cache-Control", "public, max-age=31536000, immutable"), ("Vary", "Accept-Encoding"))


def front(view: View, _call: Call) -> Answer:
    """Answer with the page of all datasets."""
    places, entries = places_of_public(view.session), []
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
    return Answer(framed(front_page(entries, places), ""), HTML)


def dataset(view: View, call: Call) -> Answer:
    """Answer with the page of a dataset."""
    at = shown(view, call)
    page = content_of(view.session, at).page()
    return Answer(framed(dataset_page(page, places_of_public(view.session)), at.dataset), HTML)


def focus_mode(view: View, call: Call) -> Answer:
    found = focus(view.session, view.shelf, call.path["thing"], view.entries)
    if found is None:
        raise not_found()
    return Answer(focus_page(found, places_of_public(view.session).title), HTML)


def static_file(_view: View, call: Call) -> Answer:
    found = file_of(f"/static/{call.path['file']}")
    if found is None:
        raise not_found()
    body, media_type = found
    return Answer(body, media_type, headers=_FOR_GOOD)


def icon(_view: View, _call: Call) -> Answer:
    return Answer(body_of("icon.svg"), MEDIA_TYPES[".svg"])


ROUTES = (
    ApiRoute("GET", "/", "frontPage", "The page of all datasets", front, media=HTML, tag="pages"),
    ApiRoute("GET", "/index.html", "frontPageByName", "The same", front, media=HTML, tag="pages"),
    ApiRoute("GET", "/datasets/{name}/", "datasetPage", "The page of a dataset", dataset, media=HTML, tag="pages"),
    ApiRoute("GET", "/datasets/{name}/index.html", "datasetPageByName", "The same", dataset, media=HTML, tag="pages"),
    ApiRoute("GET", "/focus/{thing}", "focusPage", "Focus Mode of a thing", focus_mode, media=HTML, tag="pages"),
    ApiRoute(
        "GET", "/favicon.ico", "icon", "The picture that browsers show next to the title", icon, media="image/svg+xml",
        tag="pages",
    ),
    ApiRoute(
        "GET", "/static/{file}", "staticFile", "A style sheet or a module of the console", static_file,
        media="application/octet-stream", tag="pages",
    ),
)  # fmt: skip
