"""The linter, schema or parser of each runner accepts the files that KFM writes for it."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.abilities import lacking
from tests.app.runners.conftest import declare
from tests.app.runners.tools import schemas
from tests.cli.conftest import Kfm
from tests.policy.tools import Absent, built
from tests.project.guides import ROOT, blocks

TOOLS = Path(sys.executable).parent
GITHUB = ".github/workflows/kfm.yml"
EVERY_KIND_OF_TIME = """\
  quakes:
    version: "1.0.0"
    title: Quakes
    license: CC0-1.0
    sensitivity: public
    schedule: {cadence: real-time, every_min: 2}
    sources: {quakes: {uri: rain.csv, format: csv}}
    outputs: {quakes: {from: quakes}}
  weekly:
    version: "1.0.0"
    schedule: {cadence: weekly, day: mon, at: "00:30", timezone: Europe/Berlin, jitter_s: 600}
    sources: {weekly: {uri: rain.csv, format: csv}}
    outputs: {weekly: {from: weekly}}
  annual:
    version: "1.0.0"
    schedule: {cadence: annual, at: "05:00"}
    sources: {annual: {uri: rain.csv, format: csv}}
    outputs: {annual: {from: annual}}
  either:
    version: "1.0.0"
    schedule: {cron: "5 4 1,15 * fri"}
    sources: {either: {uri: rain.csv, format: csv}}
    outputs: {either: {from: either}}
