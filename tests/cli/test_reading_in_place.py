"""Commands that look read a large state in place: they say what a copy would say, and cost what they show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import kfm.store.live_reader as live_reader
from kfm.store.live_reader import LiveTables
from kfm.store.snapshot import SnapshotTables
from tests.cli.conftest import Kfm
from tests.cli.test_commands import change_data
from tests.store.long_history import fill

COMMANDS = (
    ("status",),
    ("status", "--json"),
    ("runs", "list"),
    ("runs", "list", "--json"),
    ("runs", "list", "--limit", "0", "--json"),
    ("runs", "show", "last"),
    ("runs", "receipts"),
    ("runs", "signals", "--json"),
    ("refs", "list"),
    ("refs", "list", "--json"),
    ("refs", "history", "published/NAME", "--json"),
    ("explain", "NAME", "--json"),
    ("explain", "last"),
    ("why-not", "NAME", "--json"),
    ("review", "list", "--all", "--json"),
    ("cat", "processed/NAME"),
    ("diff", "NAME"),
    ("schedule", "freshness", "--json"),
    ("lineage", "graph"),
    ("audit", "verify"),
    ("audit", "export", "--stdout"),
    ("verify", "NAME"),
    ("reconcile",),
    ("sinks",),
)


def answers(kfm: Kfm, name: str) -> dict[tuple[str, ...], Any]:
    found = {}
    for words in COMMANDS:
        done = kfm(*(word.replace("NAME", name) for word in words))
        found[words] = done.code, done.out, done.err
    return found


def compare(kfm: Kfm, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that every command says the same in place and from a copy."""
    opened: list[type] = []
    for kind in (LiveTables, SnapshotTables):
        real = kind.__init__

        def noted(self: Any, *words: Any, _real: Any = real, _kind: type = kind, **more: Any) -> None:
            opened.append(_kind)
            _real(self, *words, **more)

        monkeypatch.setattr(kind, "__init__", noted)
    monkeypatch.setenv("KFM_NOW", "2026-12-01T00:00:00Z")
    monkeypatch.setattr(live_reader, "_SMALL", 1 << 60)
    copied = answers(kfm, name)
    assert set(opened) == {SnapshotTables}
    opened.clear()
    monkeypatch.setattr(live_reader, "_SMALL", 0)
    in_place = answers(kfm, name)
    assert set(opened) == {LiveTables}
    for words, said in copied.items():
        assert in_place[words] == said, words
    assert not os.path.exists(".kfm/state.db-wal")


def test_a_command_says_in_place_what_it_says_of_a_copy(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    change_data()
    assert ran("run").code == 0
    assert ran("freeze", "rain-gauges", "--reason", "an incident").code == 0
    assert ran("run").code == 5
    assert ran("thaw", "rain-gauges", "--reason", "over").code == 0
    assert ran("promote", "rain-gauges", "--reason", "second").code == 0
    assert ran("rollback", "rain-gauges", "--reason", "wrong").code == 0
    compare(ran, "rain-gauges", monkeypatch)


@pytest.mark.long
def test_a_command_says_of_a_long_history_in_place_what_it_says_of_a_copy(
    kfm: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(Path(), 700)
    compare(kfm, "d1", monkeypatch)
