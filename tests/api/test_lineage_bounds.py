"""The lineage of a dataset shows its neighbours first, and a page of it stays small however much is known."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kfm.api.console.frame import Around
from kfm.api.console.version_pages import lineage_page
from kfm.app.provenance.lineage import Point
from kfm.app.serving import lineage_answers
from kfm.app.serving.lineage_answers import EXAMINED, LineageAnswer, lineage_answer

SECRET = "hidden-spring"
DIGEST = "sha256:" + "0" * 64


def named(n: int) -> str:
    return f"made-{n:04}"


class Seen:
    """May see everything but one dataset."""

    shelf = SimpleNamespace(find=lambda dataset: dataset)

    @staticmethod
    def may_name(dataset: str) -> bool:
        return dataset != SECRET

    @staticmethod
    def may_show(run: Any) -> bool:
        return bool(run.is_shown)

    @staticmethod
    def is_open(run: Any) -> bool:
        return bool(run.is_shown)


class Runs:
    """A star of 5,000 datasets that read `own`, each with one more below it, and what lies hidden."""

    def __init__(self, below: dict[str, list[str]]) -> None:
        self.below = below
        self.read = 0

    def __call__(self, _session: object, point: Point, direction: str) -> Iterator[tuple[Point, Any, Point]]:
        for n, name in enumerate(self.below.get(point.id, ()) if direction == "downstream" else ()):
            self.read += 1
            run = SimpleNamespace(run_id=f"{point.id}-{n}", is_shown=name != SECRET)
            yield point, run, Point("version", name, DIGEST)


def asked(monkeypatch: pytest.MonkeyPatch, runs: Runs, depth: int, limit: int) -> LineageAnswer:
    monkeypatch.setattr(lineage_answers, "neighbours", runs)
    return lineage_answer(cast("Any", None), cast("Any", Seen), "own", DIGEST, depth, limit, 1)


def page(told: LineageAnswer) -> str:
    return lineage_page(told, Around("Archive", False)).decode()


def test_of_five_thousand_neighbours_a_page_shows_the_first_and_counts_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = Runs({"own": [named(n) for n in range(5000)]})
    few = asked(monkeypatch, runs, 3, 60)
    assert len(few.nodes) == 60 and few.is_cut and not few.is_whole and runs.read <= 61
    assert few.links[-1].href == "/v1/datasets/own/lineage?depth=3&limit=240"
    assert "and 35 more" in page(few) and 'href="/lineage/own?depth=3&amp;limit=240"' in page(few)
    many = asked(monkeypatch, runs, 3, 1000)
    assert len(many.nodes) == 1000 and many.is_cut and page(many).count('class="box') == 1 + 24 + 1
    assert 'href="/lineage/made-0003"' in page(many)
    again = Runs({"own": ["a"] * 5000})
    assert asked(monkeypatch, again, 1, 1000).is_cut and again.read == EXAMINED + 1
    hidden = Runs({"own": [SECRET] * (10 * EXAMINED + 5000)})
    nothing = asked(monkeypatch, hidden, 1, 1000)
    assert [node.name for node in nothing.nodes] == ["own"] and nothing.is_whole
    assert hidden.read <= 2 * (10 * EXAMINED + 1), "and no more runs are read than the bound"


def test_the_nearest_come_first_and_more_is_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    below = {"own": ["a", "b", "c"], "a": ["a1"], "b": ["b1", "own"], "a1": ["a2"]}
    near = asked(monkeypatch, Runs(below), 1, 60)
    assert [(node.name, node.depth) for node in near.nodes] == [("own", 0), ("a", 1), ("b", 1), ("c", 1)]
    assert not near.is_whole and not near.is_cut and "One run further" in page(near)
    far = asked(monkeypatch, Runs(below), 2, 60)
    assert [(node.name, node.depth) for node in far.nodes][4:] == [("a1", 2), ("b1", 2)] and not far.is_whole
    whole = asked(monkeypatch, Runs(below), 3, 60)
    assert whole.is_whole and len(whole.nodes) == 7
    assert ("dataset:b", "dataset:own") in [(edge.source, edge.target) for edge in whole.edges], "a circle is an edge"
    cut = asked(monkeypatch, Runs(below), 2, 5)
    assert [node.name for node in cut.nodes] == ["own", "a", "b", "c", "a1"] and cut.is_cut


def test_what_lies_hidden_beyond_a_neighbour_does_not_show_in_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = asked(monkeypatch, Runs({"own": ["a", SECRET], "a": [SECRET], SECRET: ["below"]}), 1, 60)
    without = asked(monkeypatch, Runs({"own": ["a"]}), 1, 60)
    assert seen == without and seen.is_whole
    assert page(seen) == page(without)