"""


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One that is in this environment, or in the cache of tools."""
    path = TOOLS / name
    if not path.exists():
        try:
            path = built(name)
        except Absent as problem:
            lacking(str(problem))
    return subprocess.run([str(path), *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def known() -> dict[str, dict[str, Any]]:
    try:
        return schemas()
    except Absent as problem:
        lacking(str(problem))


@pytest.fixture(params=["", EVERY_KIND_OF_TIME], ids=["few schedules", "every kind of time"])
def various(request: pytest.FixtureRequest, kfm: Kfm) -> Kfm:
    declare(request.param)
    return kfm


def documents(kfm: Kfm, kind: str) -> list[dict[str, Any]]:
    assert kfm("runners", "write", kind).code == 0
    return list(yaml.safe_load_all(Path(f"pipelines/runners/{kind}.yml").read_text()))


# -- GitHub


def finding(who: str, path: str = GITHUB) -> str:
    """What it says, if it says anything."""
    words = {
        "check-jsonschema": ("--builtin-schema", "vendor.github-workflows"),
        "actionlint": ("-no-color", "-shellcheck=", "-pyflakes="),
        "zizmor": ("--offline",),
    }[who]
    done = tool(who, *words, path)
    quiet = who != "zizmor" or "No findings" in done.stdout + done.stderr
    return "" if quiet and not done.returncode else done.stdout + done.stderr


@pytest.mark.parametrize("who", ["check-jsonschema", "actionlint", "zizmor"])
def test_github_takes_its_workflow_and_linter_and_auditor_find_nothing(various: Kfm, who: str) -> None:
    assert various("runners", "write", "github").code == 0
    assert finding(who) == ""


@pytest.mark.parametrize(
    ("who", "old", "new"),
    [
        ("check-jsonschema", "runs-on:", "run-on:"),
        ("actionlint", "*/5 * * * *", "*/1 * * * *"),
        ("actionlint", "secrets.KFM_SECRET_SIGNING", "secret.KFM_SECRET_SIGNING"),
        ("zizmor", 'kfm run "$ONLY"', "kfm run ${{ github.event.client_payload.dataset }}"),
    ],
)
def test_each_of_them_would_find_something(kfm: Kfm, who: str, old: str, new: str) -> None:
    declare(EVERY_KIND_OF_TIME)
    assert kfm("runners", "write", "github").code == 0
    text = Path(GITHUB).read_text()
    assert old in text
    Path(GITHUB).write_text(text.replace(old, new))
    assert finding(who)


# -- Kubernetes


def wrong(known: dict[str, dict[str, Any]], document: dict[str, Any]) -> list[str]:
    schema = known[f"{document['apiVersion']} {document['kind']}"]
    found = jsonschema.Draft7Validator(schema).iter_errors(document)
    return [f"{'/'.join(map(str, each.absolute_path))}: {each.message[:200]}" for each in found]


def test_argo_takes_its_resources(various: Kfm, known: dict[str, dict[str, Any]]) -> None:
    template, clock = documents(various, "argo")
    assert (template["kind"], clock["kind"]) == ("WorkflowTemplate", "CronWorkflow")
    assert wrong(known, template) == wrong(known, clock) == []
    entry = template["spec"]["entrypoint"]
    assert entry in [each["name"] for each in template["spec"]["templates"]]
    assert clock["spec"]["workflowSpec"]["workflowTemplateRef"]["name"] == template["metadata"]["name"]


def test_tekton_takes_its_resources(various: Kfm, known: dict[str, dict[str, Any]]) -> None:
    task, starter, account, role, binding, *jobs = documents(various, "tekton")
    run = yaml.safe_load(starter["data"]["taskrun.yml"])
    assert wrong(known, task) == wrong(known, run) == []
    assert run["spec"]["taskRef"]["name"] == task["metadata"]["name"]
    assert role["rules"] == [{"apiGroups": ["tekton.dev"], "resources": ["taskruns"], "verbs": ["create"]}]
    assert binding["subjects"][0]["name"] == account["metadata"]["name"] == binding["roleRef"]["name"]
    assert jobs and all(each["kind"] == "CronJob" for each in jobs)
    # A pod is a pod: what Tekton leaves open, and what starts its task, is held against what Argo says of pods.
    argo = known["argoproj.io/v1alpha1 WorkflowTemplate"]["properties"]["spec"]["properties"]
    container = argo["templates"]["items"]["properties"]["container"]
    jsonschema.validate(task["spec"]["volumes"], argo["volumes"], jsonschema.Draft7Validator)
    jsonschema.validate(
        run["spec"]["podTemplate"]["securityContext"], argo["securityContext"], jsonschema.Draft7Validator
    )
    for job in jobs:
        pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        jsonschema.validate(pod["containers"], {"type": "array", "items": container}, jsonschema.Draft7Validator)
        jsonschema.validate(pod["volumes"], argo["volumes"], jsonschema.Draft7Validator)
        jsonschema.validate(pod["securityContext"], argo["securityContext"], jsonschema.Draft7Validator)
        assert pod["serviceAccountName"] == account["metadata"]["name"] and pod["restartPolicy"] == "Never"
        assert pod["containers"][0]["command"][-1] == "/kfm-starter/taskrun.yml"


def test_kubernetes_takes_its_cron_jobs(various: Kfm) -> None:
    import kubernetes_validate

    jobs = documents(various, "kubernetes")
    for job in jobs:
        kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
        said, pod = job["spec"], job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert (said["timeZone"], said["concurrencyPolicy"]) == ("Etc/UTC", "Forbid")
        assert said["startingDeadlineSeconds"] and said["jobTemplate"]["spec"]["backoffLimit"] == 0
        assert {"requests", "limits"} <= set(pod["containers"][0]["resources"])
    jobs[0]["spec"]["scedule"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError, match="scedule"):
        kubernetes_validate.validate(jobs[0], kubernetes_validate.latest_version(), strict=True)


SERVERS = """\
state: postgresql://kfm@db.example.org/kfm
objects: s3://kfm-objects/v1
publish: s3://kfm-public/v1
catalog: ""
queue: rediss://redis.example.org:6380/0
postgres: {password: env:KFM_SECRET_POSTGRES}
redis: {password: env:KFM_SECRET_REDIS}
s3:
  kfm-objects: {access_key: env:KFM_SECRET_ACCESS, secret_key: env:KFM_SECRET_KEY}
runners:
"""


def test_where_servers_hold_everything_no_claim_is_asked_for_and_every_secret_is_passed_on(kfm: Kfm) -> None:
    declare()
    text = Path("kfm.yml").read_text()
    assert "catalog: file:catalog\nrunners:\n" in text
    Path("kfm.yml").write_text(text.replace("catalog: file:catalog\nrunners:\n", SERVERS))
    (job,) = documents(kfm, "kubernetes")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "scratch", "emptyDir": {}}]
    mounted = {each["mountPath"]: each["name"] for each in pod["containers"][0]["volumeMounts"]}
    assert mounted == {"/tmp": "scratch", "/srv/kfm/.kfm": "scratch"}
    refs = {each["name"] for each in pod["containers"][0]["env"] if "valueFrom" in each}
    assert refs >= {"KFM_SECRET_POSTGRES", "KFM_SECRET_REDIS", "KFM_SECRET_ACCESS", "KFM_SECRET_KEY"}
    assert kfm("runners", "write", "github").code == 0
    assert "[bucket,postgres,queue]==" in Path(GITHUB).read_text()


