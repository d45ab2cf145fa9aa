"""What went wrong in other servers of the kind, each as a test of this one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kfm.model.search.item_query import ItemQuery
from kfm.store.search.item_index import ItemIndex
from tests.api.serving_site import ABSENT, CLOSED, OPEN, SECRET, Site, make, serving

JSON = {"Content-Type": "application/json"}
pytestmark = pytest.mark.usefixtures("clean")


def features(site: Site, at: str) -> list[tuple[str, str]]:
    """Return collection and id of every item, page by page."""
    found, pages = [], 0
    while at:
        page = json.loads(site.ask(at).body)
        found += [(each["collection"], each["id"]) for each in page["features"]]
        onward = [link["href"] for link in page["links"] if link["rel"] == "next"]
        at, pages = (onward[0].removeprefix(site.base) if onward else ""), pages + 1
        assert pages < 20
    return found


def test_nobody_who_may_see_no_collection_sees_all_of_them(tmp_path: Path) -> None:
    """stac-server#886: a caller whose list of allowed collections was absent or empty was shown every collection."""
    make(tmp_path)
    with serving(tmp_path) as site:
        assert features(site, "/stac/search")
        site.close_dataset(OPEN)
        for query in ("", f"?collections={OPEN}", f"?ids=all&collections={OPEN}"):
            assert features(site, f"/stac/search{query}") == []
        for body in ({}, {"collections": [OPEN, CLOSED]}):
            answer = site.ask("/stac/search", "POST", JSON, json.dumps(body).encode())
            assert json.loads(answer.body)["features"] == []
        assert site.ask("/stac/search?collections=").status == 400  # an empty list is a mistake, and never all
        assert site.ask("/stac/search", "POST", JSON, b'{"collections": []}').status == 400
        assert json.loads(site.ask("/stac/collections").body)["collections"] == []
        assert json.loads(site.ask("/v1/datasets").body)["datasets"] == []


def test_an_index_asked_with_no_allowed_dataset_finds_nothing(served: Site, tmp_path: Path) -> None:
    """stac-server#886 again, one layer below: the index has rows, and an empty permission means none of them."""
    index = ItemIndex(str(tmp_path / "items.db"))
    try:
        assert index.search(ItemQuery(allowed={})).bodies == []
    finally:
        index.close()
    assert features(served, "/stac/search")


def test_items_are_those_of_the_collection_in_the_address(tmp_path: Path) -> None:
    """stac-fastapi#345, of its pgstac backend: the items of one collection, and an item by its id, came from another
    collection, because the collection of the address was not part of the query."""
    make(tmp_path, closing=False)
    with serving(tmp_path) as site:
        pairs = {(name, key) for name in (OPEN, CLOSED) for key in ("all", "more")}
        for name in (OPEN, CLOSED):
            assert sorted(features(site, f"/stac/collections/{name}/items")) == sorted(p for p in pairs if p[0] == name)
            item = json.loads(site.ask(f"/stac/collections/{name}/items/all").body)
            assert (item["collection"], item["id"]) == (name, "all")
        # pgstac#392: with a limit, items of one id in two collections were lost between the pages.
        found = [one for one in features(site, "/stac/search?limit=1") if one[0] in (OPEN, CLOSED)]
        assert sorted(found) == sorted(pairs)


def test_a_public_page_has_no_link_to_what_is_closed(tmp_path: Path) -> None:
    """datasette#2178: a public table linked to rows of a private one, and showed their names."""
    make(tmp_path, closing=False)
    with serving(tmp_path) as site:
        seen = [path for path in _public(site) if CLOSED.encode() in site.ask(path).body]
        assert seen  # before it was closed, the lists named it
        site.close_dataset(CLOSED)
        for path in _public(site):
            answer = site.ask(path)
            assert answer.status == 200
            assert CLOSED.encode() not in answer.body and b"canary7391" not in answer.body, path


def _public(site: Site) -> list[str]:
    found = [each["href"] for each in json.loads(site.ask("/stac/collections").body)["collections"][0]["links"]]
    own = [each.removeprefix(site.base) for each in found if each.startswith(site.base)]
    lists = ["/", "/v1/datasets", "/stac", "/stac/collections", "/stac/search"]
    return [*lists, f"/datasets/{OPEN}/", f"/v1/datasets/{OPEN}", f"/v1/focus/{OPEN}", f"/focus/{OPEN}", *own]


def test_a_search_does_not_tell_the_names_of_what_is_closed(served: Site) -> None:
    """datasette-search-all#16: the search over all tables named private tables to people who were not signed in."""
    absent = served.ask(f"/stac/search?collections={ABSENT[0]}").steady()
    for name in (SECRET, CLOSED):
        assert served.ask(f"/stac/search?collections={name}").steady() == absent
        body = json.dumps({"collections": [name]}).encode()
        other = json.dumps({"collections": [ABSENT[0]]}).encode()
        asked = served.ask("/stac/search", "POST", JSON, body).steady()
        assert asked == served.ask("/stac/search", "POST", JSON, other).steady()
    said = served.ask("/stac/search").body + served.ask("/stac").body + served.ask("/").body
    assert OPEN.encode() in said and not any(name.encode() in said for name in (SECRET, CLOSED))
