"""`kfm lineage upstream` and `downstream` over several runs, in both directions, and around circles."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.metadata.catalog_gate import checked_decision
from kfm.app.session.session import open_session
from kfm.model.records import Decision, RefMove
from tests.app.provenance.looking import last, told
from tests.app.provenance.test_told import SOURCE, digest_of
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import SECRETS

CHAIN = """
from kfm import Output, Plan, Step, Updater


class Behind(Updater):
    version = "1.0.0"
    reads = ("processed/rain-gauges",)

    def inputs(self, trigger, sources):
        return [sources.ref(name) for name in self.reads]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))], complete=True)

    def perform(self, step, read):
        return Output.text("".join(ref.content_hash for ref in ()) + self.id)


class Further(Behind):
    reads = ("processed/behind", "processed/rain-gauges")


class Circle(Behind):
    reads = ("processed/circle", "processed/further")

    def perform(self, step, read):
        import os
        return Output.text(os.environ["ROUND"])
"""


@pytest.fixture
def chain(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """rain-gauges, two datasets that are made of it one behind the other, and one that reads itself."""
    Path("updaters/chain.py").write_text(CHAIN)
    names = {"behind": "Behind", "further": "Further", "circle": "Circle"}
    more = "".join(
        f"  {name}:\n    updater: updaters/chain.py:{kind}\n    title: {name}\n    license: CC0-1.0\n"
        "    sensitivity: public\n"
        for name, kind in names.items()
    )
    Path("kfm.yml").write_text(Path("kfm.yml").read_text() + more)
    for name in ("behind", "further"):
        assert ran("run", name).code == 0
    for turn in "12":
        monkeypatch.setenv("ROUND", turn)
        assert ran("run", "circle", "--force", "--reason", "around").code == 0
    return ran


def ids(answer: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(step["depth"], step["to"]["id"]) for step in answer]


def test_upstream_goes_back_to_the_sources(chain: Kfm) -> None:
    answer = chain("lineage", "upstream", "further", "--json").data
    assert answer["whole"] and (answer["thing"]["kind"], answer["thing"]["id"]) == ("version", "further")
    assert ids(answer["steps"]) == [(1, "behind"), (2, "rain-gauges"), (3, str(SOURCE)), (1, "rain-gauges")]
    assert [step["again"] for step in answer["steps"]] == [False, False, False, True]
    assert answer["steps"][2]["to"] == {"kind": "source", "id": str(SOURCE), "digest": digest_of(SOURCE)}


def test_downstream_of_a_source_finds_all_that_was_made_of_it(chain: Kfm) -> None:
    for thing in (str(SOURCE), f"{SOURCE}#{digest_of(SOURCE)}"):
        answer = chain("lineage", "downstream", thing, "--json").data
        found = {step["to"]["id"] for step in answer["steps"]}
        assert found == {"rain-gauges", "published/rain-gauges", "behind", "further", "circle"}
    first = told()[0].version
    by_ref = chain("lineage", "downstream", "published/rain-gauges", "--json").data
    assert by_ref["thing"] == {"kind": "version", "id": "rain-gauges", "digest": first}
    assert by_ref["steps"] == chain("lineage", "downstream", first, "--json").data["steps"]


def test_a_circle_is_gone_around_once(chain: Kfm) -> None:
    answer = chain("lineage", "upstream", "circle", "--json").data
    circles = [step["to"]["digest"] for step in answer["steps"] if step["to"]["id"] == "circle"]
    assert circles and len(set(circles)) == len(circles)
    assert chain("lineage", "downstream", "rain-gauges").code == 0


def test_depth_ends_it_and_says_that_there_is_more(chain: Kfm) -> None:
    answer = chain("lineage", "upstream", "further", "--depth", "1", "--json").data
    assert ids(answer["steps"]) == [(1, "behind"), (1, "rain-gauges")] and not answer["whole"]
    told = chain("lineage", "upstream", "rain-gauges", "--depth", "1")
    assert "there is more" not in told.err
    assert told.out.splitlines()[0].startswith("rain-gauges sha256:")
    assert f"    {SOURCE} {digest_of(SOURCE)[:19]}" in told.out.splitlines()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("upstream", "nothing"), "nothing here is called"),
        (("upstream", "rain-gauges", "--depth", "0"), "--depth is not a number"),
        (("downstream", "rain-gauges", "--depth", "x"), "--depth is not a number"),
        (("upstream", "last"), "is a run"),
        (("upstream", "switch/global"), ""),
    ],
)
def test_what_is_typed_wrong_gets_one_line(ran: Kfm, words: tuple[str, ...], said: str) -> None:
    answer = ran("lineage", *words)
    assert answer.code == 3 and said in answer.complaint


def test_the_address_of_a_protected_source_is_withheld(site: Kfm) -> None:
    assert site("run", "sites").code == 0
    answer = site("lineage", "upstream", "sites")
    assert answer.code == 0 and "kfm://withheld/" in answer.out
    assert not [secret for secret in (*SECRETS, "sites.csv") if secret in answer.out + answer.err]
    assert last().inputs[0].id in answer.out


def test_what_was_made_of_itself_is_not_published(chain: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged("circle").allow is True
    monkeypatch.setenv("ROUND", "1")
    assert chain("run", "circle", "--force", "--reason", "around").code == 0
    said = judged("circle")
    assert (said.allow, said.rules) == (False, ["graph.circle"])
    assert said.reasons == ["graph: a version of circle was made of itself, by way of circle"]


def test_what_was_made_of_a_version_without_a_record_is_not_published(chain: Kfm) -> None:
    with open_session(config.load("", os.environ)) as session, session.state.transaction():
        session.tables.delete("versions", f"rain-gauges@{session.state.refs.at('processed/rain-gauges')}")
    said = judged("further")
    assert (said.allow, said.rules) == (False, ["graph.orphan"])
    assert said.reasons == ["graph: a version of rain-gauges that was read has no record"]


def judged(dataset: str) -> Decision:
    """What the graph says to a yes of the policies, which ask more of a dataset than these have."""
    with open_session(config.load("", os.environ), mode="read") as session:
        move = RefMove(ref=f"published/{dataset}", before="", after=session.state.refs.at(f"processed/{dataset}"))
        yes = Decision(gate="promotion.checklist", allow=True, subject=move.after, policy_digest="")
        return checked_decision(session, yes, move, session.clock.now_ms())
