"""Real runs through the command line: all grammars say what the journal says, and nothing that is protected."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from kfm import config
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.run_exports import wal
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.protection_files import readable_row
from kfm.app.session.session import Session, open_session
from kfm.engine.run_journal import SettledPlan
from kfm.model.canonical import canonical
from kfm.model.public_run import PublicRun, artifact_id
from kfm.model.records import Step
from kfm.projections import explanation_sentences
from tests.app.governance.people import by_order
from tests.app.provenance.looking import told
from tests.cli.conftest import Kfm
from tests.delivery.ledger_runs import public_runs
from tests.engine.protected.conftest import IDS, SAFE, SECRETS
from tests.node.twin import ROOT, node
from tests.projections import extracting

SOURCE = Path("data/rain_gauges.csv")
Triples = set[tuple[str, str, str]]


def _plan(session: Session, run: PublicRun) -> Iterator[list[Step]]:
    known = session.state.runs.get(run.run_id)
    assert known is not None
    plan = SettledPlan(
        plan_hash=known.plan_hash,
        steps=0,
        complete=False,
        has_needs=False,
        chunks=None,
        opened=partial(readable_row, session),
    )
    return plan.each(session.state)


def journaled(session: Session, run: PublicRun) -> Triples:
    """Out of the write-ahead log alone: what the plan was made of, and what each step gave or which ref moved."""
    given: dict[str, str] = {}
    keys = {step.id: step.key for batch in _plan(session, run) for step in batch}
    moves = []
    for record in wal(session, run.wal_id):
        key = keys.get(record.step_id)
        if record.phase == "EXECUTE" and record.status == "DONE" and key:
            given[artifact_id(run.dataset, key)] = record.payload["digest"]
        if record.phase == "UPSERT" and record.status == "DONE":
            moves = record.payload["moves"]
    if run.op in ("promote", "rollback"):
        given = {f"kfm://ref/{move['ref']}": move["after"] for move in moves if move["after"]}
    else:
        given |= {f"kfm://dataset/{run.dataset}": each["after"] for each in moves if each["ref"][:9] == "processed"}
    row = session.state.runs.get(run.run_id)
    assert row is not None
    aim = "kfm://target/published/"  # what is promoted, as an operation calls it: a version of the dataset
    read = [(source.uri.replace(aim, "kfm://dataset/"), source.content_hash) for source in row.inputs]
    read = [each for each in read if each[1] or not each[0].startswith("kfm://dataset/")]  # to nothing
    read = [each for each in read if each[0] not in {f"kfm://ref/{move['ref']}" for move in moves}]  # as it was
    return {(run.run_id, f"{uri}#{content}", f"{id}#{digest}") for uri, content in read for id, digest in given.items()}


def alike(runs: list[PublicRun]) -> None:
    for run in runs:
        for grammar, found in extracting.said(run).items():
            assert found == extracting.wanted(run, grammar), (run.op, grammar)


def test_ingest_promote_rollback_and_withdrawal_are_said_alike_by_all_and_by_the_journal(ran: Kfm) -> None:
    SOURCE.write_text(SOURCE.read_text().replace("14.2", "14.3"))
    assert ran("run").code == ran("promote", "rain-gauges", "--reason", "r").code == 0
    assert ran("rollback", "rain-gauges", "--reason", "wrong").code == 0
    assert ran("rollback", "rain-gauges", "--to", "nothing", "--reason", "gone").code == 0
    assert ran("run").code == 0
    runs = told()
    assert [run.op for run in runs] == ["ingest", "promote", "ingest", "promote", "rollback", "rollback", "ingest"]
    assert [len(run.triples()) > 0 for run in runs] == [True] * 5 + [False] * 2  # a withdrawal makes nothing
    alike(runs)
    with open_session(config.load("", os.environ), mode="read") as session:
        for run in runs[:-1]:
            found = journaled(session, run)
            if run.op == "ingest":  # the journal knows every step, the run tells what came to be other
                unchanged = {(run.run_id, source, made) for _, source, made in found - run.triples()}
                before = {made for other in runs[: runs.index(run)] for _, _, made in other.triples()}
                assert {made for _, _, made in unchanged} <= before
                found -= unchanged
            files = {
                (run.run_id, source, made) for _, source, made in run.triples() if made.startswith("kfm://public/")
            }
            assert len(files) == (3 if run.op == "promote" or (run.op == "rollback" and run.version) else 0)
            assert found == run.triples() - files, run.op
    assert len(journal_of_first(runs)) == 4


def journal_of_first(runs: list[PublicRun]) -> Triples:
    with open_session(config.load("", os.environ), mode="read") as session:
        return journaled(session, runs[0])


def test_a_dry_run_is_said_alike_and_apart_from_what_happened(started: Kfm) -> None:
    with open_session(config.load("", os.environ), mode="dry") as session:
        assert run_trigger(session, new_trigger(session, "rain-gauges")).dry_run
        (predicted,) = public_runs(session.state, session.objects)
        assert not predicted.dry_run, "its overlay holds the records of the real run, so that sinks predict its bytes"
        assert journaled(session, predicted) == predicted.triples() != set()
    dry = msgspec.structs.replace(predicted, dry_run=True)
    alike([dry])
    said = extracting.bodies(dry)
    assert json.loads(said["openlineage"][0])["job"]["namespace"] == "kfm.dry-run"
    assert json.loads(said["cloudevents"][0])["source"] == "kfm://dry-run"
    assert '"kfm:dry_run":true' in said["prov-json"][0].decode()


def test_a_run_of_node_is_said_alike(kfm: Kfm) -> None:
    Path("rain.csv").write_text("gauge,mm\na,1\nb,2\n")
    Path("kfm.yml").write_text(
        "accept_weak_storage: true\ndatasets:\n  rain:\n    version: 1.0.0\n    title: Rain\n    license: CC0-1.0\n"
        "    sensitivity: public\n    sources:\n"
        "      rain: {uri: rain.csv, format: csv, contract: {columns: [{name: id}]}}\n"
        "    outputs:\n      all: {from: rain}\n"
    )
    subprocess.run([node(), str(ROOT / "updater.mjs"), "run"], check=True, capture_output=True, timeout=60)
    runs = told()
    assert len(runs) == 1 and runs[0].triples()
    alike(runs)
    with open_session(config.load("", os.environ), mode="read") as session:
        assert journaled(session, runs[0]) == runs[0].triples()


def test_no_grammar_says_anything_of_what_is_protected(site: Kfm) -> None:
    assert site("run", "sites", "--reason", f"site {IDS[0]}").code == 0
    assert by_order(site, SAFE, "promote", "sites").code == 0
    assert site("run", "sites").code == 0
    runs = told()
    alike(runs)
    masked = next(run for run in runs if run.op == "ingest" and run.artifacts)
    for grammar, documents in extracting.bodies(masked).items():
        text = b"".join(documents).decode().lower()
        assert [one for one in (*SECRETS, "sites.csv", "as agreed") if one.lower() in text] == [], grammar
        if grammar != "mermaid":
            assert masked.labels is not None and masked.labels.care in text, grammar
    whole = b"".join(canonical(line) for run in runs for line in explanation_sentences.sentences(run)).decode().lower()
    assert [one for one in (*SECRETS, "sites.csv") if one.lower() in whole] == []
    assert "whose address is withheld" in whole and "resolution 6" in whole
    for grammar in ("openlineage", "prov", "prov-o", "cypher", "cloudevents", "mermaid"):
        answer = site("lineage", "export", "--format", grammar)
        assert answer.code == 0 and answer.out
        assert [one for one in (*SECRETS, "sites.csv") if one.lower() in answer.out.lower()] == [], grammar


@pytest.mark.parametrize("grammar", ["openlineage", "prov", "prov-o", "cypher", "cloudevents", "mermaid"])
def test_what_is_exported_says_what_the_runs_say(ran: Kfm, grammar: str) -> None:
    answer = ran("lineage", "export", "--format", grammar)
    assert answer.code == 0
    lines = [answer.out.encode()] if grammar in ("prov", "mermaid") else answer.out.encode().splitlines()
    found = extracting.EXTRACT["prov-json" if grammar == "prov" else grammar](lines)
    assert found == set().union(*(run.triples() for run in told())) != set()
    assert ran("lineage", "export", "--format", grammar).out == answer.out
    one = ran("lineage", "export", "rain-gauges", "--format", grammar, "--run", told()[0].run_id)
    assert one.code == 0 and 0 < len(one.out) < len(answer.out)
    assert ran("lineage", "export", "--format", grammar, "--run", "nobody").code == 3
    assert ran("lineage", "export", "nothing", "--format", grammar).code == 3


def test_the_catalog_of_an_installation_is_valid_and_what_is_spoilt_is_named(ran: Kfm) -> None:
    answer = ran("catalog", "build", "--out", "catalog-here")
    assert answer.code == 0
    answer = ran("catalog", "validate", "catalog-here")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith("8 valid, 2 unchecked, 0 broken\n")  # proof and index of runs have forms of our own
    path = next(Path("catalog-here").rglob("items/*.json"))
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "stac_version": "9.9"}))
    answer = ran("catalog", "validate", "catalog-here")
    assert answer.code == 3 and f"{path}: /stac_version: is none of 1.0.0, 1.1.0" in answer.out
    data = ran("catalog", "validate", str(path), "--json").data
    assert (data["broken"], data["documents"][0]["problems"][0]["place"]) == (1, "/stac_version")
    path.write_text(json.dumps({**document, "stac_extensions": ["https://example.org/mine.json"]}))
    answer = ran("catalog", "validate", "catalog-here")
    assert (
        answer.code == 0 and "unchecked: https://example.org/mine.json" in answer.out and ", 3 unchecked," in answer.out
    )
    assert ran("catalog", "validate", "catalog-here", "--strict").code == 3
    path.write_text("{")
    assert ran("catalog", "validate", str(path)).code == 3
    assert ran("catalog", "validate", "nowhere").code == 3


def test_a_pipe_in_a_catalog_is_an_error_and_is_not_waited_for(ran: Kfm) -> None:
    assert ran("catalog", "build", "--out", "catalog-here").code == 0
    os.mkfifo("catalog-here/pipe.json")
    os.mkfifo("pipe.ndjson")
    answer = ran("catalog", "validate", "catalog-here")
    assert answer.code == 3 and "catalog-here/pipe.json: /: is no plain file" in answer.out.splitlines()
    assert answer.out.endswith("8 valid, 2 unchecked, 1 broken\n")
    answer = ran("catalog", "validate", "pipe.ndjson")
    assert answer.code == 3 and "pipe.ndjson' is neither a file nor a folder" in answer.complaint.replace('"', "'")


def test_without_the_library_nothing_is_said_to_be_valid(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from kfm.app.metadata import schema_store

    schema_store.validator.cache_clear()
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    ran("catalog", "build", "--out", "catalog-here")
    answer = ran("catalog", "validate", "catalog-here")
    assert answer.code == 69 and "kansas-frontier-matrix[catalog]" in answer.err and "valid," not in answer.out
    schema_store.validator.cache_clear()
