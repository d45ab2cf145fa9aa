"""A reader of any one grammar walks from a source to every public file that was made of it, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Kfm
from tests.kept import once
from tests.projections import chains, consumers
from tests.projections.consumers import Read


@pytest.fixture
def chained(kfm: Kfm) -> Kfm:
    once("chained", [Path()], lambda: chains.build(kfm))
    return kfm


def makers(kfm: Kfm) -> dict[tuple[str, str, str], list[str]]:
    """The runs by operation, dataset and version, as the ledger says."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for entry in json.loads(kfm("audit", "export", "--stdout").out)["entries"]:
        for move in entry["moves"]:
            if move["ref"].startswith(("processed/", "published/")):
                found.setdefault((entry["op_type"], entry["dataset"], move["after"]), []).append(entry["run_id"])
    return found


def readings(kfm: Kfm) -> Iterator[tuple[str, Read]]:
    for grammar, read in consumers.EXPORTED.items():
        answer = kfm("lineage", "export", "--format", grammar)
        assert answer.code == 0, answer.err
        yield grammar, read(answer.out)


def test_from_each_grammar_alone_a_reader_walks_from_source_to_public_file_and_back(chained: Kfm) -> None:
    runs, newest = makers(chained), runs_newest(chained)
    files = list(chains.public_files())
    assert {file.dataset for file in files} == set(chains.NAMES) and len(files) == 6
    first, last = chains.digest(chains.KANSAS / chains.SOURCE), chains.digest(Path(chains.SOURCE))
    (oldest,) = {version for op, name, version in runs if (op, name) == ("ingest", "drought")} - {newest}
    promoted = next(ids for (op, name, _), ids in runs.items() if (op, name) == ("promote", "drought-severe"))
    for _grammar, found in readings(chained):
        for file in files:
            version = next(each for _, name, each in runs if name == file.dataset and each[7:23] in file.path)
            over = [*runs["ingest", file.dataset, version], *runs["promote", file.dataset, version]]
            if file.dataset != "drought":
                over += runs["ingest", "drought", oldest]
            if file.dataset == "drought-starts":  # it read a published version: its promotion is on the way
                over += promoted
            chains.assert_joined(found, file, (chains.SOURCE, last if version == newest else first), over)


def runs_newest(kfm: Kfm) -> str:
    return {row["ref"]: row["version"] for row in kfm("refs", "list", "--json").data}["processed/drought"]


def test_from_each_catalog_alone_a_reader_walks_from_source_to_public_file_and_back(chained: Kfm) -> None:
    runs, newest = makers(chained), runs_newest(chained)
    source = (chains.SOURCE, chains.digest(Path(chains.SOURCE)))
    current = [file for file in chains.public_files() if newest[7:23] in file.path]
    assert len(current) == 2
    for grammar, read in consumers.CATALOGUED.items():
        found = read(Path("catalog").resolve())
        for file in current:
            over = [*runs["ingest", "drought", newest], *runs["promote", "drought", newest]]
            if grammar == "stac":  # an item is in the oldest folder that has its bytes
                file = file._replace(path="datasets/drought/")
            chains.assert_joined(found, file, source, over)


def test_a_chain_that_does_not_join_is_found(chained: Kfm) -> None:
    answer = chained("lineage", "export", "--format", "cloudevents")
    file = next(each for each in chains.public_files() if each.dataset == "drought-severe")
    source = (chains.SOURCE, chains.digest(chains.KANSAS / chains.SOURCE))
    chains.assert_joined(consumers.cloudevents(answer.out), file, source, [])
    broken = consumers.cloudevents(answer.out)
    for run, thing in list(broken.made):
        if thing.startswith("kfm://dataset/drought#"):
            broken.made.remove((run, thing))
    with pytest.raises(AssertionError, match="no way from"):
        chains.assert_joined(broken, file, source, [])


def test_every_format_names_who_ordered_a_run(chained: Kfm) -> None:
    for grammar in consumers.EXPORTED:
        if grammar != "mermaid":  # a picture
            lines = chained("lineage", "export", "--format", grammar).out
            assert "tester" in lines, grammar
    assert '"operator":"tester"' in chained("lineage", "export", "--format", "cypher").out.replace(" ", "")
