"""Our own reader of YAML reads a part of it, and what it reads it reads as others do."""

from __future__ import annotations

import random
from typing import Any, NoReturn

import pytest
import yaml
from yaml import events

from kfm.errors import BadInput
from kfm.parsing import documents
from kfm.parsing.yaml_scalars import plain
from tests.node.fuzz_documents import examples
from tests.node.yaml_samples import yaml_text
from tests.sampling import tries


class Unread(Exception):
    """What the other reader does not take, or gives something else than text, numbers, lists and mappings for."""


def unfit(what: str, _hint: str) -> NoReturn:
    raise Unread(what)


class Others:
    """PyYAML's events, with the scalars of YAML 1.2."""

    def __init__(self, text: str) -> None:
        self._events = iter(list(yaml.parse(text, Loader=yaml.SafeLoader)))

    def document(self) -> Any:
        next(self._events)
        if isinstance(next(self._events), events.StreamEndEvent):
            raise Unread("empty")
        value = self._node(next(self._events))
        next(self._events)
        if not isinstance(next(self._events), events.StreamEndEvent):
            raise Unread("a second document")
        return value

    def _node(self, event: Any) -> Any:
        if isinstance(event, events.AliasEvent) or event.anchor is not None or event.tag is not None:
            raise Unread("an anchor or a tag")
        if isinstance(event, events.ScalarEvent):
            return plain(event.value, unfit) if event.implicit[0] else event.value
        if isinstance(event, events.SequenceStartEvent):
            items = []
            while not isinstance(event := next(self._events), events.SequenceEndEvent):
                items.append(self._node(event))
            return items
        found: dict[str, Any] = {}
        while not isinstance(event := next(self._events), events.MappingEndEvent):
            key = self._node(event)
            if not isinstance(key, str) or key in found:
                raise Unread("a key")
            found[key] = self._node(next(self._events))
        return found


def read(text: str) -> Any:
    return documents.read(text.encode(), "kfm.yml", json=False).value


def differences(count: int, seed: int) -> tuple[int, list[str]]:
    """How many texts both readers took, and those they took for something else."""
    pick = random.Random(seed)
    known = examples()
    both = 0
    found = []
    for _ in range(count):
        text = yaml_text(pick, known)
        try:
            ours = read(text)
            others = Others(text.removeprefix("\ufeff")).document()
        except (BadInput, Unread, yaml.YAMLError, UnicodeEncodeError):
            continue
        both += 1
        # PyYAML takes the two halves of an escaped surrogate pair for two characters.
        if repr(ours) != repr(others) and "\\ud83d" not in text:
            found.append(f"{text!r}: {ours!r} here, {others!r} there")
    return both, found


def test_what_both_readers_take_they_take_for_the_same(count: Any) -> None:
    both, found = differences(tries(5000), 1)
    assert found == []
    assert both > tries(2000)
    count("YAML texts read as PyYAML does", both)


@pytest.mark.long
def test_many_texts_that_both_readers_take_they_take_for_the_same(count: Any) -> None:
    both, found = differences(60_000, 2)
    assert found == []
    assert both > 24_000
    count("YAML texts read as PyYAML does", both)


def test_every_configuration_in_the_project_is_read_as_others_do() -> None:
    known = examples()
    assert len(known) >= 2
    for text in known:
        assert repr(read(text)) == repr(Others(text).document())


def test_a_reader_that_reads_otherwise_would_be_noticed() -> None:
    assert repr(read("a: 1\n")) != repr(Others("a: '1'\n").document())


@pytest.mark.parametrize(
    "text",
    ["a: " + "x" * 100_000, "a: [" + "1, " * 30_000 + "]", "- a\n" * 30_000, "a: |\n" + "  x\n" * 50_000, "- " * 40],
    ids=["a long text", "a long list in brackets", "a long list", "many lines", "many dashes"],
)
def test_large_texts_are_read_in_one_pass(text: str) -> None:
    assert read(text)
