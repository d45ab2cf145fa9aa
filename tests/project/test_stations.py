"""What exists when is said by what stations give: the walk itself stays small, and none takes its work from it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from kfm.engine.run_context import RunContext

ENGINE = Path(__file__).resolve().parents[2] / "src/kfm/engine"
ENDS_RUNS = {"receipt_stage.py", "telemetry_stage.py"}
ENDS = {"stays_open", "leave"}


def takes(source: str) -> Iterator[str]:
    """Functions that read what was reached. To put something there, or behind it, is no reading."""
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


def test_no_station_takes_its_work_from_what_was_reached() -> None:
    found = {
        name: set(takes((ENGINE / name).read_text())) - ENDS for name in sorted(p.name for p in ENGINE.glob("*.py"))
    }
    assert {name: readers for name, readers in found.items() if readers and name not in ENDS_RUNS} == {}
    assert {*takes((ENGINE / "admit.py").read_text())} == ENDS


def test_a_station_that_would_is_found() -> None:
    assert [*takes("def execute(walk):\n    return walk.reached.planned\n")] == ["execute"]
    assert [*takes("def gate(walk):\n    walk.reached.keys = 1\n    walk.reached.decisions.append(2)\n")] == []


def test_the_walk_is_what_a_run_is_about_and_its_ports() -> None:
    assert set(RunContext.__struct_fields__) == {
        *("trigger", "updater", "ports", "started_ms", "unfinished", "log", "stage", "reached"),
        *("grids", "described"),  # what the readers of grids saw on the way in, for whoever says where they lie
    }
