"""Two real HTTP servers over one set of data: one with a key list and a person of each role, one without. And the rules
by which every answer to a role is judged, whatever was asked.

The rules come from the table of routes, and from the names and canaries of the closed datasets. They share no code with
what decides in the product.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from kfm import config
from kfm.api.access import Rules
from kfm.api.route_table import ROUTES
from kfm.api.routes import ApiRoute
from kfm.api.server import Served, listening
from kfm.app.authority.keyring import signer_at
from kfm.app.session.session import open_session
from kfm.app.stewards import key_changes, token_changes
from kfm.app.stewards.key_changes import KeyRequest
from kfm.cli.listener import index_file, reopened
from tests.api.serving_site import CANARY, CLOSED, OPEN, PASSING, SECRET, Answer, Site, make

PEOPLE = {"ada": "admin", "vic": "viewer", "olli": "operator", "sue": "steward"}
ROLES = ("public", "single", *sorted(PEOPLE.values()))
NAMED = ("operator", "steward", "admin")  # may learn that a closed dataset exists, by its name, and nothing of it
REFUSALS = {400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 422, 429, 503}
NOWHERE = "/there-is-no-such-address"


class Roles(NamedTuple):
    """The servers, and how each role asks."""

    listed: Site
    alone: Site
    tokens: Mapping[str, str]  # by role

    def site(self, role: str) -> Site:
        return self.alone if role == "single" else self.listed

    def headers(self, role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[role]}"} if role in self.tokens else {}

    def ask(
        self,
        role: str,
        path: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        return self.site(role).ask(path, method, {**self.headers(role), **(headers or {})}, body)


@contextmanager
def served_roles(folder: Path) -> Iterator[Roles]:
    """Serve both. Nobody is slowed down by the limit of requests."""
    listed, alone = folder / "listed", folder / "alone"
    listed.mkdir()
    make(listed)
    shutil.copytree(listed, alone)
    tokens = with_people(listed, folder)
    with serving(listed) as one, serving(alone) as other:
        yield Roles(one, other, tokens)


def with_people(folder: Path, safe: Path) -> dict[str, str]:
    """Make a key list with a person of each role, and return their tokens by role."""
    with open_session(config.load(str(folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"})) as session:
        for person, role in PEOPLE.items():
            wanted = KeyRequest(person=person, roles=[role], custodians=[], purpose="act", days=365)  # type: ignore[list-item]
            signers = [signer_at(str(safe / "ada.key"))] if person != "ada" else []
            made = key_changes.new_key(
                session, wanted, str(safe / f"{person}.key"), signers, actor="x", reason="a test"
            )
            assert made.receipt.status == "SUCCESS", made.receipt.errors
        found = {}
        for person, role in PEOPLE.items():
            signed = [signer_at(str(safe / f"{person}.key"))]
            found[role] = token_changes.new_token(session, person, 30, "", signed, actor="x", reason="a test").secret
    return found


@contextmanager
def serving(folder: Path) -> Iterator[Site]:
    resolved = config.load(str(folder / "kfm.yml"), {})
    again = partial(reopened, resolved)
    served = Served(again, resolved.path, index_file(resolved), rules=Rules(per_minute=0))
    with listening(again, "127.0.0.1", 0, None, metrics=False, served=served) as port:
        yield Site(folder, port)


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    found = []
    for route in ROUTES:
        text = re.sub(r"\{(\w+):path\}", r"(?P<\1>.*)", route.path)
        found.append((re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", text) + r"\Z", re.DOTALL), route.path))
    return found


def template_of(address: str) -> str:
    """Return the path, as the description writes it, that an address belongs to, whatever the method; empty: none."""
    path = unquote(address.partition("?")[0])
    return next((at.replace(":path}", "}") for pattern, at in _patterns() if pattern.match(path)), "")


def route_of(method: str, address: str) -> tuple[ApiRoute | None, dict[str, str]]:
    """Return the route that answers, and the parts of its path. None: no route is there, or not for this method."""
    path = unquote(address.partition("?")[0])
    wanted = "GET" if method == "HEAD" else method
    for pattern, at in _patterns():
        if found := pattern.match(path):
            own = [route for route in ROUTES if route.path == at and route.method == wanted]
            return (own[0] if own else None), found.groupdict()
    return None, {}


def wrongs(role: str, method: str, address: str, answer: Answer, nowhere: Answer) -> list[str]:
    """Return what is wrong with an answer to this role. `nowhere` is the answer about an address that never was."""
    route, parts = route_of(method, address)
    said = answer.body + repr(sorted(answer.headers.items())).encode()
    found = []
    if answer.status >= 500 and answer.status != 503:
        found.append(f"a mistake of the server: {answer.status}")
    if CANARY.encode() in said:
        found.append("the canary is in it")
    if answer.status == 404 and (answer.body if method != "HEAD" else nowhere.body) != nowhere.body:
        found.append("a 404 that differs from that of an address that never was")
    if (route is None or role not in route.audiences) and answer.status not in REFUSALS:
        found.append(f"{answer.status} where this role has nothing")
    if answer.status < 400 and role not in NAMED:
        if any(name in parts.values() for name in (SECRET, CLOSED)):
            found.append(f"{answer.status} about a closed dataset")
        asked = unquote(address)
        if any(name.encode() in said and name not in asked for name in (SECRET, CLOSED)):
            found.append("the name of a closed dataset is in it")
    if route is not None and role in route.audiences and answer.status < 300 and role != "public":
        kept = answer.headers.get("cache-control", "")
        if "public" in kept and "/static/" not in address:
            found.append(f"a cache of others may keep it: {kept}")
    return found


def shows(answer: Answer) -> bool:
    """Return whether an answer has something of the dataset that everybody may see."""
    return answer.status == 200 and OPEN.encode() in answer.body


def steady(answer: Answer) -> bytes:
    """Return what an answer says, in one piece: all but the time of day and the ids of the request."""
    headers = {name: value for name, value in answer.headers.items() if name not in PASSING}
    return json.dumps([answer.status, headers]).encode() + answer.body
