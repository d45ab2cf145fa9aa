"""`kfm.Client`: reads from a server that `kfm serve` runs, with the nouns of `kfm.open`.

Every call is one or more requests, judged by the server at that moment. Bytes are checked here against the digests of
their version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from kfm.app.data.version_reader import Read, Selection
from kfm.app.serving.access_answers import Me
from kfm.app.serving.remote.remote_events import RemoteEvents
from kfm.app.serving.remote.remote_server import RemoteServer
from kfm.app.serving.remote.remote_version import RemoteVersion, remote_version, selected
from kfm.app.serving.served_records import DatasetAnswer, DatasetList, FocusContext
from kfm.app.session import input_checks
from kfm.client.display import Displayable, as_html, as_text, short
from kfm.client.pinned_version import VersionReading
from kfm.errors import BadInput, Refused

MOST_PAGES = 10_000


class Asker(Me, frozen=True):
    """Who asks, as the server understood it."""

    def __repr__(self) -> str:
        until = f", until {self.until}" if self.until else ""
        return f"{self.person or 'nobody by name'}, {self.role}{until}"


class Dataset(DatasetAnswer, frozen=True):
    """A dataset with its current version: `versions`, `files`, `labels`, `bbox` and what else the server says."""

    def __repr__(self) -> str:
        return as_text(*self._told())

    def _repr_html_(self) -> str:
        return as_html(*self._told())

    def _told(self) -> tuple[str, Sequence[str], Iterable[Sequence[object]]]:
        rows = [
            (short(one.version), one.published_at, one.files, one.size, "yes" if one.current else "")
            for one in self.versions
        ]
        return f"{self.dataset}: {self.title}", ("version", "published", "files", "bytes", "current"), rows


class Context(FocusContext, frozen=True):
    """How a dataset, version or run was produced, each sentence with its evidence."""

    def __repr__(self) -> str:
        return as_text(*self._told())

    def _repr_html_(self) -> str:
        return as_html(*self._told())

    def _told(self) -> tuple[str, Sequence[str], Iterable[Sequence[object]]]:
        rows = [
            (sentence.text, " ".join(dict.fromkeys(short(each.digest) for each in sentence.evidence)))
            for sentence in self.sentences
        ]
        return f"{self.thing} ({self.kind})", ("what is known", "by"), rows


class Items(Displayable):
    """The STAC items that a search found. `features` has each as a mapping."""

    __slots__ = ("features",)

    def __init__(self, features: list[dict[str, Any]]) -> None:
        self.features = features

    def __len__(self) -> int:
        return len(self.features)

    def _title(self) -> str:
        return "1 item" if len(self) == 1 else f"{len(self)} items"

    def _table(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return ("item", "collection", "time"), [
            (one.get("id"), one.get("collection"), (one.get("properties") or {}).get("datetime"))
            for one in self.features
        ]


class RemoteReading(VersionReading):
    """A version on a server, fixed when it was requested. Its bytes are fetched when a method is called."""

    __slots__ = ()

    _found: RemoteVersion

    def __init__(self, found: RemoteVersion) -> None:
        self._found, self._public = found, True

    @contextmanager
    def _reading(self) -> Iterator[tuple[Read, Selection]]:
        found = self._found
        yield lambda _selection, entry: found.bytes_of(entry), Selection(self.dataset, "", self.version, found.entries)


class Client(Displayable):
    """A server, asked as the public or, with a token, as a person of its key list. Several threads may share it."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """`url` is the address of the server, `token` what `kfm token new` printed. No request is made yet."""
        self._server = RemoteServer(input_checks.one_line("url", url, 2000), token)

    @property
    def url(self) -> str:
        return self._server.url

    def me(self) -> Asker:
        """Return who asks: the person, the role, and until when the token is valid."""
        return self._server.record(Asker, "/v1/me")

    @property
    def datasets(self) -> list[str]:
        """The datasets that the server shows, by name."""
        found: list[str] = []
        after = ""
        for _ in range(MOST_PAGES):
            page = self._server.record(DatasetList, "/v1/datasets", {"after": after, "limit": 1000})
            found += [one.dataset for one in page.datasets]
            if not page.next:
                return found
            if page.next <= after:
                break
            after = page.next
        raise Refused(f"{self.url} lists its datasets without end", hint="tell the server's operator")

    def dataset(self, name: str) -> Dataset:
        """Return a dataset with its current version."""
        return self._server.record(Dataset, f"/v1/datasets/{_part('dataset', name)}")

    def focus(self, thing: str) -> Context:
        """Return how a dataset, version or run was produced, with the evidence of each sentence."""
        return self._server.record(Context, f"/v1/focus/{_part('thing', thing)}")

    explain = focus

    def read(self, dataset: str, key: str | tuple[str, ...] = "", *, version: str = "") -> RemoteReading:
        """Return the published version of a dataset, or another one that the server shows, by its digest or a prefix of
        it. A key selects one entry."""
        if isinstance(key, tuple):
            key = tuple(input_checks.one_line("a part of the key", part, 4096) for part in key)
        else:
            input_checks.one_line("key", key, 4096)
        answer = self.dataset(dataset)
        found = remote_version(self._server, answer, input_checks.one_line("version", version))
        return RemoteReading(selected(found, key))

    def search(
        self,
        *,
        collections: Sequence[str] = (),
        bbox: Sequence[float] = (),
        datetime: str = "",
        ids: Sequence[str] = (),
        limit: int = 100,
    ) -> Items:
        """Return STAC items by dataset, place and time, at most `limit` of them."""
        if type(limit) is not int or not 1 <= limit <= 1_000_000:
            raise BadInput("limit is not a number of items", hint="give one from 1 on")
        query: dict[str, Any] = {
            "collections": ",".join((collections,) if isinstance(collections, str) else collections),
            "bbox": ",".join(map(repr, map(float, bbox))),
            "datetime": input_checks.one_line("datetime", datetime),
            "ids": ",".join((ids,) if isinstance(ids, str) else ids),
            "limit": min(limit, 1000),
        }
        found: list[dict[str, Any]] = []
        for _ in range(MOST_PAGES):
            page = self._server.json("/stac/search", query)
            features = page.get("features") if isinstance(page, dict) else None
            if not isinstance(features, list):
                raise Refused(f"{self.url} answers a search with what is no page of items", hint="check the address")
            found += features
            following = _next_query(page)
            if len(found) >= limit or not following or not features:
                return Items(found[:limit])
            query = following
        raise Refused(f"{self.url} has pages without end", hint="give a smaller limit")

    def events(self, after: int = 0, *, pause_s: float | None = None) -> RemoteEvents:
        """Follow what happens: runs that begin and end, freeze flags. The loop over it ends with `close()` or a `with`
        block; a lost connection is made again, and nothing that ended meanwhile is missed. `after` is the last ledger
        entry that the caller knows; 0: from now on. `pause_s`: seconds before a new connection, else the server says.
        """
        if type(after) is not int or not 0 <= after < 10**9:
            raise BadInput("after is no number of a ledger entry", hint="give `last` of the events before, or 0")
        if pause_s is not None and not 0 <= pause_s <= 3600:
            raise BadInput("pause_s is no time from 0 to 3600 seconds", hint="leave it out")
        return RemoteEvents(self._server, after, pause_s)

    def _title(self) -> str:
        return f"server {self.url}"


def _part(what: str, text: str) -> str:
    """Return a text as one part of a path."""
    said = input_checks.one_line(what, text, 4096)
    if not said:
        raise BadInput(f"the {what} has no name", hint="see Client.datasets")
    return quote(said, safe="")


def _next_query(page: dict[str, Any]) -> dict[str, str]:
    """Return the query of the next page. Only the query of its link counts, so that no page leads elsewhere."""
    for link in page.get("links") or ():
        if isinstance(link, dict) and link.get("rel") == "next" and isinstance(link.get("href"), str):
            return dict(parse_qsl(urlsplit(link["href"]).query))
    return {}
