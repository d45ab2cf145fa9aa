"""`focus.context`: how the public version was produced, from public records alone, and the same bytes each time."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from kfm.app.session import context_source
from kfm.app.session.session import Session, open_session
from kfm.config import load
from kfm.delivery import dataset_context as builder
from kfm.model.jobs.focus_record import FocusContext
from kfm.model.json_schemas import exported, schema_of
from tests.app.derived_jobs.conftest import Run, body, derived
from tests.app.derived_jobs.test_canaries import HEAD as SITES
from tests.app.derived_jobs.test_canaries import canaries, clean, published, rows, sites  # noqa: F401
from tests.app.derived_jobs.test_stories import HEAD, at, measured, run  # noqa: F401
from tests.cli.conftest import Kfm
from tests.sampling import sampled

SUBJECT = "{subject: {dataset: gauges, zone: published}}"
CONTEXT = derived("gauges-context", "focus.context", "", SUBJECT, "    promote: auto\n")


def told(dataset: str = "gauges-context") -> FocusContext:
    return msgspec.json.decode(body(f"processed/{dataset}", "context"), type=FocusContext)


def state() -> Session:
    return open_session(load("kfm.yml", os.environ), mode="read")


@pytest.fixture
def gauges(kfm: Kfm) -> Kfm:
    measured("12")
    Path("kfm.yml").write_text(HEAD + CONTEXT)
    assert kfm("run", "gauges").code == 0
    return kfm


def test_a_context_says_what_the_records_say(gauges: Kfm, run: Run) -> None:  # noqa: F811
    receipt = run("gauges-context")
    assert (receipt["status"], receipt["job_type"]) == ("SUCCESS", "focus.context"), receipt["errors"]
    found, version = told(), at("published/gauges")
    assert (found.dataset, found.version, found.title) == ("gauges", version, "Rain gauges")
    explained = gauges("explain", "gauges", "--json").data
    assert found.produced.run_id == explained["run_id"] and found.produced.trigger_type == "on demand"
    assert found.published is not None and found.published.updater_id == "kfm-promote"
    assert found.last_successful == found.produced
    assert [each.stage for each in found.chain] == ["raw", "harmonised"] and found.chain[1].digest == version
    assert {line["text"] for line in explained["lines"]} >= {
        each.text for each in found.sentences if each.about == "run"
    }
    assert all(each.cites for each in found.sentences)
    assert found.governance.level == "public"
    assert found.telemetry is not None and found.telemetry.energy_method and found.telemetry.duration_ms is not None


@pytest.mark.long
def test_a_context_has_the_form_of_its_schema(gauges: Kfm, run: Run) -> None:  # noqa: F811
    import jsonschema_rs

    run("gauges-context")
    schema = schema_of(exported()["focus-context"], "focus-context")
    jsonschema_rs.validate(schema, json.loads(body("processed/gauges-context", "context")))


def test_a_run_with_nothing_to_do_leaves_the_context_and_a_new_version_changes_it(gauges: Kfm, run: Run) -> None:  # noqa: F811
    assert run("gauges-context")["outcome"] == "done"
    assert run("gauges")["outcome"] == "noop"
    assert run("gauges-context")["outcome"] == "noop", "the last successful run is the one that did something"
    before = told()
    measured("13")
    run("gauges")
    assert run("gauges-context")["outcome"] == "done"
    after = told()
    assert after.version == at("published/gauges") != before.version
    assert after.last_successful == after.produced != before.produced


@pytest.mark.long
def test_after_a_rollback_the_context_tells_of_the_version_before(gauges: Kfm, run: Run) -> None:  # noqa: F811
    first = at("published/gauges")
    measured("13")
    run("gauges")
    run("gauges-context")
    assert gauges("rollback", "gauges").code == 0
    assert run("gauges-context")["outcome"] == "done"
    found = told()
    assert found.version == first == at("published/gauges")
    assert found.last_successful is not None and found.last_successful.run_id != found.produced.run_id


def test_the_records_are_a_pinned_source_and_the_run_is_reproduced(gauges: Kfm, run: Run) -> None:  # noqa: F811
    receipt = run("gauges-context")
    (records,) = [each for each in receipt["inputs"] if each["id"] == "kfm://context/gauges"]
    with state() as session:
        stored = session.objects.read(records["checksum"])
    assert stored == body("processed/gauges-context", "context")
    measured("13")
    run("gauges")  # the records have moved since
    answer = gauges("reproduce", "gauges-context")
    assert answer.code == 0 and "byte-identical" in answer.out


def test_a_publication_while_the_records_are_read_is_found(
    gauges: Kfm,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fired: list[str] = []
    whole = builder.dataset_context

    def moved(*words: object) -> FocusContext:
        fired.append("moved")
        return msgspec.structs.replace(whole(*words), version="sha256:" + "0" * 64)  # type: ignore[arg-type]

    monkeypatch.setattr(builder, "dataset_context", moved)
    answer = gauges("run", "gauges-context")
    assert fired and answer.code != 0
    assert "gauges was published while its records were read; run it again" in answer.err
    monkeypatch.undo()


@pytest.mark.long
def test_a_dataset_that_is_not_public_has_no_context(kfm: Kfm, run: Run) -> None:  # noqa: F811
    measured("12")
    Path("kfm.yml").write_text((HEAD + CONTEXT).replace("    promote: auto\n", ""))
    kfm("run", "gauges")
    answer = kfm("run", "gauges-context")
    assert answer.code == 3 and "gauges has no published version yet" in answer.err


def test_a_version_that_may_not_be_public_is_denied(gauges: Kfm) -> None:
    from kfm.errors import Denied

    with state() as session:
        version = session.state.ledger.version("gauges", at("published/gauges"))
        assert version is not None
        for level in ("restricted", "closed", None):
            closed = msgspec.structs.replace(version, metadata={**version.metadata, "sensitivity": level})
            with pytest.raises(Denied, match="may not be public"):
                builder._check_publishable("gauges", closed)


MISTAKES = {
    "processed": ("{subject: {dataset: gauges}}", "read before it is public, and a context is of what is public"),
    "two": ("{a: {dataset: gauges, zone: published}, b: {dataset: gauges, zone: published}}", "are several"),
    "a file": ("{a: {uri: gauges.csv}}", "reads no dataset"),
    "a key": ("{a: {dataset: gauges, zone: published, key: [wet]}}", "key has no meaning here"),
    "the records by hand": ("{a: {uri: 'kfm://context/gauges'}}", "has a scheme that this version cannot read"),
}


@pytest.mark.parametrize("name", sampled(MISTAKES, 2))
def test_a_mistake_in_the_declaration_names_its_place(kfm: Kfm, name: str) -> None:
    sources, what = MISTAKES[name]
    Path("kfm.yml").write_text(HEAD + derived("x", "focus.context", "", sources))
    answer = kfm("config", "check")
    assert answer.code == 3 and what in answer.err and "kfm.yml" in answer.err, answer.err


@pytest.mark.long
def test_the_source_of_records_refuses_what_is_no_name(gauges: Kfm) -> None:
    from kfm.errors import BadInput
    from kfm.model.records import FetchRequest

    with state() as session:
        reader = context_source.ContextSource(session.state, session.objects)
        for name in ("", "../x", "gauges/wet", "GAUGES"):
            with pytest.raises(BadInput):
                reader.fetch(FetchRequest(uri=f"kfm://context/{name}"), None, session.objects)


def test_the_context_and_story_of_masked_data_have_nothing_that_only_the_table_has(sites: Kfm) -> None:  # noqa: F811
    made = (
        derived("context", "focus.context", "", "{subject: {dataset: sites, zone: published}}")
        + derived("story", "story.node", "",
                  "{text: {uri: story.md, format: text}, cells: {dataset: sites, zone: published}}")
    )  # fmt: skip
    Path("kfm.yml").write_text(SITES.replace("MADE", "csv") + made)
    assert sites("run", "sites").code == 0
    assert published(sites, "sites").code == 0
    Path("story.md").write_text(f"# Sites\n\nOne is {rows()[0]['site']} [here](kfm://dataset/sites).\n")
    answer = sites("run", "story")
    assert answer.code == 4 and "something protected was found" in answer.err, answer.err
    clean(answer.out + answer.err, "the refusal")
    Path("story.md").write_text("# Sites\n\nThere are [some](kfm://dataset/sites#cells).\n")
    answers = [sites("run", name, "--json") for name in ("context", "story")]
    assert [each.code for each in answers] == [0, 0], answers
    found = told("context")
    assert found.telemetry is None and found.governance.level == "generalised"
    assert found.governance.custodians == ("society",) and found.governance.resolution is not None
    assert found.chain[0].name == "a protected source"
    assert canaries()
    for name, key in (("context", "context"), ("story", "story"), ("story", "text")):
        clean(body(f"processed/{name}", key), key)
    for name in ("context", "story"):
        answer = published(sites, name)
        assert answer.code == 0, answer
    for path in (each for each in Path("public").rglob("*") if each.is_file()):
        clean(path.read_bytes(), path.name)
    for name in ("context", "story"):
        version = sites("refs", "list", "--json")
        assert f"published/{name}" in version.out
        with state() as session:
            record = session.state.ledger.version(name, at(f"published/{name}"))
        assert record is not None and record.standing is not None and record.standing.level == "generalised"
