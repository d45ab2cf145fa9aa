"""Tables, colours, progress."""

from __future__ import annotations

import io

import pytest

from kfm.cli.render import Screen, clean, short, size, wants_color
from kfm.cli.session import Tally
from kfm.errors import BadInput


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def screen(*, err: io.StringIO | None = None, **flags: bool) -> Screen:
    chosen = {"json": False, "quiet": False, "verbose": False, "no_color": False, **flags}
    made = Screen(env={}, **chosen)
    made.out = io.StringIO()
    made.err = err or io.StringIO()
    return made


def written(stream: object) -> str:
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()


def test_a_table_is_aligned_and_an_empty_one_keeps_its_header() -> None:
    made = screen()
    made.table(("name", "n"), [("a", 1), ("longer", None)])
    made.table(("name", "n"), [])
    assert written(made.out) == "NAME    N\na       1\nlonger  -\nNAME  N\n"


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "a\u2028b", "\u202ecba", "\x9b31m", "a\tb", "\udcff"])
def test_foreign_text_cannot_steer_the_terminal(text: str) -> None:
    made = screen()
    made.table(("x",), [(text,)])
    made.fields([("x", text)])
    made.say(text)
    made.fail(text)
    for line in (written(made.out) + written(made.err)).split("\n"):
        assert line.isprintable()
    assert clean(text).isprintable()


def test_progress_is_for_terminals_only() -> None:
    for flags in ({"quiet": True}, {"verbose": True}):
        made = screen(err=Terminal(), **flags)
        made.progress("execute", 1, 2)
        assert written(made.err) == ""
    piped = screen()
    piped.progress("execute", 1, 2)
    assert written(piped.err) == ""
    shown = screen(err=Terminal())
    shown.progress("execute", 1, 2)
    shown.say("done")
    assert written(shown.err) == "\r\x1b[Kexecute 1 of 2 (50 %)\r\x1b[Kdone\n"


def test_progress_names_what_is_worked_on_and_makes_way_for_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kfm.clock.SystemClock.monotonic", lambda _clock: 5.0)
    shown = screen(err=Terminal())
    shown.subject = "wells"
    shown.progress("execute", 25_000, 100_000)
    shown.progress("execute", 25_001, 100_000)  # too soon to be told
    shown.line("data")
    assert written(shown.err) == "\r\x1b[Kwells: execute 25,000 of 100,000 (25 %)\r\x1b[K"
    shown.progress("execute", 100_000, 100_000)
    assert written(shown.err).endswith("\r\x1b[Kwells: execute 100,000 of 100,000 (100 %)")


def test_progress_never_wraps() -> None:
    shown = screen(err=Terminal())
    shown.subject = "x" * 200
    shown.progress("execute", 1, 2)
    assert len(written(shown.err)) == len("\r\x1b[K") + 79


def test_quiet_keeps_errors() -> None:
    made = screen(quiet=True)
    made.say("words")
    made.fail("no")
    assert written(made.err) == "kfm: no\n"


def test_colour_is_decided_by_flag_then_environment_then_terminal() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    assert wants_color(terminal, {}, no_color=False)
    assert not wants_color(pipe, {}, no_color=False)
    assert not wants_color(terminal, {}, no_color=True)
    assert not wants_color(terminal, {"NO_COLOR": "1"}, no_color=False)
    assert wants_color(terminal, {"NO_COLOR": ""}, no_color=False)
    assert not wants_color(terminal, {"KFM_COLOR": "never"}, no_color=False)
    assert wants_color(pipe, {"KFM_COLOR": "always"}, no_color=False)
    assert not wants_color(terminal, {"TERM": "dumb"}, no_color=False)


def test_sizes_and_digests_are_short() -> None:
    assert [size(n) for n in (0, 1023, 1024, 1536, 5 << 30)] == ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 GiB"]
    assert short("sha256:" + "a" * 64) == "sha256:" + "a" * 12


def test_a_problem_of_no_dataset_is_reported_without_an_empty_name(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally(Screen(json=False, quiet=False, verbose=False, no_color=True, env={}))
    tally.failed("", BadInput("pipelines/schedules/rain.yml:3:3: cron has a ?", hint="write *"))
    tally.failed("rain", BadInput("rain.csv has no header", hint="write one"))
    assert capsys.readouterr().err.splitlines() == [
        "kfm: pipelines/schedules/rain.yml:3:3: cron has a ?; write *",
        "kfm: rain: rain.csv has no header; write one",
    ]
