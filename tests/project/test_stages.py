"""Stages pass their results to each other: the context of a run stays small, and no stage takes its work from it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from kfm.engine.run_context import RunContext

ENGINE = Path(__file__).resolve().parents[2] / "src/kfm/engine"
ENDS_RUNS = {"receipt_stage.py", "telemetry_stage.py"}
ENDS = {"stays_open", "leave"}


def takes(source: str) -> Iterator[str]:
    """Return the functions that read `reached`. Assigning or appending to it is not reading."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        nodes = list(ast.walk(function))
        put = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr == "append"}
        for node in nodes:
            if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Store) or id(node) in put:
                continue
            if isinstance(node.value, ast.Attribute) and node.value.attr == "reached":
                yield function.name


def test_no_stage_takes_its_work_from_what_was_reached() -> None:
    found = {
        name: set(takes((ENGINE / name).read_text())) - ENDS for name in sorted(p.name for p in ENGINE.glob("*.py"))
    }
    assert {name: readers for name, readers in found.items() if readers and name not in ENDS_RUNS} == {}
    assert {*takes((ENGINE / "failure.py").read_text())} == ENDS


def test_a_stage_that_takes_its_work_from_there_is_found() -> None:
    assert [*takes("def execute(context):\n    return context.reached.planned\n")] == ["execute"]
    assert [*takes("def gate(context):\n    context.reached.keys = 1\n    context.reached.decisions.append(2)\n")] == []


def test_the_context_of_a_run_is_its_work_its_world_and_its_guards() -> None:
    assert set(RunContext.__struct_fields__) == {
        *("work", "world", "guards", "started_ms", "log", "stage", "reached"),
        "metering",  # of its energy; it begins before the first stage and ends in every case
        "damaged",  # stored bytes that are missing or altered: the claim and the receipt must agree on them
        *("grids", "described"),  # what the readers of grids saw while they checked them, for the metadata
    }
