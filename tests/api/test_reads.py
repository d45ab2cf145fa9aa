"""Schedules, backfills, pools, jobs, freshness, labels, decisions, quality, schema: what the command line says of them
is what the API answers, and nobody learns more of protected data."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kfm import config
from kfm.app.serving import decision_answers
from kfm.app.session.session import open_session
from tests.api.console_server import console
from tests.api.test_console_pages import ABSENT, HIDDEN, mixed, same, words
from tests.cli.conftest import Kfm, done, kfm, plain_environment, ran, started
from tests.engine.protected.conftest import SECRETS, site

__all__ = ["kfm", "mixed", "plain_environment", "ran", "site", "started"]

NAME = "rain-gauges"


def test_what_runs_when_is_what_the_command_line_says(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("kfm.yml").open("a") as file:
        file.write("    schedule: {cron: 0 6 * * *, timezone: America/Chicago}\n    freshness: {max_age: 1d}\n")
        file.write("    pool: api\npools: {api: 2}\n")
    Path("pipelines/backfills").mkdir(parents=True)
    Path("pipelines/backfills/past.yml").write_text(
        "backfills:\n"
        + "".join(
            f"  years-{n}: {{dataset: rain-gauges, partitions: {{kind: year, from: '2020', to: '2022'}}}}\n"
            for n in range(3)
        )
    )
    done(ran("schedule", "trigger", NAME, "--reason", "looking"))
    told = {
        what: ran("--json", *command).data
        for what, command in {
            "schedules": ("schedule", "list"),
            "late": ("schedule", "freshness"),
            "pools": ("schedule", "pools"),
            "backfills": ("backfill", "status"),
            "triggers": ("triggers", "list"),
            "jobs": ("jobs", "list"),
        }.items()
    }
    with console() as server:
        (schedule,) = server.data("/v1/schedules")["schedules"]
        (said,) = told["schedules"]
        assert (schedule["schedule"], schedule["cron"]) == (said["id"], said["cron"]) == (NAME, "0 6 * * *")
        assert schedule["due_at"] == said["next"]
        one = server.data(f"/v1/schedules/{NAME}")
        assert one["schedule"] == schedule and len(one["coming"]) == 10 and one["coming"][0]["local"].endswith("CST")

        first = server.data("/v1/backfills?limit=2")
        rest = server.data(f"/v1/backfills?limit=2&after={first['next']}")
        listed = [*first["backfills"], *rest["backfills"]]
        assert [each["backfill"] for each in listed] == [each["backfill"] for each in told["backfills"]]
        assert rest["next"] == ""
        assert server.data("/v1/backfills/years-1")["backfill"] == listed[1]

        (pool,) = server.data("/v1/pools")["pools"]
        assert (pool["pool"], pool["slots"]) == (told["pools"][0]["pool"], told["pools"][0]["slots"]) == ("api", 2)
        (trigger,) = server.data("/v1/triggers")["triggers"]
        assert trigger["trigger_id"] == told["triggers"][0]["trigger_id"] and trigger["reason"] == "looking"
        (job,) = server.data("/v1/jobs")["jobs"]
        assert (job["job_id"], job["state"]) == (told["jobs"][0]["job_id"], "waiting")
        assert server.data("/v1/jobs?state=ended")["jobs"] == []
        (late,) = server.data("/v1/freshness")["datasets"]
        assert (late["verdict"], late["as_of"]) == (told["late"][0]["verdict"], told["late"][0]["as_of"])
        seen = words(server.page("/schedules"))
        assert all(text in seen for text in (NAME, "0 6 * * *", "years-2", "api: 0 of 2 slots", "America/Chicago"))
        assert server.get("/v1/jobs?after=x").status == server.get("/v1/triggers?after=x").status == 400
        same(server, "/v1/schedules/no-such", "/v1/backfills/no-such")


def test_a_late_dataset_names_the_source_that_makes_it_late(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(f"{text}    freshness: {{max_age: 1d}}\n")
    monkeypatch.setenv("KFM_NOW", "2029-03-01T00:00:00Z")
    with console() as server:
        (row,) = server.data("/v1/freshness")["datasets"]
        assert row["verdict"] == "late" and sum(each["minutes"] for each in row["blame"]) == row["age_min"]
        (cause,) = row["waits_for"]
        assert (cause["kind"], cause["name"], cause["since"]) == ("source", "gauges", row["as_of"])
        seen = words(server.page("/schedules"))
        assert "1 dataset is late" in seen and "source gauges : no new bytes since" in seen
    with console(audience="public") as server:
        assert server.data(f"/v1/datasets/{NAME}/freshness")["freshness"]["late_min"] == row["late_min"]
        seen = words(server.page(f"/datasets/{NAME}/"))
        assert "late since" in seen and "source gauges : no new bytes since" in seen and "at most 1d" in seen
        assert "Rows quarantined 1" in seen and "no label restricts it" in seen and "/decisions/" not in seen


def test_quality_schema_decisions_and_what_a_reproduction_needs(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    with console() as server:
        version = server.data(f"/v1/datasets/{NAME}")["version"]
        at = f"/v1/datasets/{NAME}/versions/{version}/quality"
        found = server.data(at)
        assert (found["result"], found["rows"], found["quarantined_rows"]) == ("quarantined", 12, 1)
        assert found["quarantined_now"] == [{"source": "gauges", "rule": "minimum", "column": "rain_mm", "rows": 1}]
        schema = server.data(f"/v1/datasets/{NAME}/schema")
        assert [each["name"] for each in schema["columns"]] == ["gauge", "county", "month", "rain_mm"]
        assert [each["type"] for each in schema["columns"]][3] == "number" and len(schema["contracts"]) == 1
        decided = server.data(f"/v1/datasets/{NAME}/decisions")
        rules = {each["rule"]: each["holds"] for each in decided["now"]}
        assert rules == {each["rule"]: each["holds"] for each in ran("--json", "policy", "explain", NAME).data}
        assert [each["gate"] for each in decided["recorded"]] == ["promotion.checklist"]
        seen = words(server.page(f"/decisions/{NAME}"))
        assert "promotion.checklist" in seen and "licence.known" in seen
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decision_answers, "ASKED", 2)  # it has three files
            many = server.data(f"/v1/datasets/{NAME}/decisions")
            assert many["now"] == [] and many["command"] == f"kfm policy explain {NAME}"
            assert many["command"] in words(server.page(f"/decisions/{NAME}"))
        needs = server.data(f"/v1/reproduce/{NAME}")
        assert needs["is_possible"] and needs["inputs"][0]["is_here"] and needs["settings"] == "recorded"
        labels = server.data("/v1/labels")["datasets"]
        assert [(each["dataset"], each["sources"][0]["level"]) for each in labels] == [(NAME, "public")]
        same(server, "/v1/reproduce/no-such", f"/v1/reproduce/{ABSENT}", "/v1/datasets/no-such/decisions", at + "x")
    asked: list[str] = []

    def lost(_objects: object, digest: str) -> bool:
        asked.append(digest)
        return digest != needs["inputs"][0]["digest"]

    with open_session(config.load("kfm.yml", os.environ)) as session:
        monkeypatch.setattr(type(session.objects), "has", lost)
    with console() as server:
        found = server.data(f"/v1/reproduce/{NAME}")
        assert needs["inputs"][0]["digest"] in asked
        assert not found["is_possible"] and not found["inputs"][0]["is_here"]
    with console(audience="public") as server:
        assert server.data(at)["quarantined_now"] == [] and server.data(at)["quarantined_rows"] == 1
        assert server.data(f"/v1/datasets/{NAME}/schema")["contracts"] == []


def test_of_protected_data_the_reads_show_that_it_is_and_nothing_of_it(mixed: Kfm) -> None:
    Path("pipelines/backfills").mkdir(parents=True)
    Path("pipelines/backfills/past.yml").write_text(
        "backfills:\n"
        + "".join(
            f"  of-{name}: {{dataset: {name}, partitions: {{kind: name, keys: [hidden-spring]}}}}\n"
            for name in ("sites", "wells", "closed-springs")
        )
    )
    every = ["/v1/schedules", "/v1/backfills", "/v1/backfills/of-closed-springs", "/v1/backfills/of-sites", "/v1/pools"]
    every += ["/v1/jobs", "/v1/triggers", "/v1/freshness", "/v1/labels", "/schedules"]
    every += ["/v1/datasets/sites/decisions", "/decisions/sites", "/v1/reproduce/sites"]
    secrets = (*SECRETS, "hidden-spring", "closed.csv", "sites.csv")
    with console(audience="steward") as server:
        found = {path: server.get(path) for path in every}
        assert {path: each.status for path, each in found.items()} == dict.fromkeys(every, 200)
        assert "closed-springs" in found["/v1/labels"].text, "the staff may know its name"
        seen = [(path, secret) for path, each in found.items() for secret in secrets if secret in each.text]
        assert seen == []
        decided = json.loads(found["/v1/datasets/sites/decisions"].body)
        assert decided["is_withheld"] and decided["recorded"]
        assert all(not one["reason"] for each in decided["recorded"] for one in each["broken"])
        version = server.data("/v1/datasets/sites")["version"]
        quality = server.data(f"/v1/datasets/sites/versions/{version}/quality")
        assert quality["is_withheld"] and quality["rows"] is None and quality["result"] == "not shown"
        page = words(server.page("/datasets/sites/"))
        assert "not shown: the data is not plainly public" in page and "Custodian" in page
        assert [secret for secret in secrets if secret in page] == []
    with console(audience="single") as server:
        listed = [server.get(path) for path in every if server.get(path).status == 200]
        assert len(listed) >= 9
        assert [secret for secret in HIDDEN if any(secret in each.text for each in listed)] == []
        same(server, "/v1/backfills/of-closed-springs", "/v1/backfills/of-nothing", "/v1/reproduce/closed-springs")
        same(server, "/decisions/closed-springs", "/decisions/no-such", "/v1/datasets/closed-springs/decisions")
