"""The routes of /v1 that read, and the public files."""

from __future__ import annotations

import io
from functools import partial

from kfm.api.problems import HttpProblem, not_found
from kfm.api.routes import Answer, ApiRoute, Call, Parameter, Stream, View
from kfm.app.serving.dataset_answers import dataset_answer, dataset_list
from kfm.app.serving.file_answers import FoundFile, file_at, pieces
from kfm.app.serving.focus import focus
from kfm.app.serving.served_records import DatasetAnswer, DatasetList, FocusContext, Home, Link
from kfm.app.serving.shelf import Shelf, ShownDataset

# A file that is a page itself runs no script here, and sends no form.
APART = ("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:")
# Bytes that are sent at once, as of the ledger entry that the answer names; a longer body is asked about as it is sent.
AT_ONCE = 1 << 16
AFTER = Parameter("after", "the name after which the page begins")
LIMIT = Parameter("limit", "the most entries of a page", "whole", 100, 1, 1000)


def shown(view: View, call: Call) -> ShownDataset:
    """Return the dataset of the path. The one 404 if there is none that may be shown."""
    found = view.shelf.find(call.path["name"])
    if found is None:
        raise not_found()
    return found


def home(view: View, _call: Call) -> Answer:
    from kfm.app.metadata.archive_places import places_of_public

    places = places_of_public(view.session)
    links = (
        Link(rel="self", href="/v1"),
        Link(rel="service-desc", href="/v1/openapi.json", type="application/vnd.oai.openapi+json;version=3.1"),
        Link(rel="datasets", href="/v1/datasets"),
        Link(rel="stac", href="/stac"),
        Link(rel="dcat", href="/catalog.jsonld", type="application/ld+json"),
        Link(rel="search", href="/v1/search"),
        Link(rel="alternate", href="/", type="text/html"),
    )
    return Answer(Home(places.title, places.description, view.entries, links))


def datasets(view: View, call: Call) -> Answer:
    query = call.query
    return Answer(dataset_list(view.session, view.shelf, query["after"], query["limit"], view.entries))


def dataset(view: View, call: Call) -> Answer:
    return Answer(dataset_answer(view.session, shown(view, call), view.entries))


def focus_context(view: View, call: Call) -> Answer:
    found = focus(view.session, view.shelf, call.path["thing"], view.entries)
    if found is None:
        raise not_found()
    return Answer(found)


def public_file(view: View, call: Call) -> Answer:
    """Answer with a file of the public folder, or a part of it."""
    at = shown(view, call)
    found = file_at(view.session, at, f"datasets/{at.dataset}/{call.path['path']}")
    if found is None:
        raise not_found()
    return sent(view, call, at.dataset, found)


def sent(view: View, call: Call, dataset: str, found: FoundFile, more: tuple[tuple[str, str], ...] = ()) -> Answer:
    """Answer with a file, or the part of it that was asked for, as long as its version may be shown."""
    start, size, status, headers = _part(call, found)
    if found.body is not None:
        body = pieces(io.BytesIO(found.body), start, size)
    else:
        body = pieces(view.session.objects.open(found.digest), start, size)
    tag = f'"{found.digest[7:39]}"'
    if size <= AT_ONCE:
        whole = (*headers, ("Accept-Ranges", "bytes"), APART, *more)
        return Answer(b"".join(body), found.media_type, status, whole, tag)
    goes_on = partial(_still_shown, dataset, found.version, view.audience)
    stream = Stream(size, body, goes_on)
    return Answer(stream, found.media_type, status, (*headers, APART, *more), tag)


def _still_shown(dataset: str, version: str, audience: str, reading: object) -> bool:
    session, gate = reading.session, reading.gate  # type: ignore[attr-defined]
    return Shelf(session, gate, audience).may_show(dataset, version)


def _part(call: Call, found: FoundFile) -> tuple[int, int, int, tuple[tuple[str, str], ...]]:
    """Return start, size, status and headers of the part that was asked for. A range of another form is ignored, as RFC
    9110 permits."""
    text = call.headers.get("range", "")
    unit, _, said = text.partition("=")
    first, dash, last = said.strip().partition("-")
    if unit.strip().lower() != "bytes" or not dash or "," in said or not (first + last).isdigit() or len(said) > 40:
        return 0, found.size, 200, ()
    tag = call.headers.get("if-range", "")
    if tag and tag != f'"{found.digest[7:39]}"':
        return 0, found.size, 200, ()
    start = int(first) if first else max(found.size - int(last), 0)
    end = min(int(last), found.size - 1) if first and last else found.size - 1
    if start >= found.size or end < start:
        raise HttpProblem(
            416, f"the file has {found.size} bytes", "input.bad", (("Content-Range", f"bytes */{found.size}"),)
        )
    return start, end - start + 1, 206, (("Content-Range", f"bytes {start}-{end}/{found.size}"),)


ROUTES = (
    ApiRoute("GET", "/v1", "home", "What this server offers", home, Home),
    ApiRoute(
        "GET", "/v1/datasets", "datasets", "The datasets that may be shown, by name", datasets, DatasetList,
        (AFTER, LIMIT),
    ),
    ApiRoute("GET", "/v1/datasets/{name}", "dataset", "A dataset with its current version", dataset, DatasetAnswer),
    ApiRoute(
        "GET", "/v1/focus/{thing}", "focus", "How a dataset, version or run was produced, with its evidence",
        focus_context, FocusContext, tag="focus",
    ),
    ApiRoute(
        "GET", "/datasets/{name}/{path:path}", "publicFile", "A file of the public folder, or a range of it",
        public_file, media="application/octet-stream", problems=(400, 404, 416), tag="files",
    ),
)  # fmt: skip
