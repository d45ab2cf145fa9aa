"""The table of routes: what each takes, who may ask, and what it answers. OpenAPI is generated from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from kfm.api.problems import HttpProblem
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest

if TYPE_CHECKING:
    from kfm.app.serving.item_catalog import ItemCatalog
    from kfm.app.serving.shelf import Shelf
    from kfm.app.session.session import Session
    from kfm.app.sign_in.provider import ProviderSettings
    from kfm.app.sign_in.sign_ins import SignIns

Kind = Literal["text", "whole", "choice"]
# Who asks: the open internet; the one user of an installation without a key list, on loopback; or a person of the key
# list, by role.
EVERYBODY = ("public", "single", "viewer", "operator", "steward", "admin")
STAFF = ("single", "operator", "steward", "admin")
MOST_TEXT = 4096  # characters of a parameter
JSON = "application/json"
HTML = "text/html; charset=utf-8"
FORM = "application/x-www-form-urlencoded"


class Parameter(NamedTuple):
    """A parameter in the query of a route."""

    name: str
    description: str
    kind: Kind = "text"
    default: Any = ""
    least: int = 0
    most: int = 1000
    choices: tuple[str, ...] = ()

    def read(self, text: str) -> Any:
        """Return the value that a request gives. HttpProblem if it has another form."""
        if len(text) > MOST_TEXT or "\x00" in text:
            raise HttpProblem(400, f"the parameter {self.name} is too long or holds a NUL; shorten it", "input.bad")
        if self.kind == "whole":
            if not text.isascii() or not text.isdigit() or len(text) > 9 or not self.least <= int(text) <= self.most:
                raise HttpProblem(
                    400, f"{self.name} is not a whole number from {self.least} to {self.most}", "input.bad"
                )
            return int(text)
        if self.kind == "choice" and text not in self.choices:
            raise HttpProblem(400, f"{self.name} is none of: {', '.join(self.choices)}", "input.bad")
        return text

    def schema(self) -> dict[str, Any]:
        if self.kind == "whole":
            return {"type": "integer", "minimum": self.least, "maximum": self.most, "default": self.default}
        if self.kind == "choice":
            return {"type": "string", "enum": list(self.choices), "default": self.default}
        return {"type": "string", "maxLength": MOST_TEXT}


class Call(NamedTuple):
    """One request, as far as a handler may use it."""

    path: Mapping[str, str]
    query: Mapping[str, Any]  # of declared parameters, with their defaults
    given: Mapping[str, str]  # the texts of the query as they came, for routes that read them on their own
    body: bytes
    base: str  # the address of this server as the client knows it, without a slash at the end
    headers: Mapping[str, str]
    correlation_id: str = ""  # of whatever this request causes
    is_secure: bool = False  # the caller came over TLS
    asked: Any = None  # what `ApiRoute.asks` returned
    credential: str = ""  # the digest of the caller's token, or the name of the session


class View(NamedTuple):
    """What a handler sees: one session inside one read transaction, and what the caller may see of it."""

    session: Session
    shelf: Shelf
    items: ItemCatalog
    audience: str
    entries: int  # the newest entry of the ledger that this answer knows
    person: str = ""  # of the key list; empty: nobody by name
    until: str = ""  # when the person's token ends
    csrf: str = ""  # what the caller's next change has to carry; empty: nothing
    sign_ins: SignIns | None = None  # of this server; None: nobody signs in here


class Stream(NamedTuple):
    """A body that is sent in pieces. `goes_on` is asked before each piece."""

    size: int
    pieces: Iterator[bytes]
    goes_on: Callable[[Session], bool]


class Events(NamedTuple):
    """A body of server-sent events. `news` is asked every second, each time inside a read transaction: number, name and
    record of each event since."""

    news: Callable[[View], list[tuple[int, str, object]]]


class Answer(NamedTuple):
    body: Any  # a record that becomes JSON, bytes, a Stream, Events, or what changes/acceptance.py has
    media_type: str = JSON
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    etag: str = ""  # empty: computed from the body


Asks = Callable[["SignIns", "ProviderSettings | None", Call], Any]


class ApiRoute(NamedTuple):
    method: str
    path: str  # as Starlette writes it: /v1/datasets/{name}
    name: str  # the operation id
    summary: str
    work: Callable[[View, Call], Answer]
    answer: type | None = None  # the record of the body; None: `media` says what it is
    parameters: tuple[Parameter, ...] = ()
    media: str = JSON
    tag: str = "data"
    problems: tuple[int, ...] = (400, 404)
    free_query: bool = False  # the handler reads the query on its own
    body: str = ""  # the media type of the body that it takes
    takes: type | None = None  # the record of that body
    successes: tuple[int, ...] = (200,)  # the statuses of what went well
    accepted: type | None = None  # the record of a 202: a request that is stored under its Idempotency-Key
    changes: bool = False  # it changes something: see csrf.py
    for_strangers: bool = False  # it answers a caller whose sign-in has ended as the public
    asks: Asks | None = None  # what takes long because it asks another server; it runs before `work`
    audiences: tuple[str, ...] = EVERYBODY  # for all others the address does not exist


def query_of(route: ApiRoute, pairs: list[tuple[str, str]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the parameters of a request, and its texts. HttpProblem for one that is unknown, repeated or malformed."""
    given: dict[str, str] = {}
    for name, text in pairs:
        if name in given:
            raise HttpProblem(400, f"the parameter {printable(name, 40)} is given twice; give it once", "input.bad")
        given[name] = text
    if route.free_query:
        return {}, given
    known = {each.name: each for each in route.parameters}
    for name in given:
        if name not in known:
            close = nearest(name, list(known))
            offered = f"did you mean {close}?" if close else f"it takes: {', '.join(sorted(known)) or 'none'}"
            raise HttpProblem(400, f"the parameter {printable(name, 40)} is not known here; {offered}", "input.bad")
    return {name: each.read(given[name]) if name in given else each.default for name, each in known.items()}, given


_encoder = msgspec.json.Encoder(order="deterministic")


def encoded(body: Any) -> bytes:
    """Return a record as JSON. The same record gives the same bytes."""
    return body if isinstance(body, bytes) else _encoder.encode(body)
