"""What kfm.yml may say of a dataset that a job makes: each mistake is one line with its place and its cure."""

from __future__ import annotations

import pytest

from tests.app.derived_jobs.conftest import INDEX, REPORT, TILES, Run, derived, written
from tests.cli.conftest import Kfm
from tests.sampling import sampled

ROWS = "{rows: {dataset: wells}}"
PUBLIC = "{rows: {dataset: wells, zone: published}}"
MISTAKES = {
    "an unknown type": (derived("x", "transform.build_tile", "", ROWS), "not a type of job", "transform.build_tiles"),
    "no type": (derived("x", "tiles", "", ROWS), "does not name a type", "write one of"),
    "a type that makes nothing": (derived("x", "ingest.pull_source", "", ROWS), "makes none", "remove it"),
    "an unknown parameter": (
        derived("x", "transform.build_tiles", "max_zom: 4", ROWS),
        "kfm.yml:16:18: unknown key datasets.x.parameters.max_zom",
        "max_zoom",
    ),
    "a zoom that is no number": (
        derived("x", "transform.build_tiles", "max_zoom: far", ROWS),
        "datasets.x.parameters.max_zoom",
        "",
    ),
    "a zoom too far": (derived("x", "transform.build_tiles", "max_zoom: 30", ROWS), "parameters.max_zoom", "16"),
    "zooms that are swapped": (
        derived("x", "transform.build_tiles", "min_zoom: 6, max_zoom: 2", ROWS),
        "min_zoom is above max_zoom",
        "swap them",
    ),
    "a share above one": (
        derived("x", "validate.qa_dataset", "max_null_share: {depth: 2}", ROWS),
        "parameters.max_null_share.depth",
        "",
    ),
    "a file as source": (
        derived("x", "validate.qa_dataset", "", "{rows: {uri: wells.csv}}"),
        "is not a dataset",
        "write dataset: NAME",
    ),
    "no source": (derived("x", "validate.qa_dataset", "", "{}"), "reads no dataset", "add sources"),
    "two sources of tiles": (
        derived("x", "transform.build_tiles", "", "{a: {dataset: wells}, b: {dataset: wells}}"),
        "are several",
        "a dataset of its own",
    ),
    "an index of what is not public": (
        derived("x", "index.build_embeddings", "columns: [KID]", ROWS),
        "read before it is public",
        "write zone: published",
    ),
    "one alias for two indexes": (
        INDEX + derived("x", "index.build_embeddings", "columns: [KID], alias: wells", PUBLIC),
        "give the alias wells, which well-index has",
        "write another alias",
    ),
    "a version": (
        derived("x", "validate.qa_dataset", "", ROWS, '    version: "1.0.0"\n'),
        "cannot be combined with a job",
        "remove it",
    ),
}


@pytest.mark.parametrize("name", sampled(MISTAKES, 3))
def test_a_mistake_is_one_line_with_its_place_and_its_cure(kfm: Kfm, name: str) -> None:
    said, what, cure = MISTAKES[name]
    written(said)
    answer = kfm("config", "check")
    assert answer.code == 3
    assert what in answer.err and cure in answer.err and "kfm.yml:" in answer.err
    assert "Traceback" not in answer.err


def test_parameters_without_a_job_are_refused(kfm: Kfm) -> None:
    written(TILES.replace("    job: transform.build_tiles\n", ""))
    assert "parameters have no meaning without a job" in kfm("config", "check").err


def test_an_index_of_data_that_are_not_declared_public_is_refused(kfm: Kfm) -> None:
    written(INDEX.replace("sensitivity: public", "sensitivity: restricted"))
    assert "indexes data that are restricted" in kfm("config", "check").err


def test_changed_parameters_are_new_work_and_the_same_ones_are_none(wells: Kfm, run: Run) -> None:
    assert run("well-report")["outcome"] == "done"
    assert run("well-report")["outcome"] == "noop"
    written(REPORT.replace("min_rows: 50", "min_rows: 51"))
    receipt = run("well-report")
    assert receipt["status"] == "SUCCESS" and receipt["job_type"] == "validate.qa_dataset"


def test_a_job_that_no_package_brings_is_refused_by_name(wells: Kfm) -> None:
    written(derived("x", "audit.count_words", "", ROWS))
    answer = wells("run", "x")
    assert answer.code == 3
    assert "of dataset x is brought by no installed package" in answer.err
