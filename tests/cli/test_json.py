"""What `--json` writes is what the page of it says, for every command there is."""

from __future__ import annotations

import json

import pytest

from kfm.contract.records import Receipt
from tests.house.json_shapes import ERROR, NOT_JSON, SHAPES
from tests.house.reference import commands

from .conftest import Kfm

LINES = {
    "kfm --version": ["--version"],
    "kfm init": ["init", "elsewhere"],
    "kfm run": ["run"],
    "kfm resume": ["resume"],
    "kfm plan": ["plan", "rain-gauges"],
    "kfm promote": ["promote", "rain-gauges"],
    "kfm rollback": ["rollback", "rain-gauges", "--to", "nothing"],
    "kfm freeze": ["freeze"],
    "kfm thaw": ["thaw"],
    "kfm runs list": ["runs", "list"],
    "kfm runs show": ["runs", "show", "last"],
    "kfm runs steps": ["runs", "steps", "last"],
    "kfm refs list": ["refs", "list"],
    "kfm refs history": ["refs", "history", "published/rain-gauges"],
    "kfm cat": ["cat", "processed/rain-gauges"],
    "kfm held": ["held", "rain-gauges"],
    "kfm receipts list": ["receipts", "list"],
    "kfm receipts show": ["receipts", "show", "last"],
    "kfm compact": ["compact"],
    "kfm doctor": ["doctor"],
    "kfm config show": ["config", "show"],
}


def test_every_command_has_a_shape() -> None:
    leaves = [name for name, parser in commands() if parser.get_default("handler")]
    assert sorted(leaves) == sorted({*SHAPES, *NOT_JSON} - {"kfm --version"})
    assert set(LINES) == set(SHAPES)


@pytest.mark.parametrize("name", SHAPES)
def test_a_command_writes_the_keys_the_page_names(ran: Kfm, name: str) -> None:
    shape = SHAPES[name]
    answer = ran(*LINES[name], "--json")
    assert answer.code == 0, answer.err
    rows = answer.data if shape.many else [answer.data]
    assert isinstance(answer.data, list if shape.many else dict) and rows
    expected = set(shape.keys)
    if list(shape.keys) == ["run_id"]:  # "and all other fields of a receipt"
        expected = set(Receipt.__struct_fields__)
    for row in rows:
        assert set(row) == expected


@pytest.mark.parametrize("words", [["run", "nowhere"], ["runs", "show", "nothing"], ["nonsense"], ["cat", "no/ref"]])
def test_an_error_is_a_document_too(ran: Kfm, words: list[str]) -> None:
    answer = ran(*words, "--json")
    assert answer.code in (2, 3)
    assert list(answer.data) == ["error"]
    assert set(ERROR) <= set(answer.data["error"])


def test_the_lines_of_held_rows_are_as_the_page_says(ran: Kfm) -> None:
    (line,) = ran("held", "rain-gauges", "--rows").out.splitlines()
    assert set(json.loads(line)) == {"row", "reasons", "data"}
