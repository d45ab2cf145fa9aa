"""A promotion checks its catalog against the schemas and its lineage against the graph; if either is wrong, nothing is
published.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.metadata import schema_store
from kfm.app.session.session import Session, open_session
from tests.cli.conftest import Answer, Kfm, kfm, plain_environment, started  # noqa: F401

OVERRIDING = """
    def upsert(self, version):
        import msgspec

        return msgspec.structs.replace(version, metadata={{**version.metadata, {0}}})
"""


def saying(words: str) -> None:
    """The author's updater says more of its versions than kfm.yml does."""
    code = Path("updaters/rain_gauges.py")
    code.write_text(code.read_text() + OVERRIDING.format(words))


def promote(kfm: Kfm) -> Answer:  # noqa: F811
    return kfm("promote", "rain-gauges", "--reason", "first")


def opened() -> Session:
    return open_session(config.load("kfm.yml", {"KFM_ACCEPT_WEAK_STORAGE": "true"}))


def published() -> str:
    with opened() as session:
        return session.state.refs.at("published/rain-gauges")


def receipt() -> Any:
    with opened() as session:
        (last,) = session.state.ledger.entries(reverse=True, limit=1)
        return session.state.ledger.receipt(last.run_id)


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    schema_store.validator.cache_clear()
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    yield
    schema_store.validator.cache_clear()


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ('"title": ["no", "text"]', "collection.json/title"),
        ('"description": 7', "collection.json/description"),
        ('"extent": {"bbox": [1.0, 2.0]}', "collection.json/extent"),
        ('"extent": "everywhere"', ""),
    ],
    ids=["title", "description", "bbox", "no extent at all"],
)
def test_a_catalog_that_would_not_validate_is_not_published(started: Kfm, words: str, place: str) -> None:  # noqa: F811
    saying(words)
    assert started("run").code == 0
    answer = promote(started)
    assert answer.code == 4 and place in answer.complaint and "catalog:" in answer.complaint
    assert "no text" not in answer.err and "everywhere" not in answer.err, "a value is told"
    assert published() == "" and not Path("catalog").exists() and not Path("public/datasets").exists()
    assert [decision.rules[0] for decision in receipt().policy_decisions if not decision.allow] == ["catalog.schema"]
    asked = started("policy", "gates", "rain-gauges", "--to", "published", "--json")
    assert asked.code == 4 and asked.data[-1]["rules"][0] == "catalog.schema"
    told = {one["rule"]: one for one in started("policy", "explain", "rain-gauges", "--json").data}
    assert told["catalog.schema"]["holds"] == "no" and "run it again" in told["catalog.schema"]["remedy"]
    assert told["graph.broken"]["holds"] == told["catalog.links"]["holds"] == "yes"


def test_a_newer_version_is_held_against_them_by_what_it_would_change(
    started: Kfm,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saying('**({"title": 7} if __import__("os").environ.get("OTHER_WORDS") else {})')
    assert started("run").code == 0 and promote(started).code == 0
    before, files = published(), sorted(Path("catalog").rglob("*"))
    monkeypatch.setenv("OTHER_WORDS", "yes")
    text = Path("data/rain_gauges.csv").read_text()
    Path("data/rain_gauges.csv").write_text(text.replace("14.2", "14.3"))
    assert started("run").code == 0
    answer = promote(started)
    assert answer.code == 4 and "collection.json/title" in answer.complaint
    assert (published(), sorted(Path("catalog").rglob("*"))) == (before, files)


def test_without_a_catalog_nothing_is_held_against_schemas(started: Kfm, without_library: None) -> None:  # noqa: F811
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(text.replace("catalog: file:catalog\n", ""))
    saying('"title": 7')
    assert started("run").code == 0 and promote(started).code == 0 and published()


def test_a_catalog_that_cannot_be_checked_is_not_published(started: Kfm, without_library: None) -> None:  # noqa: F811
    assert started("run").code == 0
    answer = promote(started)
    assert answer.code == 4 and "kansas-frontier-matrix[catalog]" in answer.err and published() == ""
    assert receipt().policy_decisions[-1].rules == ["catalog.unchecked"]
    told = started("doctor", "--json").data["checks"]
    assert [each["ok"] for each in told if each["check"] == "catalog.schemas"] == [False]


def test_init_declares_a_catalog_only_where_it_can_be_checked(kfm: Kfm, without_library: None) -> None:  # noqa: F811
    assert kfm("init").code == 0
    (line,) = [line for line in Path("kfm.yml").read_text().splitlines() if "file:catalog" in line]
    assert (
        line.startswith("# catalog: file:catalog") and "kansas-frontier-matrix[catalog]" in Path("kfm.yml").read_text()
    )
    assert kfm("run").code == 0 and promote(kfm).code == 0 and published()


def test_a_lost_edge_of_the_graph_is_not_published_over(started: Kfm) -> None:  # noqa: F811
    assert started("run").code == 0
    with opened() as session:
        edges = dict(session.tables.scan("lineage"))
        assert edges
        with session.state.transaction():
            session.tables.delete("lineage", next(iter(edges)))
    answer = promote(started)
    assert answer.code == 4 and "graph:" in answer.complaint and published() == ""
    assert receipt().policy_decisions[-1].rules == ["graph.broken"] and "kfm reconcile --repair" in answer.err
    assert started("reconcile", "--repair").code == 0
    assert promote(started).code == 0 and published()
