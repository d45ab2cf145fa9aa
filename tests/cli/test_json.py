"""The output of `--json` is what the reference page says, for every command."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from kfm import config
from kfm.app.jobs.job_worker import JobWorker
from kfm.app.session.session import open_session
from kfm.engine.execute import Crew
from kfm.model.records import Receipt
from kfm.model.secret import Secret
from kfm.scheduling.webhook_requests import signature
from tests.app.objectives.site import promise
from tests.cli.protected import laid_out
from tests.project.json_shapes import ERROR, NOT_JSON, SHAPES
from tests.project.reference import commands
from tests.retries.worlds import used_up
from tests.sampling import sampled

from .conftest import Kfm

SECRET = "0123456789abcdef0123456789abcdef"
BODY = (
    b'{"source_id":"gauges","trigger":"t","event_type":"e","sent_at":"2026-01-01T00:00:00Z",'
    b'"integrity":{"version":"v1"}}'
)
HEADER = f"X-KFM-Signature: {signature('kfm', Secret(SECRET.encode()), BODY)}"
LINES = {
    "kfm --version": ["--version"],
    "kfm init": ["init", "elsewhere"],
    "kfm new": ["new", "updater", "well-logs"],
    "kfm add": ["add", "data/rain_gauges.csv", "--name", "rain", "--license", "CC0-1.0"],
    "kfm remove": ["remove", "rain-gauges"],
    "kfm run": ["run"],
    "kfm resume": ["resume"],
    "kfm plan": ["plan", "rain-gauges"],
    "kfm publish": ["publish", "rain-gauges"],
    "kfm rollback": ["rollback", "rain-gauges", "--to", "nothing"],
    "kfm freeze": ["freeze"],
    "kfm search": ["search", "rain"],
    "kfm thaw": ["thaw"],
    "kfm runs telemetry": ["runs", "telemetry"],
    "kfm attest": ["attest", "rain-gauges"],
    "kfm verify": ["verify", "rain-gauges"],
    "kfm audit verify": ["audit", "verify"],
    "kfm audit export": ["audit", "export"],
    "kfm webhooks sign": ["webhooks", "sign", "gauges", "--body", "body.json"],
    "kfm webhooks verify": ["webhooks", "verify", "gauges", "--body", "body.json", "--header", HEADER],
    "kfm webhooks replay": ["webhooks", "replay", "gauges", "--body", "body.json", "--header", HEADER],
    "kfm triggers list": ["triggers", "list"],
    "kfm triggers show": ["triggers", "show", "000000000001"],
    "kfm triggers retry": ["triggers", "retry", "000000000001"],
    "kfm jobs list": ["jobs", "list", "--all"],
    "kfm jobs dead": ["jobs", "dead"],
    "kfm jobs show": ["jobs", "show", "000000000001"],
    "kfm jobs types": ["jobs", "types"],
    "kfm jobs enqueue": ["jobs", "enqueue", "ingest.pull_source", "--dataset", "rain-gauges"],
    "kfm jobs retry": ["jobs", "retry", "000000000001"],
    "kfm jobs cancel": ["jobs", "cancel", "000000000001"],
    "kfm catalog validate": ["catalog", "validate", "document.json"],
    "kfm schedule freshness": ["schedule", "freshness"],
    "kfm status": ["status"],
    "kfm backfill plan": ["backfill", "plan", "parts"],
    "kfm backfill start": ["backfill", "start", "parts"],
    "kfm backfill resume": ["backfill", "resume", "parts"],
    "kfm backfill status": ["backfill", "status"],
    "kfm backfill pause": ["backfill", "pause", "parts"],
    "kfm backfill cancel": ["backfill", "cancel", "parts"],
    "kfm catalog discover": ["catalog", "discover", "data"],
    "kfm schedule pools": ["schedule", "pools"],
    "kfm schedule list": ["schedule", "list"],
    "kfm schedule show": ["schedule", "show", "rain-gauges"],
    "kfm schedule next": ["schedule", "next", "2"],
    "kfm schedule check": ["schedule", "check"],
    "kfm schedule pause": ["schedule", "pause", "rain-gauges"],
    "kfm schedule resume": ["schedule", "resume", "rain-gauges"],
    "kfm schedule trigger": ["schedule", "trigger", "rain-gauges"],
    "kfm runners write": ["runners", "write", "cron"],
    "kfm runners check": ["runners", "check", "cron"],
    "kfm preview build": ["preview", "build", "other"],
    "kfm preview list": ["preview", "list"],
    "kfm preview report": ["preview", "report", "other"],
    "kfm preview publish": ["preview", "publish", "other", "--approved", "DIGEST"],
    "kfm preview sweep": ["preview", "sweep", "--days", "0"],
    "kfm runs cancel": ["runs", "cancel", "last"],
    "kfm runs list": ["runs", "list"],
    "kfm runs show": ["runs", "show", "last"],
    "kfm runs steps": ["runs", "steps", "last"],
    "kfm refs list": ["refs", "list"],
    "kfm refs history": ["refs", "history", "published/rain-gauges"],
    "kfm cat": ["cat", "processed/rain-gauges"],
    "kfm diff": ["diff", "rain-gauges"],
    "kfm quarantine": ["quarantine", "rain-gauges"],
    "kfm labels show": ["labels", "show"],
    "kfm labels set": ["labels", "set", "dataset:rain-gauges", "--sensitivity", "closed", "--care", "open"],
    "kfm mask deploy": ["mask", "deploy", "rain-gauges", "gauges"],
    "kfm policy deploy": ["policy", "deploy"],
    "kfm mask preview": ["mask", "preview", "sites.csv", "--mask", "mask.yml"],
    "kfm protect": ["protect", "sites.csv", "--custodian", "society", "--yes"],
    "kfm mask scan": ["mask", "scan", "kfm.yml", "--against", "sites.csv", "--mask", "mask.yml"],
    "kfm triggers drop": ["triggers", "drop", "000000000001"],
    "kfm hotfix new": ["hotfix", "new", "title", "rain-gauges", "--set", "title=Gauges"],
    "kfm hotfix apply": ["hotfix", "apply", "hotfixes/title.yml"],
    "kfm hotfix revert": ["hotfix", "revert", "title"],
    "kfm hotfix diff": ["hotfix", "diff", "hotfixes/title.yml"],
    "kfm hotfix list": ["hotfix", "list"],
    "kfm runs receipts": ["runs", "receipts"],
    "kfm runs receipt": ["runs", "receipt", "last"],
    "kfm catalog build": ["catalog", "build"],
    "kfm catalog show": ["catalog", "show"],
    "kfm sinks": ["sinks"],
    "kfm reconcile": ["reconcile"],
    "kfm runs compact": ["runs", "compact"],
    "kfm energy": ["energy", "rain-gauges"],
    "kfm slo": ["slo"],
    "kfm slo list": ["slo", "list"],
    "kfm slo show": ["slo", "show", "gauges-success"],
    "kfm slo override": ["slo", "override", "gauges-success", "--until", "12h"],
    "kfm report quarter": ["report", "quarter"],
    "kfm alerts write": ["alerts", "write", "--to", "rules.yml"],
    "kfm breakers": ["breakers"],
    "kfm budgets": ["budgets"],
    "kfm backup": ["backup", "../backups"],
    "kfm gc": ["gc", "--dry-run"],
    "kfm upgrade": ["upgrade", "../backups", "--dry-run"],
    "kfm restore": ["restore", "../backups", "--verify"],
    "kfm move": ["move", "--to", "jsonl:.kfm/state.jsonl"],
    "kfm doctor": ["doctor"],
    "kfm config check": ["config", "check"],
    "kfm config show": ["config", "show"],
    "kfm explain": ["explain", "rain-gauges"],
    "kfm lineage graph": ["lineage", "graph"],
    "kfm lineage upstream": ["lineage", "upstream", "rain-gauges"],
    "kfm lineage downstream": ["lineage", "downstream", "rain-gauges"],
    "kfm why-not": ["why-not", "rain-gauges"],
    "kfm reproduce": ["reproduce", "rain-gauges"],
    "kfm policy gates": ["policy", "gates", "rain-gauges"],
    "kfm policy bundle": ["policy", "bundle", "--out", "bundle.tar.gz"],
    "kfm policy check": ["policy", "check"],
    "kfm policy explain": ["policy", "explain", "rain-gauges"],
    "kfm policy test": ["policy", "test"],
    "kfm review list": ["review", "list", "--all"],
    "kfm review show": ["review", "show", "ORDER"],
    "kfm review approve": ["review", "approve", "ORDER", "--key", "sue.key"],
    "kfm review deploy": ["review", "deploy", "--key", "olli.key"],
    "kfm review reject": ["review", "reject", "ORDER", "--key", "sue.key"],
    "kfm keys new": ["keys", "new", "--person", "ada", "--role", "admin", "--out", "ada.key"],
    "kfm keys list": ["keys", "list"],
    "kfm keys revoke": ["keys", "revoke", "KEY", "--reason", "lost", "--key", "amy.key"],
    "kfm token new": ["token", "new", "--person", "ada", "--note", "a notebook", "--key", "ada.key"],
    "kfm token list": ["token", "list"],
    "kfm token revoke": ["token", "revoke", "TOKEN", "--reason", "lost", "--key", "ada.key"],
}


def test_every_command_has_a_shape() -> None:
    leaves = [name for name, parser in commands() if parser.get_default("handler")]
    assert sorted(leaves) == sorted({*SHAPES, *NOT_JSON} - {"kfm --version"})
    assert set(LINES) == set(SHAPES)


def asked_for(ran: Kfm) -> str:
    """The id of an order that waits for sue."""
    for person, role in (("ada", "admin"), ("olli", "operator"), ("sue", "steward")):
        signed = () if person == "ada" else ("--key", "ada.key")
        assert ran("keys", "new", "--person", person, "--role", role, "--out", f"{person}.key", *signed).code == 0
    signed = ("--key", "olli.key", "--reason", "a look")
    assert ran("freeze", *signed).code == 0
    assert ran("thaw", *signed).code == 4
    return str(ran("review", "list", "--json").data[0]["id"])


def with_a_job(ran: Kfm, name: str) -> None:
    """A job that waits, was cancelled, or was refused by its run, for a person to correct."""
    if name.startswith("kfm jobs") and name not in ("kfm jobs types", "kfm jobs enqueue"):
        assert ran(*LINES["kfm jobs enqueue"]).code == 0
    if name == "kfm jobs retry":
        assert ran(*LINES["kfm jobs cancel"]).code == 0
    if name != "kfm jobs dead":
        return
    Path("data/rain_gauges.csv").write_text("nothing\n1\n")
    with open_session(config.load(None, os.environ)) as session:
        assert JobWorker(session).turn() is not None
        assert [job.status for job in session.state.jobs.dead()] == ["dead"]


def with_parts() -> None:
    """A dataset that is made by partitions, and a backfill of it."""
    Path("parts.py").write_text(
        "from kfm import Output, Plan, Step, Updater\n"
        "class Parts(Updater):\n"
        "    version = '1.0.0'\n"
        "    def inputs(self, trigger, sources):\n"
        "        return [sources.pin('./data/rain_gauges.csv', partition=(trigger.partition,))]\n"
        "    def plan(self, inputs):\n"
        "        return Plan([Step(id='one', key=(inputs[0].partition[0], 'one'))])\n"
        "    def perform(self, step, read):\n"
        "        return Output(b'x', 'text/plain')\n"
    )
    with Path("kfm.yml").open("a") as file:
        file.write("\n  parts:\n    updater: parts.py:Parts\n    sensitivity: public\n")
    Path("pipelines/backfills").mkdir(parents=True)
    Path("pipelines/backfills/parts.yml").write_text(
        "backfills: {parts: {dataset: parts, partitions: {kind: name, keys: [a, b]}}}\n"
    )


def interrupt(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a run unfinished."""

    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with Path("data/rain_gauges.csv").open("a") as file:
        file.write("dodge-city,ford,2026-03,1.5\n")
    with monkeypatch.context() as patch:
        patch.setattr(Crew, "_one", interrupted)
        assert ran("run").code == 130


