"""The run of a partition is compared with that partition only: no evidence counts for another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kfm import Updater
from kfm.app.runs.run_control import run_operation
from kfm.app.runs.settlement import settle_session
from kfm.app.session.session import load
from kfm.cli.main import main
from kfm.config import DatasetConfig, Resolved
from tests.engine.tiles import PARTS, Site, rows


def test_what_is_held_of_one_partition_stays_held_when_another_passes(tmp_path: Path, capsys: Any) -> None:
    site = Site(tmp_path, updater="Counted")

    def rows(part: str, *values: object) -> None:
        (tmp_path / f"{part}.csv").write_text("\n".join(["n", *map(str, values), ""]))

    def held() -> list[str]:
        capsys.readouterr()
        assert main(["held", "tiles", "--json", "--config", str(tmp_path / "kfm.yml")]) == 0
        return [each["source"] for each in json.loads(capsys.readouterr().out)["sources"]]

    rows("East", *range(9), "none")
    rows("West", *range(100))
    assert [site.run("East").held_rows, site.run("West").held_rows] == [1, 0]
    assert held() == ["East/source"]
    rows("East", *range(3))  # fewer than before of its own, whatever West had
    assert site.run("East").outcome == "held" and held() == ["East/source"]
    rows("West", *range(99))
    assert site.run("West").outcome == "done" and held() == ["East/source"]
    rows("East", *range(10))
    assert site.run("East").outcome == "done" and held() == []


def test_fewer_rows_are_counted_against_what_stands_of_the_partition(tmp_path: Path) -> None:
    """A rollback takes back what was allowed once, and with it what the next run is compared with."""
    site = Site(tmp_path, updater="Counted")
    rows(site, "West", *range(5))
    rows(site, "East", *range(100))
    site.run("East")
    full = site.version()
    (tmp_path / "kfm.yml").write_text((tmp_path / "kfm.yml").read_text().replace(":Counted", ":CountedLoosely"))
    rows(site, "East", *range(10))
    assert site.run("East").outcome == "done"
    with site.open() as session:
        run_operation(session, "rollback", "tiles", {"ref": "processed/tiles", "to": full}, reason="too few")
        settle_session(session)
    (tmp_path / "kfm.yml").write_text((tmp_path / "kfm.yml").read_text().replace(":CountedLoosely", ":Counted"))
    assert site.run("West").outcome == "done"
    rows(site, "East", *range(11))
    held = site.run("East")
    assert held.outcome == "held" and "rows.shrunk" in held.errors[0].message
    rows(site, "East", *range(90))
    assert site.run("East").outcome == "done"


def test_fewer_rows_of_any_source_of_a_partition_are_noticed(tmp_path: Path) -> None:
    site = Site(tmp_path, updater="CountedTwice")
    rows(site, "East", *range(5))
    rows(site, "West", *range(100))
    site.run("Both")
    rows(site, "West", *range(200))
    assert site.run("Both").outcome == "done"
    rows(site, "West", *range(120))
    assert site.run("Both").outcome == "held"


def test_what_one_partition_was_not_held_against_is_not_made_good_by_another(tmp_path: Path, capsys: Any) -> None:
    site = Site(tmp_path, updater="CountedWest")
    config = ["--config", str(tmp_path / "kfm.yml")]
    for part in PARTS:
        rows(site, part, *range(5))
        site.run(part)
    assert main(["promote", "tiles", "--reason", "x", *config]) == 4
    assert "not every source of partition East was held against a data contract" in capsys.readouterr().err
    (tmp_path / "kfm.yml").write_text((tmp_path / "kfm.yml").read_text().replace(":CountedWest", ":Counted"))
    assert site.run("West").outcome == "noop"
    assert site.run("East").outcome == "unchanged"
    assert main(["promote", "tiles", "--reason", "x", *config]) == 0


def test_what_a_whole_run_was_not_held_against_is_not_made_good_by_a_partition(tmp_path: Path, capsys: Any) -> None:
    site = Site(tmp_path, updater="CountedWest")
    config = ["--config", str(tmp_path / "kfm.yml")]
    for part in PARTS:
        rows(site, part, *range(5))
    site.run("")
    rows(site, "West", *range(6))
    site.run("West")
    assert main(["promote", "tiles", "--reason", "x", *config]) == 4
    assert "not every source of what was made as a whole was held" in capsys.readouterr().err
    (tmp_path / "kfm.yml").write_text((tmp_path / "kfm.yml").read_text().replace(":CountedWest", ":Counted"))
    site.run("")
    assert main(["promote", "tiles", "--reason", "x", *config]) == 0


def test_what_one_partition_made_while_it_was_restricted_stays_closed_until_it_is_made_again(
    tmp_path: Path, capsys: Any
) -> None:
    site = Site(tmp_path, updater="Counted")
    config = ["--config", str(tmp_path / "kfm.yml")]
    text = (tmp_path / "kfm.yml").read_text()
    for part in PARTS:
        rows(site, part, *range(5))
    (tmp_path / "kfm.yml").write_text(text.replace("sensitivity: public", "sensitivity: restricted"))
    site.run("East")
    (tmp_path / "kfm.yml").write_text(text)
    site.run("West")
    assert main(["promote", "tiles", "--reason", "x", *config]) == 4
    assert "something of partition East was made when the sensitivity was not public" in capsys.readouterr().err
    rows(site, "East", *range(6))
    site.run("East")
    assert main(["promote", "tiles", "--reason", "x", *config]) == 0


def test_changed_code_is_reported_for_the_partition_it_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    site.run("East")
    site.run("West")
    monkeypatch.setattr("kfm.app.session.session.load", _other_code)
    assert [each.code for each in site.run("West", force=True, reason="again").warnings] == []
    assert [each.code for each in site.run("West").warnings] == []
    told = site.run("East")
    assert told.outcome == "noop" and [each.code for each in told.warnings] == ["code.changed"]
    site.lines("East", 3, "second")
    assert [each.code for each in site.run("East").warnings] == ["code.changed"]
    assert [each.code for each in site.run("East").warnings] == []


def _other_code(resolved: Resolved, name: str, dataset: DatasetConfig) -> Updater:
    found = load(resolved, name, dataset)
    found.code_hash = "sha256:" + "0" * 64
    return found
