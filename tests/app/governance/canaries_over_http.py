"""Everything that a caller may ask a server, in every role, and the search for canaries in every answer.

The routes come from the table, so a new one is asked by itself; what an answer says is its status, its headers and its
body, and of a stream of events what comes within a moment. Answers are searched many at once.
"""

from __future__ import annotations

import http.client
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from kfm.api.route_table import ROUTES
from tests.api.every_route import paths, requests
from tests.api.serving import Reply, Served
from tests.api.serving_site import PASSING, is_endless
from tests.masking.canaries import Canary, encodings, hits

AT_ONCE = 2 << 20  # bytes that are searched together
BETWEEN = b"\n\xff\0\xff\n"
FIELDS = ("id", "collection", "datetime", "title", "version", "kfm:id", "kfm:run_id", "table:row_count", "created")
ROLES = ("public", "viewer", "operator", "steward", "admin")
# Headers that make an answer a part, none, another form, or an error.
TELLING: tuple[dict[str, str], ...] = (
    {},
    {"Range": "bytes=0-40"},
    {"Range": "bytes=9999999-"},
    {"Range": "bytes=-9", "If-Range": '"0"'},
    {"If-None-Match": "*"},
    {"Accept": "text/html"},
)


class Request(NamedTuple):
    role: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None = None


def search_all(
    served: Served, values: Mapping[str, Sequence[str]], tokens: Mapping[str, str], searched: Searched, part: slice
) -> None:
    """Ask the server as every role, and search what it answers: of what `everything` yields this part, and of the
    shown dataset, its files, pages, lists and events all."""
    files = [each["href"] for each in served.ask("/v1/datasets/sites").data["files"]]
    for role in ROLES:
        for path in (*files, "/", "/datasets/sites/", "/focus/sites"):
            for told in TELLING:
                searched.ask(served, Request(role, "GET", path, told), tokens)
        for request in followed(served, role, tokens):
            searched.ask(served, request, tokens)
        for answer in told_events(served, role, tokens):
            searched.add(Request(role, "GET", "an event stream", {}), answer)
    for request in [*everything(values, random.Random(str(part)))][part]:
        searched.ask(served, request, tokens)
    searched.search()


