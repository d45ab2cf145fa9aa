"""All grammars say the same of a run."""

from __future__ import annotations

import pytest

from kfm.projections import dcat
from tests.projections import extracting, samples


@pytest.mark.parametrize("kind", samples.RUNS)
def test_every_grammar_says_the_same_of_a_run(kind: str) -> None:
    run = samples.RUNS[kind]
    assert bool(run.triples()) == (kind not in ("failed", "noop", "withdrawal"))  # a withdrawal makes nothing
    for grammar, found in extracting.said(run).items():
        assert found == extracting.wanted(run, grammar), grammar


def test_a_grammar_that_leaves_something_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each extractor reads its own bytes: one input less in them, and it differs."""
    run = samples.RUNS["ingest"]
    less = samples.run(inputs=run.inputs[1:])
    for grammar, documents in extracting.bodies(less).items():
        assert extracting.EXTRACT[grammar](documents) == extracting.wanted(less, grammar), grammar
        assert extracting.wanted(less, grammar) != extracting.wanted(run, grammar), grammar
    other = samples.run(artifacts=run.artifacts[:2])
    for grammar, documents in extracting.bodies(other).items():
        assert extracting.EXTRACT[grammar](documents) == extracting.wanted(other, grammar), grammar
        assert extracting.wanted(other, grammar) != extracting.wanted(run, grammar), grammar


def test_the_dcat_catalog_names_the_run_of_a_version_and_its_inputs() -> None:
    run = samples.RUNS["ingest"]
    found = extracting.from_dcat([dcat.to_bytes(dcat.catalog([samples.version(run)], extracting.PLACES))])
    assert {(name, source) for name, source, _ in found} == {(name, source) for name, source, _ in run.triples()}
    assert {made.rpartition("#")[2] for _, _, made in found} == {run.version}
