"""The files of the console: a style sheet and modules."""

from __future__ import annotations

from kfm.api.console.static_files import MEDIA_TYPES, body_of, media_type_of, name_at, packed, takes_gzip
from kfm.api.problems import not_found
from kfm.api.routes import Answer, ApiRoute, Call, View

_FOR_GOOD = (("Cache-Control", "public, max-age=31536000, immutable"), ("Vary", "Accept-Encoding"))
_PACKED = (*_FOR_GOOD, ("Content-Encoding", "gzip"))


def static_file(_view: View, call: Call) -> Answer:
    """Answer with a file, compressed if the caller takes it so: it is the same for everybody and holds no secret."""
    name = name_at(f"/static/{call.path['file']}")
    if not name:
        raise not_found()
    if takes_gzip(call.headers.get("accept-encoding", "")):
        return Answer(packed(name), media_type_of(name), headers=_PACKED)
    return Answer(body_of(name), media_type_of(name), headers=_FOR_GOOD)


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
