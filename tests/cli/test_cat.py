"""Entries by their keys, which may hold a slash themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Kfm

KEYS = [("a", "b"), ("a/b",), ("a", "b/c"), ("x", "y"), ("only/one",), ("[1]",), ("1/2/3/4/5/6/7/8",), ("é", "z")]
UPDATER = f"""
from kfm import Output, Plan, Step, Updater

class Keys(Updater):
    id = "keys"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return []

    def plan(self, inputs):
        keys = {KEYS} + [("many", str(n)) for n in range(300)]
        return Plan([Step(id=str(n), key=key) for n, key in enumerate(keys)])

    def perform(self, step, read):
        return Output.text(repr(step.key))
"""


@pytest.fixture
def listed(kfm: Kfm) -> Kfm:
    Path("updaters.py").write_text(UPDATER)
    Path("kfm.yml").write_text("datasets:\n  keys:\n    updater: updaters.py:Keys\n")
    assert kfm("run").code == 0
    return kfm


def test_a_key_that_could_be_two_is_refused_and_both_are_named(listed: Kfm) -> None:
    answer = listed("cat", "processed/keys", "a/b")
    assert answer.code == 3 and not answer.out
    assert answer.complaint == """kfm: 'a/b' is the key of 2 entries; say which: '["a","b"]' or '["a/b"]'"""
    assert listed("cat", "processed/keys", '["a","b"]').out == "('a', 'b')"
    assert listed("cat", "processed/keys", '["a/b"]').out == "('a/b',)"


def test_what_is_listed_can_be_typed(listed: Kfm) -> None:
    rows = listed("cat", "processed/keys").out.splitlines()[1:]
    assert len(rows) == 300 + len(KEYS)
    wanted = {repr(key) for key in KEYS}
    for row in rows:
        key = row.split("  ")[0]
        if not key.startswith("many/") or key.endswith("7"):
            answer = listed("cat", "processed/keys", key)
            if key != "a/b":
                assert answer.code == 0, answer
                wanted.discard(answer.out)
    assert wanted == {"('a', 'b')"}, "the one that has to be asked for exactly"


@pytest.mark.parametrize("text", ["only/one", "x/y", "1/2/3/4/5/6/7/8", "é/z", "[1]"])
def test_a_key_that_can_only_be_one_is_found_as_it_was(listed: Kfm, text: str) -> None:
    assert listed("cat", "processed/keys", text).code == 0


@pytest.mark.parametrize("text", ["b", "a", "a/b/c/d", '["a"', '["a",1]', '["a","c"]', "/", "a//b", "[]"])
def test_a_key_that_is_none_is_refused(listed: Kfm, text: str) -> None:
    assert "has no entry" in listed("cat", "processed/keys", text).complaint
