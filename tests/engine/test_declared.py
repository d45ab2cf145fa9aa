"""A dataset that is declared and has no code, through all stages of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.installations import Installation, stamps

CONFIG = """\
kfm: 1
accept_weak_storage: true
datasets:
  quakes:
    version: "1.0.0"
    sensitivity: public
    sources:
      week:
        uri: week.csv
        format: csv
        contract: {max_held_share: 1, partition_by: state, columns: [{name: mag, type: number, mode: discard-row}]}
    outputs:
      strong:
        from: week
        steps:
          - filter: {column: mag, at_least: 4}
          - sort: [{column: id, descending: true}]
      by-state:
        from: week
        partition_by: state
        steps:
          - cast: {mag: number}
          - select: [id, mag]
        format: ndjson
"""
WEEK = "id,mag,state\na,4.50,KS\nb,1,NE\nc,x,KS\nd,5,KS\n"


@pytest.fixture
def site(place: Path) -> Installation:
    (place / "kfm.yml").write_text(CONFIG)
    (place / "week.csv").write_text(WEEK)
    return Installation(place)


def change(site: Installation, before: str, after: str) -> None:
    path = site.folder / "kfm.yml"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


def test_what_is_declared_is_made(site: Installation) -> None:
    site.kfm("run")
    assert site.kfm("cat", "processed/quakes", "strong").out == "id,mag,state\nd,5,KS\na,4.50,KS\n"
    assert site.kfm("cat", "processed/quakes", "by-state/KS").out == '{"id":"a","mag":4.5}\n{"id":"d","mag":5}\n'
    assert site.kfm("cat", "processed/quakes", "by-state/NE").out == '{"id":"b","mag":1}\n'


def test_the_same_again_is_nothing_to_do(site: Installation) -> None:
    site.kfm("run")
    assert site.kfm("run", "--exit-code", expect=10).out.count("noop") == 1


def test_other_steps_under_the_same_version_are_refused_with_what_changed(site: Installation) -> None:
    site.kfm("run")
    change(site, "at_least: 4", "at_least: 5")
    told = site.kfm("run", expect=3).err
    assert "the plan of quakes 1.0.0 changed" in told
    assert "~ step strong: params.declared.steps[0].filter.at_least 4 → 5" in told
    assert site.kfm("cat", "processed/quakes", "strong").out.count("\n") == 3


def test_other_steps_under_another_version_are_done(site: Installation) -> None:
    site.kfm("run")
    change(site, "at_least: 4", "at_least: 5")
    change(site, '"1.0.0"', '"1.1.0"')
    site.kfm("run")
    assert site.kfm("cat", "processed/quakes", "strong").out == "id,mag,state\nd,5,KS\n"


def test_a_column_that_is_not_there_is_named_and_nothing_changes(site: Installation) -> None:
    site.kfm("run")
    change(site, "column: mag, at_least", "column: magnitude, at_least")
    change(site, '"1.0.0"', '"1.1.0"')
    before = site.kfm("refs", "list").out
    told = site.kfm("run", expect=3).err
    assert "output strong, step 1 (filter): there is no column 'magnitude'" in told
    assert site.kfm("refs", "list").out == before


def test_a_value_that_cannot_be_cast_is_reported_by_its_place_alone(site: Installation) -> None:
    change(site, "cast: {mag: number}", "cast: {id: integer}")
    told = site.kfm("run", expect=3).err
    assert "step 1 (cast): row 1 of source week, column 'id' is not an integer" in told
    assert "'a'" not in told


def test_a_dry_run_writes_nothing_and_locks_no_plan(site: Installation) -> None:
    before = stamps(site.folder)
    site.kfm("run", "--dry-run", "--artifacts", str(site.folder.parent / "foretold"))
    assert stamps(site.folder) == before
    change(site, "at_least: 4", "at_least: 5")
    site.kfm("run")


def test_mask_is_refused_in_one_sentence(site: Installation) -> None:
    change(site, "- select: [id, mag]", "- mask: {columns: [id]}")
    told = site.kfm("run", expect=3).err
    assert "requests masking, which this version does not have" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('    version: "1.0.0"\n', "", "has outputs and no version"),
        ('    version: "1.0.0"\n', "    version: x\n    updater: u.py:U\n", "cannot be combined with an updater"),
        ("from: week\n        steps:\n          - filter", "from: month\n        steps:\n          - filter",
         "names no source of this dataset"),
    ],
)  # fmt: skip
def test_a_declaration_that_cannot_be_is_refused_before_anything_is_read(
    site: Installation, before: str, after: str, words: str
) -> None:
    change(site, before, after)
    assert words in site.kfm("run", expect=3).err
    assert not (site.folder / ".kfm").exists()
