"""A program uses an installation: the same runs, the same refusals as errors, and nothing printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

import kfm
from kfm.cli.main import main
from kfm.errors import BadInput, Busy, Corrupt, Frozen, KfmError, StepFailed
from tests.cli.conftest import tree


def command(place: Path, *words: str) -> int:
    return main([*words, "--config", str(place / "kfm.yml")])


def test_a_run_publishes_then_has_nothing_to_do_and_prints_nothing(
    gauges: kfm.Installation, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert gauges.datasets == ["rain-gauges"]
    first = gauges.run("rain-gauges")
    assert [(one.status, one.outcome) for one in first.receipts] == [("SUCCESS", "done")]
    assert first.ok and first.versions == {"rain-gauges": gauges.refs["processed/rain-gauges"]}
    again = gauges.run()
    assert [one.outcome for one in again.receipts] == ["noop"] and again.versions == first.versions
    assert capfd.readouterr() == ("", "")


def test_a_dry_run_predicts_and_changes_nothing(gauges: kfm.Installation, place: Path) -> None:
    before = tree(place)
    foretold = gauges.run(dry_run=True)
    assert foretold.dry_run and foretold.receipts[0].dry_run and foretold.receipts[0].changes["added"] == 3
    planned = gauges.plan("rain-gauges")
    assert planned.steps == 3 and planned.against == "nothing"
    assert dict(gauges.refs) == {}
    assert tree(place) == before
    assert gauges.run().versions == foretold.versions


def test_what_is_read_is_what_the_command_reads(
    gauges: kfm.Installation, place: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    gauges.run()
    read = gauges.read("rain-gauges", "ford")
    assert command(place, "cat", "processed/rain-gauges", "ford") == 0
    assert read.bytes() == capfdbinary.readouterr().out != b""
    assert gauges.read("rain-gauges", ("ford",)).bytes() == read.bytes()
    assert gauges.read("rain-gauges").keys() == [("ellis",), ("ford",), ("riley",)]
    assert read.ref == "processed/rain-gauges" and read.size == len(read.bytes())


def test_a_version_a_ref_and_an_object_can_be_named(gauges: kfm.Installation, place: Path) -> None:
    old = gauges.run().versions["rain-gauges"]
    assert command(place, "promote", "rain-gauges", "--reason", "first") == 0
    data = place / "data" / "rain_gauges.csv"
    data.write_text(data.read_text().replace("14.2", "15.2"))
    new = gauges.run().versions["rain-gauges"]
    assert gauges.read("rain-gauges").version == gauges.read("rain-gauges", ref="published").version == old
    assert gauges.read("rain-gauges", ref="processed").version == new
    assert gauges.read("processed/rain-gauges").version == new
    short = old.removeprefix("sha256:")[:12]
    for named in (old, short):
        assert gauges.read("rain-gauges", "ford", version=named).rows()[2]["rain_mm"] == "14.2"
    digest = gauges.explain("rain-gauges").chain[0].digest
    assert gauges.read(digest).bytes().startswith(b"gauge,county,month,rain_mm\n")
    assert [move.after for move in gauges.refs.history("processed/rain-gauges")] == [old, new]


def test_what_was_found_stays_what_it_was(gauges: kfm.Installation, place: Path) -> None:
    gauges.run()
    found = gauges.read("rain-gauges", "ford")
    data = place / "data" / "rain_gauges.csv"
    data.write_text(data.read_text().replace("14.2", "15.2"))
    gauges.run()
    assert found.rows()[2]["rain_mm"] == "14.2"
    assert gauges.read("rain-gauges", "ford").rows()[2]["rain_mm"] == "15.2"


def test_explain_returns_what_the_command_prints(gauges: kfm.Installation) -> None:
    gauges.run()
    told = gauges.explain("rain-gauges")
    assert told.dataset == "rain-gauges" and told.outcome == "done" and len(told.chain) == 2
    assert "<script" not in told.page() and "rain-gauges" in told.page()


def test_status_returns_what_the_command_prints(
    gauges: kfm.Installation, place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFM_NOW", "2026-02-03T04:05:06Z")
    before = tree(place)
    assert [step.command for step in gauges.status().next] == ["kfm run rain-gauges"]
    assert tree(place) == before
    gauges.run()
    told = gauges.status("rain-gauges")
    assert command(place, "status", "--json") == 0
    assert json.loads(msgspec.json.encode(told)) == json.loads(capfd.readouterr().out)
    assert told.datasets[0].held_rows == 1 and "kfm publish rain-gauges" in repr(told)
    with pytest.raises(BadInput, match="there is no dataset"):
        gauges.status("rain-gages")


# -- what is wrong is an error of its kind


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda one: one.read("rain-gages"), "nothing here is called 'rain-gages'; did you mean rain-gauges?"),
        (lambda one: one.read("rain-gauges"), "rain-gauges has no version yet"),
        (lambda one: one.read("rain-gauges", version="abcd"), "no version of 'rain-gauges' begins with 'abcd'"),
        (lambda one: one.read("rain-gauges", ref="published"), "there is no ref 'published/rain-gauges'"),
        (lambda one: one.read("rain-gauges", ref="switch/global"), "there is no ref"),
        (lambda one: one.read("rain-gauges", version="abcd", ref="published"), "both named"),
        (lambda one: one.read(7), "dataset must be text"),
        (lambda one: one.read("rain-gauges", ("a", 7)), "a part of the key must be text"),
        (lambda one: one.run("rain-gages"), "there is no dataset 'rain-gages'; did you mean rain-gauges?"),
        (lambda one: one.run("rain-gauges", force=True), "force needs a reason"),
        (lambda one: one.run("rain-gauges", allow_deletions="3"), "allow_deletions is not a number of keys"),
        (lambda one: one.run("rain-gauges", reason="two\nlines"), "reason must be one line"),
        (lambda one: one.run("rain-gauges", reason=7), "reason must be text"),
        (lambda one: one.run(partition="x"), "partition is of one dataset"),
        (lambda one: one.plan("rain-gages"), "there is no dataset 'rain-gages'"),
        (lambda one: one.explain("nobody"), "nothing here is called 'nobody'"),
        (lambda one: one.resume("zz"), "'zz' is not the id of a run"),
        (lambda one: one.refs.history("processed/x"), "there is no ref 'processed/x'"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_and_nothing_is_made(
    gauges: kfm.Installation, place: Path, what: object, message: str
) -> None:
    before = tree(place)
    with pytest.raises(BadInput) as refused:
        what(gauges)  # type: ignore[operator]
    assert message in str(refused.value)
    assert tree(place) == before


@pytest.mark.parametrize("path", ["nowhere", "data", "data/rain_gauges.csv", "", 7, b"x", "a\0b"])
def test_a_path_that_leads_to_no_installation_is_refused(
    gauges: kfm.Installation, place: Path, path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    with pytest.raises(BadInput):
        kfm.open(path)  # type: ignore[arg-type]


def test_an_installation_is_found_as_the_command_finds_it(
    gauges: kfm.Installation, place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(place / "data")
    found = kfm.open()
    assert found.path == gauges.path == kfm.open(str(place / "kfm.yml")).path
    monkeypatch.chdir(tmp_path)  # which is no installation, and nobody asks again
    assert found.datasets == ["rain-gauges"]
    with pytest.raises(BadInput, match=r"no kfm.yml here"):
        kfm.open()
    monkeypatch.setenv("KFM_CONFIG", gauges.path)
    assert kfm.open().path == gauges.path


def test_what_is_closed_answers_nothing(gauges: kfm.Installation) -> None:
    with gauges as opened:
        opened.run()
        found = opened.read("rain-gauges")
        refs = opened.refs
    for ask in (
        lambda: gauges.run(),
        lambda: gauges.refs,
        lambda: gauges.read("rain-gauges"),
        lambda: gauges.__enter__(),
        lambda: found.rows(),
        lambda: refs.history("processed/rain-gauges"),
    ):
        with pytest.raises(BadInput, match="is closed"):
            ask()
    assert repr(gauges).endswith("closed")
    assert kfm.open(gauges.path).read("rain-gauges").rows()


def test_a_failed_run_is_raised_or_returned(gauges: kfm.Installation, place: Path) -> None:
    code = (place / "updaters" / "rain_gauges.py").read_text()
    (place / "failing.py").write_text(code.replace("rows = [", "1 / 0\n        rows = ["))
    said = (place / "kfm.yml").read_text()
    (place / "kfm.yml").write_text(said.replace("updaters/rain_gauges.py", "failing.py"))
    with pytest.raises(StepFailed) as failed:
        gauges.run()
    assert failed.value.fields["run_id"]
    told = gauges.run(check=False)
    assert not told.ok and [type(each) for each in told.problems] == [StepFailed]
    assert told.receipts[0].status == "FAILED"


def test_the_others_are_run_although_one_fails(shapes: kfm.Installation, place: Path) -> None:
    (place / "made.py").rename(place / "later.py")
    said = (place / "kfm.yml").read_text()
    (place / "kfm.yml").write_text(said.replace("made.py", "later.py").replace("later.py", "gone.py", 1))
    with pytest.raises(BadInput, match="does not exist"):
        shapes.run()
    told = shapes.run(check=False)
    assert len(told.receipts) == 3 and len(told.problems) == 1


def test_what_is_frozen_is_raised_and_taken_up_later(gauges: kfm.Installation, place: Path) -> None:
    assert command(place, "freeze", "rain-gauges", "--reason", "wait") == 0
    with pytest.raises(Frozen):
        gauges.run()
    assert command(place, "thaw", "rain-gauges", "--reason", "go") == 0
    assert [one.outcome for one in gauges.resume().receipts] == ["done"]
    assert gauges.resume().receipts == ()


def test_what_could_not_be_delivered_is_raised_and_delivered_later(gauges: kfm.Installation, place: Path) -> None:
    gauges.run()
    (place / "public").write_text("in the way")
    assert command(place, "promote", "rain-gauges", "--reason", "first") != 0
    with pytest.raises(KfmError, match="committed, but not delivered yet, do not repeat it"):
        gauges.resume()
    told = gauges.resume(check=False)
    assert [what.dataset for what in told.undelivered] == [""] and not told.receipts, "all of the folder"
    (place / "public").unlink()
    delivered = gauges.resume()
    assert delivered.ok and len(delivered.effects) > 3
    assert list((place / "public" / "datasets" / "rain-gauges").rglob("*.csv"))


def test_settings_are_those_of_the_moment(gauges: kfm.Installation, place: Path) -> None:
    gauges.run()
    (place / "kfm.yml").write_text("datasets: [")
    with pytest.raises(BadInput):
        gauges.read("rain-gauges")


def test_the_time_is_what_the_environment_says(gauges: kfm.Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_NOW", "2026-02-03T04:05:06Z")
    monkeypatch.setenv("KFM_ACTOR", "somebody")
    receipt = gauges.run().receipts[0]
    assert receipt.started_at == "2026-02-03T04:05:06.000Z" and receipt.actor == "somebody"
    assert gauges.run("rain-gauges", force=True, reason="once more", actor="me").receipts[0].actor == "me"


# -- what is damaged or gone


def object_files(place: Path) -> list[Path]:
    return [path for path in (place / ".kfm" / "objects").rglob("*") if path.is_file()]


@pytest.fixture
def large(place: Path) -> kfm.Installation:
    """A dataset whose one entry is a file of its own in the store."""
    (place / "large.py").write_text(
        "from kfm import Output, Plan, Step, Updater\n\n\n"
        "class Large(Updater):\n    version = '1.0.0'\n\n"
        "    def inputs(self, trigger, sources):\n        return []\n\n"
        "    def plan(self, inputs):\n        return Plan([Step(id='one', key=('one',))])\n\n"
        "    def perform(self, step, read):\n"
        "        return Output.csv([{'n': str(n), 'word': 'x' * 50} for n in range(20_000)])\n"
    )
    (place / "kfm.yml").write_text("datasets:\n  large:\n    updater: large.py:Large\n")
    made = kfm.open(place)
    made.run()
    return made


def test_of_what_is_damaged_nothing_is_given(large: kfm.Installation, place: Path) -> None:
    found = large.read("large")
    assert len(found.rows()) == 20_000
    (stored,) = object_files(place)
    body = bytearray(stored.read_bytes())
    body[-3] ^= 1
    stored.chmod(0o600)
    stored.write_bytes(body)
    for read in (found.bytes, found.rows):
        with pytest.raises(Corrupt):
            read()
    stored.unlink()
    for read in (found.bytes, found.rows):
        with pytest.raises(Corrupt, match="is gone"):
            read()


def test_a_version_that_is_gone_is_named(gauges: kfm.Installation, place: Path) -> None:
    from kfm.store.sqlite import SqliteTables

    version = gauges.run().versions["rain-gauges"]
    tables = SqliteTables(str(place / ".kfm" / "state.db"))
    tables.begin()
    tables.delete("objects", version)
    tables.commit()
    tables.close()
    with pytest.raises(Corrupt, match=f"{version[:19]} of rain-gauges is gone"):
        gauges.read("rain-gauges")


# -- several at once


def test_threads_may_share_an_installation(gauges: kfm.Installation) -> None:
    gauges.run()
    found: list[object] = []

    def look() -> None:
        try:
            for _ in range(5):
                found.append((len(gauges.read("rain-gauges").rows()), gauges.plan("rain-gauges").steps))
        except BaseException as problem:
            found.append(problem)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [(11, 3)] * 20


def test_when_two_run_the_same_work_at_once_one_gets_an_error(gauges: kfm.Installation, place: Path) -> None:
    code = (place / "updaters" / "rain_gauges.py").read_text()
    waiting = (
        'import os, time\n        open("here", "a").close()\n        while not os.path.exists("go"): time.sleep(0.01)\n'
    )
    code = code.replace("rows = [", waiting + "        rows = [")
    (place / "slow.py").write_text(
        code.replace('"here"', repr(str(place / "here"))).replace('"go"', repr(str(place / "go")))
    )
    said = (place / "kfm.yml").read_text()
    (place / "kfm.yml").write_text(said.replace("updaters/rain_gauges.py", "slow.py"))
    first: list[object] = []
    thread = threading.Thread(target=lambda: first.append(gauges.run().receipts[0].outcome))
    thread.start()
    while not (place / "here").exists():
        thread.join(0.01)
    with pytest.raises(Busy):
        kfm.open(place).run()
    (place / "go").touch()
    thread.join(60)
    assert first == ["done"]


# -- importing


def imported(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    return done.stdout.strip()


def test_importing_kfm_loads_nothing_of_it_and_opening_loads_no_frames() -> None:
    seen = "print(sorted(name for name in sys.modules if name.startswith('kfm.')))"
    assert imported(f"import sys, kfm; {seen}") == "[]"
    heavy = "print({'polars', 'pandas', 'pyarrow', 'geopandas', 'xarray', 'numpy'} & set(sys.modules))"
    assert imported(f"import sys, kfm; kfm.open; kfm.Installation; {heavy}") == "set()"
    assert imported("from kfm import *; print(open.__module__)") == open.__module__


def test_every_name_that_loads_late_has_its_type_and_its_value() -> None:
    import ast

    stub = Path(kfm.__file__).with_suffix(".pyi").read_text()
    typed = {
        alias.asname for node in ast.walk(ast.parse(stub)) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert typed == {*kfm.__all__, "open", "Client", "Installation"} - {"__version__"}
    assert all(getattr(kfm, name) is not None for name in typed if name)
    with pytest.raises(AttributeError):
        kfm.Nothing  # type: ignore[attr-defined]  # noqa: B018


def test_every_error_can_be_caught_as_one(gauges: kfm.Installation) -> None:
    with pytest.raises(KfmError):
        gauges.read("rain-gauges")


@pytest.mark.long
def test_a_type_checker_knows_what_is_given(tmp_path: Path) -> None:
    code = """
import kfm

with kfm.open(".") as one:
    reveal_type(one)
    reveal_type(one.run("a").receipts[0].outcome)
    reveal_type(one.read("a").rows())
    reveal_type(one.status().next[0].command)
    one.run("a", forse=True)
"""
    (tmp_path / "program.py").write_text(code)
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "program.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = [line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith("program.py")]
    assert [line.split('"')[1] for line in told[:4]] == [
        "kfm.client.installation.Installation", "str", "list[dict[str, Any]]", "str",
    ]  # fmt: skip
    assert "forse" in told[4]
