"""The command line at a terminal: short ids, help, silence, a fixed clock, tables that fit."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import nullcontext
from pathlib import Path

import pytest

from kfm.app.runs import queries
from kfm.cli import render

from .conftest import Kfm


def test_a_run_is_named_by_the_start_of_its_id_wherever_one_is_asked_for(ran: Kfm) -> None:
    (whole,) = [row["run"] for row in ran("runs", "list", "--json").data if row["op"] == "ingest"]
    short = whole[:8]
    assert short in ran("runs", "list").out and whole not in ran("runs", "list").out
    assert short in ran("runs", "receipts").out and whole not in ran("runs", "receipts").out
    for words in (
        ["runs", "show"], ["runs", "steps"], ["runs", "receipt"], ["runs", "wal"], ["explain"],
        ["lineage", "export", "--format", "openlineage", "--run"],
    ):  # fmt: skip
        assert ran(*words, whole).code == 0, words
        assert ran(*words, short) == ran(*words, whole), words


def test_as_much_of_an_id_is_shown_as_makes_it_unique(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [row["run"] for row in ran("runs", "list", "--json").data]
    monkeypatch.setattr(queries, "SHORT", 1)
    told = [line.split()[-1] for line in ran("runs", "list").out.splitlines()[1:]]
    assert len(set(told)) == len(ids) and all(one.startswith(start) for one, start in zip(ids, told, strict=True))

    class Runs:
        def ids(self, beginning: str) -> list[str]:
            return [each for each in ("abcdefgh-1", "abcdefgh-2", "abcd") if each.startswith(beginning)]

    class Session:
        state = type("State", (), {"runs": Runs(), "recent": nullcontext})

    monkeypatch.setattr(queries, "SHORT", 8)
    assert queries.short_run(Session(), "abcdefgh-1") == "abcdefgh-1"  # type: ignore[arg-type]


def test_help_is_what_the_command_says_of_itself(kfm: Kfm) -> None:
    for words in ([], ["status"], ["runs", "show"], ["runs"]):
        assert kfm("help", *words) == kfm(*words, "--help")
    assert "did you mean status?" in kfm("help", "statsu").complaint
    assert kfm("help", "runs", "shwo").code == 2


def test_quiet_is_silent_when_it_went_well_and_only_then(started: Kfm) -> None:
    for words in (["run"], ["run"], ["promote", "rain-gauges"], ["resume"], ["freeze"], ["thaw"], ["runs", "compact"],
                  ["reconcile", "--public", "--repair"], ["up", "--once"]):  # fmt: skip
        answer = started(*words, "-q")
        assert answer == (0, "", ""), (words, answer)
    assert started("run", "-q", "--json").data["receipts"], "what was asked for is given"
    assert started("status", "-q").out and started("run", "--dry-run", "-q").out, "a look is an answer"
    Path("data/rain_gauges.csv").unlink()
    failed = started("run", "-q")
    assert failed.code != 0 and "failed" in failed.out and failed.complaint


def test_v_is_verbose(started: Kfm) -> None:
    assert "run." in started("run", "-v").err
    assert started("-v", "--json", "status").code == 0


@pytest.mark.parametrize(("name", "value"), [("KFM_NOW", "2026-03-01T00:00:00Z"), ("SOURCE_DATE_EPOCH", "1772323200")])
def test_a_clock_that_was_set_is_said_aloud_once(
    started: Kfm, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    assert "clock" not in started("status").err
    monkeypatch.setenv(name, value)
    for words in (["run"], ["status"], ["status", "rain-gauges", "--json"]):
        said = [line for line in typed(80, *words, stderr=True).splitlines() if "clock" in line]
        assert said == [f"the clock is fixed at {value}: {name} is set"], words
        assert "clock" not in started(*words).err, "a program reads it"
    assert "clock" not in typed(80, "status", "-q", stderr=True)


def typed(columns: int, *words: str, stderr: bool = False) -> str:
    """What a terminal of so many columns shows; of stdout, or of stderr alone."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "kfm", *words]
    nowhere = subprocess.DEVNULL
    shows = {"stdout": nowhere if stderr else theirs, "stderr": theirs if stderr else nowhere}
    with subprocess.Popen(command, env=environment, **shows) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # nobody is at the other end any more
                break
            if not chunk:
                break
            shown += chunk
    os.close(ours)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())


def test_tables_fit_a_terminal_of_eighty_columns(ran: Kfm) -> None:
    for words in (
        ["run"], ["run", "--force", "--reason", "r"], ["runs", "list"], ["runs", "receipts"], ["refs", "list"],
        ["refs", "history", "processed/rain-gauges"], ["held", "rain-gauges"], ["status"], ["diff", "rain-gauges"],
        ["config", "show", "--resolved"], ["schedule", "freshness"], ["cat", "processed/rain-gauges"],
        ["promote", "rain-gauges", "--reason", "first edition"], ["refs", "history", "published/rain-gauges"],
    ):  # fmt: skip
        lines = typed(80, *words).splitlines()
        assert lines and max(map(len, lines)) <= 80, (words, lines)
    assert "-> sha256" not in typed(80, "rollback", "rain-gauges", "--to", "nothing", stderr=True).replace("→", "->")
    refs = json.loads(subprocess.check_output([sys.executable, "-m", "kfm", "refs", "list", "processed/", "--json"]))
    again = typed(80, "promote", "rain-gauges", "--to", refs[0]["version"], "--reason", "right", stderr=True)
    assert re.search(r"→ sha256:[0-9a-f]{12}\s", again), "told shortly"
    wide = typed(200, "runs", "list").splitlines()
    assert wide == ran("runs", "list").out.splitlines(), "where there is room nothing is broken up"


def test_a_table_of_many_columns_fits_and_keeps_words_whole() -> None:
    columns = ("n", "when", "op", "from", "to", "actor", "reason", "run")
    row = ["1", "2026-03-02T06:00:00.000Z", "promote", "sha256:" + "a" * 12, "sha256:" + "b" * 12, "you"]
    row += ["first edition", "a" * 8]
    for cells, room in (([row], 90), ([["1", "2026-03-02 06:00", *row[2:]]], 80)):
        fitted = render._fitted(columns, cells, room)
        assert fitted is not None
        names, (shown,), widths = fitted
        assert sum(widths) + 2 * (len(widths) - 1) <= room and list(names) == list(columns)
        for cell, width in zip(shown, widths, strict=True):
            assert " ".join(render._wrapped(cell, width)) == cell, "words and ids stay whole"
