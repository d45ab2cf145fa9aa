"""The story: plain sentences, each resting on a digest."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from kfm.model.records import TriggerKind
from kfm.projections import explanation, explanation_sentences, mermaid
from tests.projections import samples


@pytest.mark.parametrize("kind", samples.RUNS)
def test_every_sentence_cites_a_digest_of_the_run(kind: str) -> None:
    run = samples.RUNS[kind]
    known = {run.receipt_digest, run.version, run.before, run.plan_hash, run.code_hash, run.config_hash, run.input_hash}
    known |= {each.checksum for each in run.inputs} | {each.digest for each in run.artifacts}
    lines = explanation_sentences.sentences(run)
    assert lines[0].about == "run" and run.dataset in lines[0].text
    for line in lines:
        assert line.text.endswith(".") and line.cites and set(line.cites) <= known, line


def test_it_says_who_when_and_why() -> None:
    first = explanation_sentences.sentences(samples.RUNS["ingest"])[0].text
    assert first == (
        f"stations 1.2.0 made version {samples.sha('version 1')[7:23]} of stations, asked by its schedule, "
        "at 2026-11-16T10:00:00.000Z."
    )
    assert "published stations to version" in explanation_sentences.sentences(samples.RUNS["promote"])[0].text
    assert "nothing of it is there any more" in explanation_sentences.sentences(samples.RUNS["withdrawal"])[0].text
    assert explanation_sentences.sentences(samples.RUNS["dry run"])[0].text.startswith("In a dry run, ")
    assert "it ended as noop" in explanation_sentences.sentences(samples.RUNS["noop"])[0].text


def test_it_gives_the_context_of_governance() -> None:
    told = " ".join(
        line.text for line in explanation_sentences.sentences(samples.RUNS["masked"]) if line.about == "governance"
    )
    for said in ("community", "resolution 6", "TK CS (Culturally Sensitive)", "kaw-nation", "THPO", "2027-06-30"):
        assert said in told
    assert not [line for line in explanation_sentences.sentences(samples.RUNS["ingest"]) if line.about == "governance"]


def test_many_are_counted() -> None:
    many = samples.run(artifacts=tuple(samples.artifact(f"k{number}") for number in range(25)))
    texts = [line.text for line in explanation_sentences.sentences(many) if line.about == "output"]
    assert len(texts) == explanation_sentences.SHOWN + 2 and "There are 15 more files." in texts


def test_a_name_cannot_break_out_of_a_chart() -> None:
    hostile = samples.run(
        updater_id='x"]; click n0 "javascript:alert(1)"',
        inputs=(
            samples.PublicInput(kind="uri", id='https://e.org/"]\n  n9 --> n8\n%% <b>', checksum=samples.sha("x")),
        ),
    )
    lines = mermaid.chart([hostile]).splitlines()
    form = (
        r'flowchart LR|  n\d+(\(\[|\[/|\[)"[^"\]\[<>]*(<br/>[^"\]\[<>]*)*"(\]\)|/\]|\])|  %% n\d+ is .*|  n\d+ --> n\d+'
    )
    assert [line for line in lines if not re.fullmatch(form, line)] == []


@pytest.mark.parametrize(
    ("kind", "type_", "sentence"),
    [
        ("manual", "on demand", "on demand"),
        ("operation", "on demand", "by an operator"),
        ("job", "on demand", "by a job"),
        ("schedule", "schedule", "by its schedule"),
        ("poll", "event", "because its source had changed"),
        ("webhook", "event", "by a message from its source"),
        ("event", "event", "because its source or a dataset that it reads had changed"),
        ("anomaly", "anomaly", "because a run had crossed a threshold"),
    ],
)
def test_each_kind_of_trigger_is_called_what_it_is(kind: Any, type_: str, sentence: str) -> None:
    assert explanation.TRIGGERS[kind] == type_ and len(explanation.TRIGGERS) == len(get_args(TriggerKind))
    told = explanation_sentences.sentences(samples.run(trigger=kind))[0].text
    assert f", asked {sentence}, at " in told