def branched() -> None:
    """The installation as a repository, with a branch next to the one that is checked out."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    Path(".gitignore").write_text(".kfm/\npublic/\n")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*who, "commit", "-qm", "all"), ("branch", "other")):
        subprocess.run(["git", *words], check=True)


def laid_before(name: str, ran: Kfm) -> None:
    """What a command needs to find."""
    if name == "kfm search":
        indexed(ran)
    if name == "kfm remove":
        assert ran("rollback", "rain-gauges", "--to", "nothing").code == 0
    if name.startswith("kfm slo"):
        promise(Path(), "gauges-success", dataset="rain-gauges")
    if name == "kfm restore":
        assert ran("backup", "../backups").code == 0
    if name in ("kfm hotfix diff", "kfm hotfix list", "kfm hotfix apply", "kfm hotfix revert"):
        assert ran("hotfix", "new", "title", "rain-gauges", "--set", "title=Gauges").code == 0
    if name in ("kfm hotfix list", "kfm hotfix revert"):
        assert ran("hotfix", "apply", "hotfixes/title.yml", "--reason", "a test").code == 0
    if name in ("kfm breakers", "kfm budgets"):
        used_up("source/example.org")
    if name == "kfm catalog validate":
        Path("document.json").write_text("{}")


def indexed(ran: Kfm) -> None:
    """The gauges with a published index of their rows."""
    said = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(
        f"{said}\n  gauge-index:\n    job: index.build_embeddings\n    parameters: {{columns: [county]}}\n"
        "    title: x\n    license: CC0-1.0\n    sensitivity: public\n"
        "    sources: {rows: {dataset: rain-gauges, zone: published}}\n"
    )
    for words in (("publish", "rain-gauges"), ("run", "gauge-index"), ("publish", "gauge-index")):
        answer = ran(*words)
        assert answer.code == 0, answer.err


@pytest.mark.parametrize("name", sampled(SHAPES, every=3))
def test_a_command_writes_the_keys_the_page_names(ran: Kfm, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = SHAPES[name]
    if name.startswith(("kfm webhooks", "kfm triggers")):
        monkeypatch.setenv("KFM_SECRET_GAUGES", SECRET)
        monkeypatch.setenv("KFM_NOW", "2026-01-01T00:00:00Z")
        Path("body.json").write_bytes(BODY)
        with Path("kfm.yml").open("a") as file:
            file.write("\nwebhooks:\n  gauges: {datasets: [rain-gauges], secrets: ['env:KFM_SECRET_GAUGES']}\n")
    if name.startswith("kfm schedule"):
        said = Path("kfm.yml").read_text().replace("    title:", "    schedule: {cadence: daily}\n    title:", 1)
        Path("kfm.yml").write_text(said)
    if name.startswith("kfm backfill"):
        with_parts()
        if name not in ("kfm backfill plan", "kfm backfill start"):
            assert ran("backfill", "start", "parts", "--later").code == 0
    if name == "kfm runners check":
        assert ran("runners", "write", "cron").code == 0
    if name == "kfm schedule pools":
        Path("kfm.yml").write_text(Path("kfm.yml").read_text() + "\npools: {gpu: 1}\n")
    if name == "kfm runs cancel":
        interrupt(ran, monkeypatch)
    if name.startswith("kfm preview"):
        branched()
    laid_before(name, ran)
    if name == "kfm labels set":
        Path("kfm.yml").write_text(Path("kfm.yml").read_text() + "\nlabels: labels.yml\n")
    if name in ("kfm policy test", "kfm policy deploy"):
        Path("policies").mkdir()
        Path("policies/own.rego").write_text('package main\n\ndeny contains "never" if input.never\n')
        Path("policies/own_test.rego").write_text("package main_test\n\ntest_nothing if count(data.main.deny) == 0\n")
        Path("kfm.yml").write_text(Path("kfm.yml").read_text() + "\npolicy: {folder: policies}\n")
    if name in ("kfm mask preview", "kfm mask scan", "kfm mask deploy", "kfm protect"):
        laid_out(3)
    if name == "kfm mask deploy":
        text = Path("kfm.yml").read_text()
        Path("kfm.yml").write_text(
            re.sub(r"(\n +)(uri: data/rain_gauges.csv)", r"\1mask: mask.yml\1\2", text)
            + "\nlabels: labels.yml\ncustodians: {office: {key: 'env:KFM_SECRET_OFFICE'}}\n"
        )
        monkeypatch.setenv("KFM_SECRET_OFFICE", os.urandom(32).hex())
        said = "{of: {source: data/rain_gauges.csv}, sensitivity: restricted, care: open, custodian: office}"
        Path("labels.yml").write_text(f"version: 1\nlabels: [{said}]\n")
    if name in ("kfm mask deploy", "kfm policy deploy"):  # what is first used is signed by its use
        assert ran("keys", "new", "--person", "ada", "--role", "admin", "--out", "ada.key").code == 0
        own = ("--role", "steward", "--custodian", "office", "--out", "sue.key", "--key", "ada.key")
        assert ran("keys", "new", "--person", "sue", *own).code == 0
        assert "came into force" in ran("run").err
    if name.startswith(("kfm audit", "kfm attest", "kfm verify")):
        monkeypatch.setenv("KFM_SECRET_LEDGER", "ab" * 32)
        with Path("kfm.yml").open("a") as file:
            file.write("\nledger: {sign_with: env:KFM_SECRET_LEDGER, origin: kfm.example.org/ledger}\n")
            file.write("attest: {sign_with: env:KFM_SECRET_LEDGER}\n")
        assert ran("audit", "export").code == ran("attest", "rain-gauges").code == 0
    with_a_job(ran, name)
    if name.startswith("kfm triggers"):
        assert ran(*LINES["kfm webhooks replay"]).code == 0
    words = LINES[name]
    if name.startswith("kfm preview") and name != "kfm preview build":
        built = ran("preview", "build", "other", "--all", "--json").data["preview"]
        words = [built if word == "DIGEST" else word for word in words]
    if name in ("kfm keys list", "kfm keys revoke"):
        key = ran(*LINES["kfm keys new"], "--json").data["key"]
        assert (
            ran("keys", "new", "--person", "amy", "--role", "admin", "--out", "amy.key", "--key", "ada.key").code == 0
        )
        words = [key if word == "KEY" else word for word in words]
    if name.startswith("kfm token"):
        assert ran(*LINES["kfm keys new"]).code == 0
        token = ran(*LINES["kfm token new"], "--json").data["id"]
        words = [token if word == "TOKEN" else word for word in words]
    order = asked_for(ran) if name.startswith("kfm review") else ""
    words = [order if word == "ORDER" else word for word in words]
    answer = ran(*words, "--json")
    assert answer.code == 0, answer.err
    rows = answer.data if shape.many else [answer.data]
    assert isinstance(answer.data, list if shape.many else dict) and rows
    expected = set(shape.keys)
    if list(shape.keys) == ["run_id"]:  # "and all other fields of a receipt"
        expected = set(Receipt.__struct_fields__)
    for row in rows:
        assert set(row) == expected


@pytest.mark.parametrize("words", [["run", "nowhere"], ["runs", "show", "nothing"], ["nonsense"], ["cat", "no/ref"]])
def test_an_error_is_a_document_too(ran: Kfm, words: list[str]) -> None:
    answer = ran(*words, "--json")
    assert answer.code in (2, 3)
    assert list(answer.data) == ["error"]
    assert set(ERROR) <= set(answer.data["error"])


def test_the_lines_of_held_rows_are_as_the_page_says(ran: Kfm) -> None:
    (line,) = ran("quarantine", "rain-gauges", "--rows").out.splitlines()
    assert set(json.loads(line)) == {"row", "reasons", "data"}
