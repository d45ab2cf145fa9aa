"""The search over HTTP finds what `kfm search` finds, of what a caller may see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm.app.data.text_search import search_shown
from kfm.app.session.session import open_session
from kfm.clock import FixedClock
from kfm.config import load
from kfm.updaters.jobs import text_vectors
from tests.api.asking import Asked
from tests.app.derived_jobs.conftest import INDEX, WELLS, Run, written
from tests.cli.conftest import Kfm

SPRINGS = WELLS.partition("datasets:\n")[2].replace("wells", "springs").replace("Wells of the Arroyo", "Springs of a")
BOTH = INDEX.replace("{rows: {dataset", "{more: {dataset: springs, zone: published}, rows: {dataset")
HIDDEN = "hiddenword"
COLUMNS = "KID,TOTAL_DEPTH,LEASE_NAME,ORIG_OPERATOR,STATUS\n"


@pytest.fixture
def site(kfm: Kfm, run: Run, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """Two published datasets and an index of the text of both, without vectors."""
    monkeypatch.setattr(text_vectors, "model_name", lambda: "")
    Path("wells.csv").write_text(COLUMNS + "1,10,Santa <b>Fe</b>,Berexco,drilled\n2,20,Santa Rosa,Berexco,plugged\n")
    Path("springs.csv").write_text(COLUMNS + f"1,1,Santa Spring {HIDDEN},Nobody,flowing\n")
    written(SPRINGS, BOTH)
    for name in ("wells", "springs", "well-index"):
        assert run(name)["status"] == "SUCCESS"
        assert kfm("publish", name).code == 0
    return kfm


@pytest.fixture
def served(site: Kfm) -> Iterator[Asked]:
    found = Asked(Path.cwd(), FixedClock())
    yield found
    found.close()


def search(served: Asked, query: str, **more: Any) -> Any:
    words = "&".join(f"{name}={value}" for name, value in {"q": query, **more}.items())
    answer = served.get(f"/v1/search?{words}")
    assert answer.status == 200, answer.body
    return answer.data


def test_it_finds_and_counts_only_what_may_be_shown_at_that_moment(site: Kfm, served: Asked) -> None:
    found = search(served, "santa")
    assert sorted(hit["dataset"] for hit in found["texts"]) == ["springs", "wells", "wells"]
    assert (found["matched_texts"], found["indexes"], found["by_meaning"]) == (3, 1, False)
    assert [hit["key"] for hit in search(served, "santa", limit=1)["texts"]] == [
        each["key"] for each in site("search", "santa", "--limit", "1", "--json").data["hits"]
    ]
    assert search(served, "santa", limit=1)["matched_texts"] == 3
    assert [each["dataset"] for each in search(served, "arroyo")["datasets"]] == ["wells"]
    page = served.get("/search?q=santa").body.decode()
    assert "Santa &lt;b&gt;Fe&lt;/b&gt;" in page and "<b>Fe" not in page
    assert served.get(found["texts"][0]["href"]).status == 200
    assert b'<form role="search" action="/search"' in served.get("/").body, "the start page has a box for it"

    assert site("rollback", "springs", "--to", "nothing").code == 0
    found = search(served, "santa")
    assert [hit["dataset"] for hit in found["texts"]] == ["wells", "wells"] and found["matched_texts"] == 2
    hidden, absent = search(served, HIDDEN), search(served, "nosuchword")
    assert {**hidden, "query": ""} == {**absent, "query": ""}

    written(head=WELLS.replace("sensitivity: public", "sensitivity: restricted"))
    found = search(served, "santa")
    assert (found["texts"], found["matched_texts"]) == ([], 0)
    assert search(served, "arroyo")["datasets"] == []
    assert "wells" not in json.dumps(found)


def test_what_a_caller_may_not_see_is_neither_ranked_nor_counted(site: Kfm) -> None:
    assert site("refs", "list").code == 0
    with open_session(load("kfm.yml", {"KFM_ACCEPT_WEAK_STORAGE": "true"}), mode="read") as session:
        for closed, hits, indexes in (("", 3, 1), ("springs", 2, 1), ("wells", 1, 1), ("well-index", 0, 0)):
            found = search_shown(session, "santa", lambda dataset, _version, closed=closed: dataset != closed, 10)
            assert (len(found.hits), found.matched, found.indexes) == (hits, hits, indexes), closed
            assert closed not in {hit.dataset for hit in found.hits}


def test_odd_words_are_words_and_what_is_malformed_says_what_to_change(served: Asked) -> None:
    for query in ("", "%20", "%22", "zz%22%20OR%20yy", "*", "NEAR(zz)", "title:zz", "x" * 4000):
        found = search(served, query)
        assert found["texts"] == [] and found["matched_texts"] == 0
    for query in ("q=%00", "q=a&limit=0", "q=a&limit=201", "q=a&index=wells", "q=a&q=b", f"q={'x' * 5000}"):
        for path in ("/v1/search", "/search"):
            answer = served.get(f"{path}?{query}")
            assert (answer.status, answer.data["code"]) == (400, "input.bad")
