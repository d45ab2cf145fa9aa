"""The chart renders what Kubernetes takes, and refuses values that would not work."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.abilities import lacking
from tests.app.runners.tools import schemas
from tests.deploy import manifests
from tests.deploy.manifest_policy import pod_of
from tests.deploy.manifests import CHART, CLOCK, EXAMPLE, MANIFESTS, documents, given, helm, template
from tests.policy.tools import Absent, built
from tests.sampling import sampled

VERSIONS = (manifests.KUBERNETES.rpartition(".")[0], kubernetes_validate.latest_version())


@pytest.fixture(autouse=True, scope="module")
def _needs_helm() -> None:
    try:
        built("helm")
    except Absent as problem:
        lacking(str(problem))


@pytest.fixture(scope="module")
def example() -> list[dict[str, Any]]:
    done = template(*given())
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def of(found: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in found if each["kind"] == kind}


def valid(document: dict[str, Any], version: str) -> bool:
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError:
        return False
    return True


def test_helm_finds_nothing_to_say_of_the_chart_and_something_of_a_spoilt_one(tmp_path: Path) -> None:
    done = helm("lint", "--strict", str(CHART), *given())
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout and "ERROR" not in done.stdout
    spoilt = copied(tmp_path)
    chart = spoilt / "Chart.yaml"
    chart.write_text(chart.read_text().replace("version: 0.1.0", "version: one"))
    assert helm("lint", "--strict", str(spoilt), *given()).returncode != 0


def copied(folder: Path) -> Path:
    import shutil

    return Path(shutil.copytree(CHART, folder / "kfm"))


@pytest.mark.parametrize("version", sampled(VERSIONS))
def test_kubernetes_takes_every_manifest_and_not_a_spoilt_one(example: list[dict[str, Any]], version: str) -> None:
    assert len(example) >= 15
    for document in example:
        kubernetes_validate.validate(document, version, strict=True)
        spoilt = copy.deepcopy(document)
        spoilt.setdefault("spec" if "spec" in spoilt else "metadata", {})["nonsense"] = 1
        assert not valid(spoilt, version), document["kind"]


def test_the_manifests_are_those_that_the_chart_renders_now() -> None:
    there = {file.name: file.read_text() for file in MANIFESTS.iterdir()}
    assert there == manifests.rendered(), "write them again: make manifests"


def test_two_of_kfm_up_stand_by_and_every_pool_has_workers(example: list[dict[str, Any]]) -> None:
    deployments = of(example, "Deployment")
    assert deployments["kfm-up"]["spec"]["replicas"] == 2
    args = {name: each["spec"]["template"]["spec"]["containers"][0]["args"] for name, each in deployments.items()}
    assert args["kfm-up"] == ["kfm", "--no-color", "up"]
    assert "--pool" not in args["kfm-workers-public"]
    assert args["kfm-workers-prairie-band"][-2:] == ["--pool", "prairie-band"]
    for name in ("kfm-workers-public", "kfm-workers-prairie-band"):
        pod = deployments[name]["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] == 600
        probes = {pod["containers"][0][kind]["httpGet"]["path"] for kind in ("livenessProbe", "readinessProbe")}
        assert probes == {"/livez", "/readyz"}
        assert {each["topologyKey"] for each in pod["topologySpreadConstraints"]} == {
            "kubernetes.io/hostname", "topology.kubernetes.io/zone",
        }  # fmt: skip


def test_every_command_of_a_pod_is_one_that_can_be_typed(example: list[dict[str, Any]]) -> None:
    from kfm.cli.parser import parse
    from kfm.workers.health import check_listen
    from kfm.workers.options import parser

    typed = 0
    for document in example:
        if document["kind"] in ("Deployment", "CronJob"):
            module, *words = pod_of(document)["containers"][0]["args"]  # type: ignore[index]
            typed += 1
            if module == "workers":
                options = parser().parse_args(words)
                check_listen(options.listen[0], behind_proxy=options.behind_proxy)
            else:
                assert module == "kfm"
                parse(words)
    assert typed == 6


def test_the_secrets_of_a_custodian_and_of_senders_reach_no_other_pod(example: list[dict[str, Any]]) -> None:
    holders: dict[str, set[str]] = {"kfm-custodian-prairie-band": set(), "kfm-webhooks": set(), "kfm-postgres": set()}
    for document in example:
        for secret in holders:
            if document["kind"] in ("Deployment", "CronJob") and f'"{secret}"' in json.dumps(document["spec"]):
                holders[secret].add(document["metadata"]["name"])
    assert holders["kfm-custodian-prairie-band"] == {"kfm-workers-prairie-band"}
    assert holders["kfm-webhooks"] == {"kfm-webhooks"}
    assert holders["kfm-postgres"] == {*of(example, "Deployment"), *of(example, "CronJob")}


def test_every_pool_grows_by_the_lag_of_its_queue(example: list[dict[str, Any]]) -> None:
    scaled = of(example, "HorizontalPodAutoscaler")
    workers = {name: each for name, each in of(example, "Deployment").items() if "-workers-" in name}
    assert {each["spec"]["scaleTargetRef"]["name"] for each in scaled.values()} == set(workers)
    assert all("replicas" not in each["spec"] for each in workers.values()), "the autoscaler sets them"
    for name, each in scaled.items():
        (metric,) = each["spec"]["metrics"]
        assert metric["external"]["metric"]["name"] == "kfm_queue_lag_seconds"
        terms = {term["key"]: term for term in metric["external"]["metric"]["selector"]["matchExpressions"]}
        assert terms["pool"] == (
            {"key": "pool", "operator": "DoesNotExist"}
            if name == "kfm-workers-public"
            else {"key": "pool", "operator": "In", "values": ["prairie-band"]}
        )


def test_the_lag_is_a_metric_of_workers_under_these_labels() -> None:
    from kfm.app.jobs.job_worker import QueueDepth
    from kfm.app.jobs.queue_metrics import queue_metrics

    depth = QueueDepth(*(1 for _ in QueueDepth.__struct_fields__))
    for pools, labels in (((), {}), (("prairie-band",), {"pool": "prairie-band"})):
        (lag,) = [each for each in queue_metrics(depth, pools) if each.name == "kfm_queue_lag_seconds"]
        assert [said for said, _ in lag.samples] == [labels]


def test_keda_asks_prometheus_for_the_same_lag(tmp_path: Path) -> None:
    more = tmp_path / "keda.yaml"
    more.write_text("autoscaling: {kind: keda, keda: {serverAddress: 'http://prometheus.monitoring.svc:9090'}}\n")
    done = template(*given(), "--values", str(more))
    assert done.returncode == 0, done.stderr
    found = documents(done.stdout)
    assert not of(found, "HorizontalPodAutoscaler")
    try:
        schema = schemas()["keda.sh/v1alpha1 ScaledObject"]
    except Absent as problem:
        lacking(str(problem))
    for scaled in of(found, "ScaledObject").values():
        jsonschema.validate(scaled, schema, jsonschema.Draft7Validator)
        spoilt = {**scaled, "spec": {**scaled["spec"], "minReplicas": 1}}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(spoilt, schema, jsonschema.Draft7Validator)
    queries = {
        name: each["spec"]["triggers"][0]["metadata"]["query"] for name, each in of(found, "ScaledObject").items()
    }
    assert queries == {
        "kfm-workers-public": 'max(kfm_queue_lag_seconds{namespace="kfm",pool=""})',
        "kfm-workers-prairie-band": 'max(kfm_queue_lag_seconds{namespace="kfm",pool="prairie-band"})',
    }


def test_a_pod_has_a_token_only_for_workload_identity(tmp_path: Path) -> None:
    more = tmp_path / "identity.yaml"
    more.write_text(
        "serviceAccount: {workloadIdentity: true, annotations: {example.org/role: kfm}}\n"
        "podLabels: {example.org/identity: 'yes'}\n"
    )
    done = template(*given(), "--values", str(more))
    assert done.returncode == 0, done.stderr
    found = documents(done.stdout)
    (account,) = of(found, "ServiceAccount").values()
    assert account["metadata"]["annotations"] == {"example.org/role": "kfm"}
    pods = [each["spec"]["template"] for each in of(found, "Deployment").values()]
    assert all(pod["spec"]["automountServiceAccountToken"] is True for pod in pods)
    assert all(pod["metadata"]["labels"]["example.org/identity"] == "yes" for pod in pods)


# -- the clock


def test_the_cron_jobs_are_those_that_kfm_writes_for_the_schedules(example: list[dict[str, Any]]) -> None:
    written = list(yaml.safe_load_all(CLOCK.read_text()))
    rendered = of(example, "CronJob")
    assert len(written) == len(rendered) == 2
    for job in written:
        twin = rendered[job["metadata"]["name"]]["spec"]
        own = {key: value for key, value in twin.items() if key not in ("jobTemplate", "suspend")}
        assert own == {key: value for key, value in job["spec"].items() if key != "jobTemplate"}
        assert (own["timeZone"], own["concurrencyPolicy"], own["startingDeadlineSeconds"]) == (
            "Etc/UTC",
            "Forbid",
            3600,
        )
        assert twin["jobTemplate"]["spec"]["backoffLimit"] == 0 and twin["suspend"] is False
        (ours,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        (theirs,) = twin["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        assert theirs["command"] == ["python", "-m"] and theirs["args"] == [*ours["command"], *ours["args"]]
        assert twin["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_without_a_clock_there_are_no_cron_jobs() -> None:
    done = template("--values", str(EXAMPLE / "values.yaml"), "--set-file", f"config={EXAMPLE / 'kfm.yml'}")
    assert done.returncode == 0 and not of(documents(done.stdout), "CronJob")


# -- mistakes


def _config(text: str) -> Callable[[dict[str, Any], str], str]:
    """Values as they are, and a kfm.yml in which one line is another."""
    key = text.partition(":")[0]

    def changed(values: dict[str, Any], config: str) -> str:
        lines = [text if line.startswith(f"{key}:") else line for line in config.splitlines()]
        assert text in lines, key
        return "\n".join(lines) + "\n"

    return changed


def _value(path: str, value: Any) -> Callable[[dict[str, Any], str], str]:
    def changed(values: dict[str, Any], config: str) -> str:
        *folders, last = path.split(".")
        place: Any = values
        for each in folders:
            place = place[int(each)] if each.isdigit() else place.setdefault(each, {})
        if value is None:
            del place[last]
        else:
            place[last] = value
        return config

    return changed


WRONG: dict[str, tuple[Callable[[dict[str, Any], str], str], str]] = {
    "a key that is none": (_value("worker", {}), "worker"),
    "a key that is none, deep": (_value("workers.pools.0.replica", 3), "replica"),
    "an image without a version": (_value("image", {"repository": "example.org/kfm"}), "image"),
    "the latest image": (_value("image", {"repository": "example.org/kfm", "tag": "latest"}), "image"),
    "half a digest": (_value("image.digest", "sha256:00"), "digest"),
    "no limits": (_value("workers.pools.0.resources.limits", None), "limits"),
    "no limit of memory": (_value("up.resources", {"limits": {"memory": None}}), "memory"),
    "a text for a number": (_value("workers.pools.0.concurrency", "four"), "concurrency"),
    "no pool": (_value("workers.pools", []), "pools"),
    "a pool twice": (_value("workers.pools.1.name", "public"), "public is there twice"),
    "a secret by value": (
        _value("secrets.env", [{"name": "KFM_SECRET_POSTGRES", "value": "hunter2hunter2"}]),
        "secrets/env/0",
    ),
    "a reference that no Secret answers": (_value("secrets.env", []), "secrets.env names no Secret for it"),
    "a file that no Secret answers": (_value("secrets.files", []), "secrets.files names no Secret for it"),
    "servers open to all": (_value("networkPolicy.dns.peers", []), "peers"),
    "a queue that nothing reaches": (_value("networkPolicy.redis.peers", []), "networkPolicy.redis.peers"),
    "a network that is none": (_value("networkPolicy.sources.cidrs", ["everywhere"]), "cidrs"),
    "less than the least": (_value("autoscaling", {"minReplicas": 20}), "minReplicas is more than maxReplicas"),
    "KEDA without Prometheus": (_value("autoscaling", {"kind": "keda"}), "serverAddress"),
    "an unknown autoscaler": (_value("autoscaling", {"kind": "magic"}), "kind"),
    "a file outside the installation": (_value("files", {"../etc/passwd": "x"}), "../etc/passwd"),
    "a state on a disk": (_config("state: sqlite:.kfm/state.db"), "pods share no disk"),
    "objects on a disk": (_config("objects: file:.kfm/objects"), "pods share no disk"),
    "public files on a disk": (_config("publish: file:public"), "pods share no disk"),
    "a password in an address": (_config("queue: redis://kfm:hunter2@redis.data.svc:6379/0"), "holds a password"),
    "kfm.yml that is no YAML": (_config("queue: [redis"), "not YAML"),
}


@pytest.mark.parametrize("name", sampled(sorted(WRONG), every=4))
def test_a_mistake_is_refused_with_its_place_and_without_a_secret(name: str, tmp_path: Path) -> None:
    values = yaml.safe_load((EXAMPLE / "values.yaml").read_text())
    change, said = WRONG[name]
    (tmp_path / "kfm.yml").write_text(change(values, (EXAMPLE / "kfm.yml").read_text()))
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    done = template(*given(tmp_path / "values.yaml", tmp_path / "kfm.yml"))
    assert done.returncode != 0 and done.stdout == ""
    assert said in done.stderr, done.stderr
    assert "hunter2@" not in done.stderr


def test_a_clock_that_kfm_did_not_write_is_refused(tmp_path: Path) -> None:
    clock = tmp_path / "clock.yml"
    for text in ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "just words", "a: [b\n"):
        clock.write_text(text)
        done = template(*given(clock=clock))
        assert done.returncode != 0 and "kfm runners write kubernetes" in done.stderr, done.stderr