class Searched:
    """Answers, and whether a canary is in one of them."""

    def __init__(self, canaries: Sequence[Canary], words: Sequence[bytes], public: Sequence[str] = ()) -> None:
        self._canaries, self._words, self._public = canaries, words, public
        self._waiting: list[tuple[Request, bytes]] = []
        self._size = 0
        self._known: set[bytes] = set()
        self.leaks: list[tuple[Request, str]] = []
        self.statuses: Counter[tuple[str, int]] = Counter()  # by role and status
        self.told: Counter[str] = Counter()  # by role: events of the past
        self.public: dict[str, set[str]] = {}  # by role: which of the public words were seen
        self.pictures = 0

    def ask(self, served: Served, request: Request, tokens: Mapping[str, str]) -> None:
        self.add(request, ask(served, request, tokens))

    def add(self, request: Request, answer: Reply) -> None:
        self.statuses[request.role, answer.status] += 1
        self.pictures += b"<svg" in answer.body
        self.told[request.role] += answer.body.count(b"event: entry")
        seen = self.public.setdefault(request.role, set())
        seen.update(word for word in self._public if word not in seen and word.encode() in answer.body)
        headers = {name: value for name, value in answer.headers.items() if name not in PASSING}
        said = repr(sorted(headers.items())).encode() + answer.body
        if said not in self._known:
            self._known.add(said)
            self._waiting.append((request, said))
            self._size += len(said)
        if self._size > AT_ONCE:
            self.search()

    def search(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if self._is_in(BETWEEN.join(said for _, said in waiting)):
            self.leaks += [(request, said.decode("utf-8", "replace")) for request, said in waiting if self._is_in(said)]

    def _is_in(self, said: bytes) -> bool:
        return any(word in said for word in self._words) or bool(hits(said, self._canaries, encodings))

    def __len__(self) -> int:
        return len(self._known)


def everything(values: Mapping[str, Sequence[str]], draw: random.Random) -> Iterator[Request]:
    """Yield every route with all names, queries and methods, and searches of every form, in every role."""
    for role in ROLES:
        for method, path in requests(values):
            yield Request(role, method, path, {}, b"{}" if method == "POST" else None)
        for method, path in paths(values):
            for told in TELLING:
                yield Request(role, "HEAD" if method == "GET" and not told else method, path, told)
        for query in searches(draw):
            yield Request(role, "GET", f"/stac/search?{urlencode(query)}", {})
            body = {name: json.loads(text) if text[:1] in "{[" else text for name, text in query.items()}
            body |= {"limit": int(query["limit"])} if query.get("limit", "").isdigit() else {}
            yield Request(role, "POST", "/stac/search", {"Content-Type": "application/json"}, json.dumps(body).encode())
        for path in (
            "/metrics",
            "/livez",
            "/readyz",
            "/webhooks/hub",
            "/nowhere",
            "/%",
            "/v1/datasets/%00",
            "/v1/focus/%2e%2e",
        ):
            yield Request(role, "GET", path, {})
            yield Request(role, "POST", path, {}, b"{")
        for token in ("", "x", "kfm_" + "a" * 43):
            yield Request(role, "GET", "/v1/me", {"Authorization": f"Bearer {token}"})


def searches(draw: random.Random) -> Iterator[dict[str, str]]:
    """Yield item searches by each operator of CQL2, by boxes, times, ids, orders, fields and pages."""
    place = {"type": "Polygon", "coordinates": [[[-102, 37], [-94, 37], [-94, 40], [-102, 40], [-102, 37]]]}
    for field in FIELDS:
        said = {"property": field}
        value: Any = "a" if field not in ("table:row_count",) else 3
        value = {"timestamp": "2020-01-01T00:00:00Z"} if field in ("created", "datetime") else value
        for op in ("=", "<>", "<", ">", "<=", ">="):
            yield filtered({"op": op, "args": [said, value]})
        yield filtered({"op": "isNull", "args": [said]})
        yield filtered({"op": "not", "args": [{"op": "isNull", "args": [said]}]})
        yield filtered({"op": "in", "args": [said, [value, value]]})
        yield filtered({"op": "like", "args": [said, "%"]})
        yield filtered({"op": "between", "args": [said, 0, 100]})
        yield {"sortby": f"-{field}", "limit": "1"}
        yield {"sortby": f"+{field}", "fields": f"id,{field}"}
        yield {"fields": f"-{field}"}
    for op in ("t_after", "t_before", "t_during", "t_intersects", "t_disjoint", "t_equals", "t_meets"):
        args = [{"property": "datetime"}, {"interval": ["2000-01-01T00:00:00Z", ".."]}]
        yield filtered({"op": op, "args": args})
    yield filtered({"op": "s_intersects", "args": [{"property": "geometry"}, place]})
    yield filtered({"op": "like", "args": [{"property": "canary"}, "%"]})
    yield filtered({"op": "and", "args": [{"op": "like", "args": [{"property": "id"}, "%"]}] * 3})
    yield {"intersects": json.dumps(place)}
    yield {"ids": "all,bone,withheld,0,1"}
    yield {"collections": "sites,vault,parcels,none"}
    yield {"token": "bm90aGluZw"}
    for _ in range(8):
        west, south = draw.uniform(-103, -95), draw.uniform(36, 40)
        yield {"bbox": f"{west:.3f},{south:.3f},{west + draw.uniform(0.01, 5):.3f},{south + draw.uniform(0.01, 3):.3f}"}
        yield {"datetime": f"{draw.randrange(1900, 2030)}-01-01T00:00:00Z/..", "limit": str(draw.randrange(1, 5))}


def filtered(said: Mapping[str, Any]) -> dict[str, str]:
    return {"filter": json.dumps(said), "filter-lang": "cql2-json"}


def ask(served: Served, request: Request, tokens: Mapping[str, str]) -> Reply:
    own = {"Authorization": f"Bearer {tokens[request.role]}"} if request.role in tokens else {}
    return served.ask(request.path, request.method, request.body, **{**own, **request.headers})


def told_events(served: Served, role: str, tokens: Mapping[str, str]) -> Iterator[Reply]:
    """Yield what each stream of events tells a caller who has missed everything: until it is silent for a moment."""
    for route in (route for route in ROUTES if is_endless(route)):
        headers = {"Last-Event-ID": "1", **({"Authorization": f"Bearer {tokens[role]}"} if role in tokens else {})}
        line = http.client.HTTPConnection("127.0.0.1", int(served.url.rpartition(":")[2]), timeout=60)
        line.request("GET", route.path, headers=headers)
        sock, body = line.sock, b""
        answer = line.getresponse()
        try:
            while part := answer.read1(1 << 16):
                body += part
                sock.settimeout(0.3 if b"event: " in body else 60)
        except TimeoutError:
            assert b"event: " in body
        finally:
            line.close()
        yield Reply(answer.status, {n.lower(): v for n, v in answer.getheaders()}, body)


def followed(served: Served, role: str, tokens: Mapping[str, str]) -> Iterator[Request]:
    """Yield the pages of lists that are longer than one page, by their links and cursors, each also by its tag."""
    waiting = ["/stac/search?limit=1", "/v1/runs?limit=9", "/v1/ledger?limit=9", "/v1/datasets?limit=1"]
    known = set[str]()
    while waiting and len(known) < 40:
        path = waiting.pop()
        if path in known:
            continue
        known.add(path)
        request = Request(role, "GET", path, {})
        answer = ask(served, request, tokens)
        yield request
        if answer.status == 200:
            data = answer.data
            waiting += [one["href"].removeprefix(served.url) for one in data.get("links", ()) if one["rel"] == "next"]
            if after := data.get("next"):
                waiting.append(re.sub(r"&after=.*", "", path) + f"&after={quote(str(after))}")
            yield request._replace(headers={"If-None-Match": answer.headers["etag"]})
