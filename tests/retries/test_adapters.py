"""Nodes of LangGraph and checkpoints of Great Expectations retry by the same rules."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest

from kfm.errors import BadInput, BudgetSpent
from kfm.retries import BudgetRules, LocalBudget, Policy, Retrying, current_attempt
from tests.retries.worlds import Naps


class Passage(TypedDict):
    """The state of the graphs here."""

    rain: str


def quick(clock: Naps, **guards: Any) -> Retrying:
    return Retrying(Policy(attempts=3, first_s=1, jitter=0), "it", clock=clock, asleep=clock.asleep, **guards)


def graph_of(node: Any) -> Any:
    from langgraph.graph import END, START, StateGraph

    graph = StateGraph(Passage)
    graph.add_node("it", node)
    graph.add_edge(START, "it")
    graph.add_edge("it", END)
    return graph


@pytest.mark.long
def test_a_node_of_a_graph_is_repeated_with_one_key() -> None:
    pytest.importorskip("langgraph")
    from kfm.retries.langgraph_node import reliable_node

    clock, keys = Naps(), []

    def node(state: Passage) -> Passage:
        attempt = current_attempt()
        assert attempt is not None
        keys.append(attempt.key)
        if len(keys) < 3:
            raise ConnectionError
        return {"rain": state["rain"] + "!"}

    assert graph_of(reliable_node(node, quick(clock))).compile().invoke({"rain": "1.2"}) == {"rain": "1.2!"}
    assert len(keys) == 3 and len(set(keys)) == 1 and clock.naps == [1, 2]


@pytest.mark.long
def test_an_asynchronous_node_is_repeated_within_its_budget() -> None:
    pytest.importorskip("langgraph")
    from kfm.retries.langgraph_node import reliable_node

    clock, calls = Naps(), []
    budget = LocalBudget("it", BudgetRules(tokens=1, per_minute=0), clock=clock)

    async def node(state: Passage) -> Passage:
        calls.append(state)
        raise TimeoutError

    graph = graph_of(reliable_node(node, quick(clock, budget=budget))).compile()
    with pytest.raises(BudgetSpent):
        asyncio.run(graph.ainvoke({"rain": "1.2"}))
    assert len(calls) == 2


@pytest.mark.long
def test_a_question_of_a_graph_to_a_person_is_no_failure() -> None:
    pytest.importorskip("langgraph")
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command, interrupt

    from kfm.retries.langgraph_node import reliable_node

    clock, calls = Naps(), []

    def node(state: Passage) -> Passage:
        calls.append(state)
        return {"rain": interrupt("may it be published?")}

    everything = Retrying(Policy(on=lambda _problem: True, first_s=1, jitter=0), "it", clock=clock)
    graph = graph_of(reliable_node(node, everything)).compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "one"}}
    asked = graph.invoke({"rain": "1.2"}, thread)
    assert asked["__interrupt__"][0].value == "may it be published?" and len(calls) == 1 and clock.naps == []
    assert graph.invoke(Command(resume="yes"), thread)["rain"] == "yes"


def checkpoint_of(rows: list[int]) -> Any:
    import great_expectations as gx
    import pandas

    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("memory").add_dataframe_asset("rain")
    batch = asset.add_batch_definition_whole_dataframe("all")
    suite = context.suites.add(gx.ExpectationSuite(name="rain"))
    suite.add_expectation(gx.expectations.ExpectColumnValuesToBeBetween(column="mm", min_value=0))
    check = context.validation_definitions.add(gx.ValidationDefinition(name="rain", data=batch, suite=suite))
    checkpoint = context.checkpoints.add(gx.Checkpoint(name="rain", validation_definitions=[check]))
    return checkpoint, {"dataframe": pandas.DataFrame({"mm": rows})}


@pytest.mark.long
@pytest.mark.parametrize(("rows", "success"), [([1, 2], True), ([1, -2], False)])
def test_a_checkpoint_is_repeated_until_its_data_can_be_read(
    rows: list[int], success: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("great_expectations")
    from kfm.retries.expectations_checkpoint import reliable_checkpoint

    clock, calls = Naps(), []
    checkpoint, batch = checkpoint_of(rows)
    run = type(checkpoint).run

    def flaky(self: Any, **arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) < 3:
            raise ConnectionError
        return run(self, **arguments)

    monkeypatch.setattr(type(checkpoint), "run", flaky)
    result = reliable_checkpoint(checkpoint, quick(clock))(batch_parameters=batch)
    assert result.success is success and len(calls) == 3, "a failed expectation is an answer"
    with pytest.raises(BadInput, match="give the Checkpoint"):
        reliable_checkpoint("rain")


def test_without_the_library_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from kfm.retries.expectations_checkpoint import reliable_checkpoint
    from kfm.retries.langgraph_node import reliable_node

    for library in ("langgraph", "langgraph.errors", "great_expectations"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(BadInput, match="pip install langgraph"):
        reliable_node(lambda state: state)
    with pytest.raises(BadInput, match="pip install great_expectations"):
        reliable_checkpoint("rain")