SPOILT: dict[str, Callable[[dict[str, Any]], object]] = {
    "a key that is none": lambda task: task["spec"]["steps"][0].update(comand=["x"]),
    "a text for a list": lambda task: task["spec"]["steps"][0].update(args="up"),
    "a mount without a path": lambda task: task["spec"]["steps"][0]["volumeMounts"][0].pop("mountPath"),
    "a parameter of no known type": lambda task: task["spec"]["params"][0].update(kind="array"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_spoilt_is_not_taken(kfm: Kfm, known: dict[str, dict[str, Any]], name: str) -> None:
    declare()
    task = documents(kfm, "tekton")[0]
    assert wrong(known, task) == []
    spoilt = copy.deepcopy(task)
    SPOILT[name](spoilt)
    assert wrong(known, spoilt), name


def test_a_container_can_write_only_to_its_volumes_and_drops_every_capability(various: Kfm) -> None:
    for container, volumes in containers(various):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        mounted = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
        assert {path for path, name in mounted.items() if name == "state"} == {
            f"/srv/kfm/{folder}" for folder in (".kfm", "catalog", "public")
        }
        assert set(mounted.values()) <= {each["name"] for each in volumes}


def containers(kfm: Kfm) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The steps that run kfm, with the volumes they may mount."""
    template = documents(kfm, "argo")[0]
    yield from ((each["container"], template["spec"]["volumes"]) for each in template["spec"]["templates"])
    for job in documents(kfm, "kubernetes"):
        pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        yield from ((each, pod["volumes"]) for each in pod["containers"])
    task = documents(kfm, "tekton")[0]
    yield from ((step, task["spec"]["volumes"]) for step in task["spec"]["steps"])


@pytest.mark.parametrize("file", ["deploy/argo-cd.yml", "deploy/flux.yml"])
def test_what_the_guide_says_of_argo_cd_and_flux_is_taken(known: dict[str, dict[str, Any]], file: str) -> None:
    page = (ROOT / "docs/guides/runners-elsewhere.md").read_text()
    (body,) = [block.body for block in blocks(page) if block.file == file]
    document = yaml.safe_load(body)
    assert wrong(known, document) == []
    document["spec"]["syncPolcy" if "argo" in file else "prun"] = True
    assert wrong(known, document)


# -- machines


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        lacking("no systemd-analyze on this machine")
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=60, check=False)


def test_systemd_takes_its_units_and_means_the_instants_that_cron_means(various: Kfm, tmp_path: Path) -> None:
    text = Path("kfm.yml").read_text()
    here = f"  folder: {tmp_path}\n  program: /bin/true\n  user: root\n"
    Path("kfm.yml").write_text(text.replace("  folder: /srv/kfm\n", here))
    assert various("runners", "write", "systemd").code == 0
    checked = analyze("verify", "pipelines/runners/kfm.service", "pipelines/runners/kfm.timer")
    ours = [line for line in checked.stderr.splitlines() if "kfm." in line]
    assert ours == [], checked.stderr
    lines = re.findall(r"OnCalendar=(.*)", Path("pipelines/runners/kfm.timer").read_text())
    assert various("runners", "write", "argo").code == 0
    crons = documents(various, "argo")[1]["spec"]["schedules"]
    assert len(lines) == len(crons) >= 1
    for line, cron in zip(lines, crons, strict=True):
        told = analyze("calendar", "--base-time=2026-02-27 00:00:00 UTC", "--iterations=40", line)
        assert told.returncode == 0, told.stderr
        found = re.findall(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d):\d\d UTC", told.stdout.replace("Normalized", "\n"))
        instants = sorted(set(found))
        assert len(instants) >= 30 or "1 1" in cron, told.stdout
        assert instants == expected(cron, len(instants)), (line, cron)


def expected(cron: str, count: int) -> list[str]:
    """What Debian's cron makes of it, by a library that is not under test here."""
    from datetime import UTC, datetime
    from itertools import islice

    from cronsim import CronSim

    return [f"{each:%Y-%m-%d %H:%M}" for each in islice(CronSim(cron, datetime(2026, 2, 27, tzinfo=UTC)), count)]


def test_a_unit_that_is_spoilt_is_not_taken(kfm: Kfm) -> None:
    declare()
    assert kfm("runners", "write", "systemd").code == 0
    timer = Path("pipelines/runners/kfm.timer")
    timer.write_text(timer.read_text().replace("OnCalendar=", "OnCalender="))
    assert "OnCalender" in analyze("verify", str(timer)).stderr


def test_a_line_of_cron_has_five_fields_a_user_and_a_command_without_percent(various: Kfm) -> None:
    assert various("runners", "write", "cron").code == 0
    lines = [line for line in Path("pipelines/runners/kfm.cron").read_text().splitlines() if line[0] not in "#S"]
    assert len(lines) == 1
    *fields, user, command = lines[0].split(" ", 6)
    assert len(fields) == 5 and user == "kfm" and "%" not in command
    done = subprocess.run(["sh", "-n", "-c", command], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_said_as_json_is_what_is_in_the_files(written: Kfm) -> None:
    told = json.loads(written("runners", "check", "--json").out)
    assert {each["state"] for each in told} == {"current"}
