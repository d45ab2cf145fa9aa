"""A program publishes, takes back, compares, and reads quarantined rows and lineage, as the commands do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kfm
from kfm.cli.main import main
from kfm.errors import BadInput, Denied, Frozen
from tests.cli.conftest import tree


def command(place: Path, *words: str) -> int:
    return main([*words, "--config", str(place / "kfm.yml")])


def change(place: Path, old: str, new: str) -> None:
    data = place / "data" / "rain_gauges.csv"
    data.write_text(data.read_text().replace(old, new))


def test_a_program_publishes_and_rolls_back_with_the_reasons_and_receipts_of_the_command(
    gauges: kfm.Installation, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = gauges.run().versions["rain-gauges"]
    assert gauges.publish("rain-gauges", reason="the first", actor="ada").ok
    change(place, "14.2", "15.2")
    second = gauges.run().versions["rain-gauges"]
    published = gauges.promote("rain-gauges", reason="the second")
    assert published.receipts[0].outcome == "done" and gauges.refs["published/rain-gauges"] == second
    assert gauges.rollback("rain-gauges", reason="a wrong value").ok
    assert gauges.refs["published/rain-gauges"] == first
    moves = gauges.refs.history("rain-gauges")
    assert [(move.op, move.actor, move.reason) for move in moves] == [
        ("promote", "ada", "the first"),
        ("promote", "tester", "the second"),
        ("rollback", "tester", "a wrong value"),
    ]
    assert gauges.rollback("rain-gauges", to="nothing", reason="all of it").ok
    assert "published/rain-gauges" not in gauges.refs
    assert gauges.publish("rain-gauges", to=first[7:19], reason="it was right").ok
    assert gauges.refs["published/rain-gauges"] == first
    assert capfd.readouterr() == ("", "")


def test_an_operation_without_a_reason_is_refused_and_a_dry_run_needs_none(
    gauges: kfm.Installation, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gauges.run()
    monkeypatch.delenv("KFM_REASON")
    before = tree(place)
    for what in (gauges.publish, gauges.rollback):
        with pytest.raises(BadInput, match="needs a reason"):
            what("rain-gauges")
    assert gauges.publish("rain-gauges", dry_run=True).dry_run
    assert tree(place) == before


def test_a_freeze_and_a_closed_gate_stop_a_program_too(gauges: kfm.Installation, place: Path) -> None:
    gauges.run()
    assert command(place, "freeze", "rain-gauges", "--reason", "stop") == 0
    with pytest.raises(Frozen):
        gauges.publish("rain-gauges", reason="go")
    assert command(place, "thaw", "rain-gauges", "--reason", "go on") == 0
    said = (place / "kfm.yml").read_text()
    (place / "kfm.yml").write_text(said.replace("license: CC0-1.0", "license: unknown"))
    with pytest.raises(Denied, match="licence"):
        gauges.publish("rain-gauges", reason="go")
    told = gauges.publish("rain-gauges", reason="go", check=False)
    assert not told.ok and told.receipts[0].outcome == "denied" and "published/rain-gauges" not in gauges.refs


def test_a_difference_counts_what_the_command_counts_and_shows_no_value(
    gauges: kfm.Installation, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = gauges.run().versions["rain-gauges"]
    change(place, "14.2", "15.2")
    gauges.run()
    found = gauges.diff("rain-gauges", rows=5)
    assert command(place, "diff", "rain-gauges", "--rows", "--limit", "5", "--json") == 0
    told = json.loads(capfd.readouterr().out)
    assert (found.added, found.changed, found.removed) == (told["added"], told["changed"], told["removed"]) == (0, 1, 0)
    assert found.before.version == first and not found.is_same
    assert found.changes[0].rows is not None and found.changes[0].rows.shown
    assert "changed" in repr(found) and "15.2" not in repr(found) + found._repr_html_()
    assert gauges.diff(f"rain-gauges@{first}", "rain-gauges@processed", keys_only=True).changed == 1
    with pytest.raises(BadInput, match=r"from and to go with one dataset"):
        gauges.diff("rain-gauges", "rain-gauges", to="processed")


def test_quarantined_rows_are_those_of_the_command_and_are_not_shown(
    gauges: kfm.Installation, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gauges.run()
    found = gauges.quarantined("rain-gauges")
    assert command(place, "quarantine", "rain-gauges", "--rows") == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert found.rows() == rows and len(rows) == 1
    assert "1 row quarantined" in repr(found)
    for value in _texts(rows):
        assert value not in repr(found) + found._repr_html_()
    with pytest.raises(BadInput, match="did you mean rain-gauges"):
        gauges.quarantined("rain-gages")


def _texts(rows: list[dict[str, Any]]) -> list[str]:
    return [text for row in rows for text in map(str, row.values()) if len(text) > 8]


def test_lineage_leads_from_a_version_to_its_source_and_back(gauges: kfm.Installation) -> None:
    version = gauges.run().versions["rain-gauges"]
    up = gauges.lineage("rain-gauges")
    assert up.thing.digest == version and up.whole
    (source,) = {step.to.id for step in up.steps}
    down = gauges.lineage(source, "downstream", depth=1)
    assert version in {step.to.digest for step in down.steps}
    assert "made by ingest" in repr(up) and source in up._repr_html_()
    for wrong in ({"direction": "sideways"}, {"depth": 0}):
        with pytest.raises(BadInput):
            gauges.lineage("rain-gauges", **wrong)  # type: ignore[arg-type]


def test_the_names_of_the_module_are_listed_and_load() -> None:
    names = [name for name in dir(kfm) if not name.startswith("__")]
    assert {"open", "Installation", "Updater", "Output", "Plan", "Step", "SourceRef", "Connector"} <= set(names)
    assert all(getattr(kfm, name) is not None for name in dir(kfm))
    assert kfm.__doc__ is not None and "kfm.open" in kfm.__doc__


@pytest.mark.parametrize("words", [("cat", "rain-gauges", "ford"), ("refs", "history", "rain-gauges")])
def test_a_command_takes_the_name_of_a_dataset_for_its_published_version(
    gauges: kfm.Installation, place: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    def told(*typed: str) -> str:
        assert command(place, *typed) == 0
        return capfd.readouterr().out

    def full(zone: str) -> tuple[str, ...]:
        return tuple(f"{zone}/{word}" if word == "rain-gauges" else word for word in words)

    gauges.run()
    assert told(*words) == told(*full("processed")) != ""
    gauges.publish("rain-gauges")
    change(place, "14.2", "15.2")
    gauges.run()
    assert told(*words) == told(*full("published")) != told(*full("processed"))
    misspelled = tuple("rain-gages" if word == "rain-gauges" else word for word in words)
    assert command(place, *misspelled) == 3 and "did you mean rain-gauges?" in capfd.readouterr().err
