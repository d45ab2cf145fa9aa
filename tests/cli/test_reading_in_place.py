"""Commands that look read a large state in place: they say what a copy would say, and cost what they show."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

import kfm.store.readers.live_reader as live_reader
from kfm.store.readers.live_reader import LiveTables, open_reader
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
    ("energy", "--json"),
    ("energy", "NAME", "--json"),
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


def answers(kfm: Kfm, name: str, commands: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], Any]:
    found = {}
    for words in commands:
        done = kfm(*(word.replace("NAME", name) for word in words))
        found[words] = done.code, done.out, done.err
    return found


def compare(
    kfm: Kfm, name: str, monkeypatch: pytest.MonkeyPatch, commands: Sequence[tuple[str, ...]] = COMMANDS
) -> None:
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
    copied = answers(kfm, name, commands)
    assert set(opened) == {SnapshotTables}
    opened.clear()
    monkeypatch.setattr(live_reader, "_SMALL", 0)
    in_place = answers(kfm, name, commands)
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
    compare(ran, "rain-gauges", monkeypatch, COMMANDS[:16:3])


@pytest.mark.long
def test_a_command_says_of_a_long_history_in_place_what_it_says_of_a_copy(
    kfm: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(Path(), 700)
    compare(kfm, "d1", monkeypatch)


LOOKS = (
    ("status", "--json"),
    ("runs", "list", "--json"),
    ("runs", "list", "--dataset", "d1", "--json"),
    ("explain", "d1", "--json"),
    ("explain", "last", "--json"),
    ("refs", "list", "--json"),
    ("refs", "history", "raw/d1/0", "--json"),
    ("why-not", "d1", "--json"),
    ("runs", "show", "last", "--json"),
)


def costs(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], dict[str, int]]:
    """What each command reads of the state in this folder: statements, rows, and pages of the file."""
    found: dict[tuple[str, ...], dict[str, int]] = {}
    spent: dict[str, int] = {}

    def counted(name: str) -> None:
        real = getattr(LiveTables, name)

        def reads(self: Any, *words: Any) -> Any:
            answer = real(self, *words)
            spent["statements"] += 1
            spent["rows"] += len(answer) if isinstance(answer, list) else 1
            return answer

        monkeypatch.setattr(LiveTables, name, reads)

    def close(self: LiveTables, _real: Any = LiveTables.close) -> None:
        spent["pages"] += self._db.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
        _real(self)

    with monkeypatch.context() as patched:
        monkeypatch = patched
        counted("get")
        counted("_page")
        patched.setattr(LiveTables, "close", close)
        for words in LOOKS:
            spent = dict.fromkeys(("statements", "rows", "pages"), 0)
            assert kfm(*words).code == 0
            assert spent["pages"] > 5, "the state was not read in place"
            found[words] = spent
    return found


def test_a_command_reads_as_little_of_a_long_history_as_of_a_short_one(
    kfm: Kfm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "short", 700)
    fill(tmp_path / "long", 4000)
    monkeypatch.chdir(tmp_path / "short")
    short = costs(kfm, monkeypatch)
    monkeypatch.chdir(tmp_path / "long")
    for words, spent in costs(kfm, monkeypatch).items():
        for what, much in spent.items():
            assert much <= 1.5 * short[words][what], (
                f"kfm {' '.join(words)}: {much} {what}, {short[words][what]} before"
            )


def test_a_command_reads_a_large_state_in_place_and_a_dry_run_copies_it(
    kfm: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(Path(), 500)
    assert isinstance(open_reader(".kfm/state.db"), LiveTables)

    def copied(*_: Any) -> None:
        raise AssertionError("the state was copied")

    def in_place(*_: Any) -> None:
        raise AssertionError("the state was read in place")

    with monkeypatch.context() as patched:
        patched.setattr(SnapshotTables, "__init__", copied)
        for words in LOOKS:
            assert kfm(*words).code == 0
    with monkeypatch.context() as patched:
        patched.setattr(LiveTables, "__init__", in_place)
        for words in (("run", "--dry-run"), ("rollback", "d1", "--dry-run"), ("freeze", "d1", "--dry-run")):
            assert kfm(*words).code == 0
        assert kfm("labels", "set", "dataset:d1", "--sensitivity", "closed", "--care", "open", "--dry-run").code in (
            0,
            3,
        )
        assert kfm("run", "nothing", "--dry-run").code == 3
