"""The files of the console: a style sheet and modules."""

from __future__ import annotations

from kfm.api.console.static_files import MEDIA_TYPES, body_of, file_of
from kfm.api.problems import not_found
from kfm.api.routes import Answer, ApiRoute, Call, View

_FOR_GOOD = (("Cache-Control", "public, max-age=31536000, immutable"), ("Vary", "Accept-Encoding"))


def static_file(_view: View, call: Call) -> Answer:
    found = file_of(f"/static/{call.path['file']}")
    if found is None:
        raise not_found()
    body, media_type = found
    return Answer(body, media_type, headers=_FOR_GOOD)


def icon(_view: View, _call: Call) -> Answer:
    return Answer(body_of("icon.svg"), MEDIA_TYPES[".svg"])


ROUTES = (
    ApiRoute(
        "GET", "/favicon.ico", "icon", "The picture that browsers show next to the title", icon, media="image/svg+xml",
        tag="pages",
    ),
    ApiRoute(
        "GET", "/static/{file}", "staticFile", "A style sheet or a module of the console", static_file,
        media="application/octet-stream", tag="pages",
    ),
)  # fmt: skip
