"""The routes that answer with the rows of a version, in the format that the caller asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kfm.api.endpoints.data_routes import sent, shown
from kfm.api.endpoints.run_routes import seen_by
from kfm.api.media_choice import in_order
from kfm.api.problems import HttpProblem, not_found
from kfm.api.routes import Answer, ApiRoute, Call, Parameter, View
from kfm.app.data.row_formats import FORMS, MEDIA_TYPES
from kfm.app.serving.table_answers import Crowded, NoForm, VersionRows, file_in_form, version_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kfm.app.data.row_formats import Form

FORMAT = Parameter("format", "the format; default: what Accept asks for", "choice", choices=FORMS)
KEY = Parameter("key", "one file of the version, by its key with / between the parts; default: all, one after another")


def rows(view: View, call: Call) -> Answer:
    """Answer with the rows of a version."""
    at = shown(view, call)
    version = call.path.get("version", at.version)
    found = version_rows(view.session, at, version, call.query["key"], seen_by(view))
    if found is None:
        raise not_found()
    try:
        made = file_in_form(view.session, found, _wanted(call, found))
    except NoForm as told:
        raise _no_form(found, told.possible) from None
    except Crowded:
        raise HttpProblem(503, "the rows of other callers are being written; ask again") from None
    if made is None:
        raise not_found()
    file, form = made
    name = f"{at.dataset}-{version[7:19]}.{form}"
    return sent(view, call, at.dataset, file, (("Content-Disposition", f'inline; filename="{name}"'),))


def _wanted(call: Call, found: VersionRows) -> Sequence[Form]:
    if call.query["format"]:
        return [cast("Form", call.query["format"])]
    accept = next((text for name, text in call.headers.items() if name.lower() == "accept"), "")
    by_type = {MEDIA_TYPES[form]: form for form in found.preferred}
    return [by_type[each] for each in in_order(accept, list(by_type))]


def _no_form(found: VersionRows, possible: Sequence[Form]) -> HttpProblem:
    if possible:
        offered = ", ".join(f"{MEDIA_TYPES[form].partition(';')[0]} (format={form})" for form in possible)
        return HttpProblem(406, f"these rows can be had as: {offered}", "input.bad")
    files = f"/v1/datasets/{found.dataset}/versions/{found.version}"
    return HttpProblem(
        406, f"there are no rows here that can be written in one file; see the files: {files}", "input.bad"
    )


ROUTES = (
    ApiRoute(
        "GET", "/v1/datasets/{name}/data", "data", "The rows of the current version, in a format of your choice", rows,
        None, (FORMAT, KEY), media="*/*", problems=(400, 404, 406, 416),
    ),
    ApiRoute(
        "GET", "/v1/datasets/{name}/versions/{version}/data", "versionData",
        "The rows of a version, in a format of your choice", rows, None, (FORMAT, KEY), media="*/*",
        problems=(400, 404, 406, 416),
    ),
)  # fmt: skip
