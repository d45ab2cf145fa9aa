"""Files for other runners: Kubernetes itself, Argo Workflows and Tekton on it, systemd, cron. Pure.

They are thin: each starts `kfm up --once` over the one state, which decides what is due. They forbid overlapping
starts, but KFM does not rely on that. Secrets appear as references only.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from kfm.model.records import Record
from kfm.projections.yaml_dump import yaml

_ID = 10001  # user and group id in a container that no other user has
_RESOURCES = {
    "requests": {"cpu": "250m", "memory": "512Mi", "ephemeral-storage": "1Gi"},
    "limits": {"cpu": "2", "memory": "2Gi", "ephemeral-storage": "8Gi"},
}
_SMALL = {
    "requests": {"cpu": "10m", "memory": "16Mi", "ephemeral-storage": "1Mi"},
    "limits": {"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "16Mi"},
}
SECRETS = "/run/kfm/secrets"
_MOUNTED = "/run/kfm/mounted"
_WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


class RunnerSite(Record, frozen=True):
    """Where an installation runs, and what it needs there."""

    image: str
    kubectl_image: str
    folder: str
    program: str
    user: str
    environment_file: str
    namespace: str
    service_account: str
    claim: str
    secret: str
    kept: tuple[str, ...]  # folders that outlive a run; a relative one is below `folder`
    variables: tuple[str, ...]  # variables that hold secrets
    secret_files: tuple[str, ...] = ()  # names of files in SECRETS, as keys of the Kubernetes secret

    def at(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.folder, path))


def _said(kind: str) -> str:
    return f"# Written by `kfm runners write {kind}`; `kfm runners check` says whether it is current.\n"


def argo(place: RunnerSite, crons: Sequence[str]) -> str:
    """Return a workflow template, which can also run one dataset by hand, and a cron workflow that runs what is due."""
    run = ["run", "--", "{{inputs.parameters.dataset}}"]
    template = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "WorkflowTemplate",
        "metadata": _metadata(place),
        "spec": {
            "entrypoint": "up",
            "serviceAccountName": place.service_account,
            "securityContext": _pod_security(),
            "synchronization": {"mutexes": [{"name": "kfm"}]},
            "volumes": _volumes(place),
            "templates": [
                {"name": "up", "container": _container(place, ["up", "--once"])},
                {
                    "name": "run",
                    "inputs": {"parameters": [{"name": "dataset"}]},
                    "container": _container(place, run),
                },
            ],
        },
    }
    clock = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": _metadata(place),
        "spec": {
            "schedules": list(crons),
            "timezone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 3600,
            "workflowSpec": {"workflowTemplateRef": {"name": "kfm"}},
        },
    }
    return _said("argo") + "---\n".join(map(yaml, (template, clock)))


def tekton(place: RunnerSite, crons: Sequence[str]) -> str:
    """Return a task, and Kubernetes cron jobs that start it, because Tekton has no clock."""
    task = {
        "apiVersion": "tekton.dev/v1",
        "kind": "Task",
        "metadata": _metadata(place),
        "spec": {
            "params": [{"name": "words", "type": "array", "default": ["up", "--once"]}],
            "steps": [{"name": "kfm", **_container(place, ["$(params.words[*])"])}],
            "volumes": _volumes(place),
        },
    }
    run = {
        "apiVersion": "tekton.dev/v1",
        "kind": "TaskRun",
        "metadata": {"generateName": "kfm-", "namespace": place.namespace},
        "spec": {
            "taskRef": {"name": "kfm"},
            "serviceAccountName": place.service_account,
            "podTemplate": {"securityContext": _pod_security()},
        },
    }
    starter = {**_metadata(place), "name": "kfm-starter"}
    documents: list[dict[str, Any]] = [
        task,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": starter, "data": {"taskrun.yml": yaml(run)}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": starter},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": starter,
            "rules": [{"apiGroups": ["tekton.dev"], "resources": ["taskruns"], "verbs": ["create"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": starter,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "kfm-starter"},
            "subjects": [{"kind": "ServiceAccount", "name": "kfm-starter", "namespace": place.namespace}],
        },
        *(_cron_job(place, cron, number, _starter(place), backoff=2) for number, cron in enumerate(crons, 1)),
    ]
    return _said("tekton") + "---\n".join(map(yaml, documents))


def kubernetes(place: RunnerSite, crons: Sequence[str]) -> str:
    """Return a cron job of Kubernetes for each line of cron. None of them tries again: the next one continues a run
    that was killed, and what is pending stays in the inbox."""
    pod = {
        "serviceAccountName": place.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # a service called kfm-… would become a variable that is no setting
        "restartPolicy": "Never",
        "securityContext": _pod_security(),
        "containers": [{"name": "kfm", **_container(place, ["up", "--once"]), "resources": _RESOURCES}],
        "volumes": _volumes(place),
    }
    if place.secret_files:
        _add_secret_files(place, pod)
    jobs = (_cron_job(place, cron, number, pod, backoff=0) for number, cron in enumerate(crons, 1))
    return _said("kubernetes") + "---\n".join(map(yaml, jobs))


def _add_secret_files(place: RunnerSite, pod: dict[str, Any]) -> None:
    """Give the pod copies of the secrets that are its own: Kubernetes opens the files that it mounts to a group, and
    KFM takes none that others can read."""
    kept = {"name": "secrets", "mountPath": SECRETS}
    pod["containers"][0]["volumeMounts"].append({**kept, "readOnly": True})
    pod["initContainers"] = [
        {
            "name": "secrets",
            "image": place.image,
            "command": ["install", "--mode=0400", f"--target-directory={SECRETS}"],
            "args": [f"{_MOUNTED}/{name}" for name in place.secret_files],
            "securityContext": _security(),
            "resources": _SMALL,
            "volumeMounts": [{"name": "mounted", "mountPath": _MOUNTED, "readOnly": True}, kept],
        }
    ]
    items = [{"key": name, "path": name} for name in place.secret_files]
    pod["volumes"] += [
        {"name": "secrets", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "mounted", "secret": {"secretName": place.secret, "defaultMode": 0o440, "items": items}},
    ]


def _starter(place: RunnerSite) -> dict[str, Any]:
    """Return the pod that creates a task run of Tekton."""
    container = {
        "name": "start",
        "image": place.kubectl_image,
        "command": ["kubectl", "create", "-f", "/kfm-starter/taskrun.yml"],
        "securityContext": _security(),
        "volumeMounts": [{"name": "starter", "mountPath": "/kfm-starter", "readOnly": True}],
    }
    return {
        "serviceAccountName": "kfm-starter",
        "restartPolicy": "Never",
        "securityContext": _pod_security(),
        "containers": [container],
        "volumes": [{"name": "starter", "configMap": {"name": "kfm-starter"}}],
    }


def _cron_job(place: RunnerSite, cron: str, number: int, pod: dict[str, Any], *, backoff: int) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {**_metadata(place), "name": f"kfm-{number}"},
        "spec": {
            "schedule": cron,
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 3600,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {"spec": {"backoffLimit": backoff, "template": {"spec": pod}}},
        },
    }


def _metadata(place: RunnerSite) -> dict[str, Any]:
    return {"name": "kfm", "namespace": place.namespace}


def _container(place: RunnerSite, words: list[str]) -> dict[str, Any]:
    """Return a container that can write only to the folders that are kept."""
    env: list[dict[str, Any]] = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": place.secret, "key": name}}} for name in place.variables
    ]
    kept = [{"name": "state", "mountPath": place.at(path), "subPath": path.strip("/")} for path in place.kept]
    if not kept:  # everything is in servers: the private folder is only for what a run lays down for itself
        kept = [{"name": "scratch", "mountPath": place.at(".kfm"), "subPath": "private"}]
    return {
        "image": place.image,
        "command": ["kfm"],
        "args": words,
        "workingDir": place.folder,
        "env": [
            {"name": "HOME", "value": "/tmp"},  # noqa: S108 of the container
            {"name": "KFM_WORKER_IMAGE", "value": place.image},  # for the receipts of workers
            *env,
        ],
        "securityContext": _security(),
        "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}, *kept],  # noqa: S108 of the container
    }


def _volumes(place: RunnerSite) -> list[dict[str, Any]]:
    claim = [{"name": "state", "persistentVolumeClaim": {"claimName": place.claim}}] if place.kept else []
    return [{"name": "scratch", "emptyDir": {}}, *claim]


def _security() -> dict[str, Any]:
    return {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def _pod_security() -> dict[str, Any]:
    ids = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), _ID)
    return {"runAsNonRoot": True, **ids, "seccompProfile": {"type": "RuntimeDefault"}}


def systemd_service(place: RunnerSite) -> str:
    secrets = [f"EnvironmentFile={place.environment_file}"] if place.variables else []
    return _said("systemd") + _unit(
        [
            "[Unit]",
            "Description=KFM does what is due",
            "Wants=network-online.target",
            "After=network-online.target",
            "",
            "[Service]",
            "Type=oneshot",
            f"User={place.user}",
            f"WorkingDirectory={place.folder}",
            *secrets,
            f"ExecStart={place.program} --no-color up --once",
            "TimeoutStartSec=infinity",
            "NoNewPrivileges=yes",
            "PrivateTmp=yes",
            "ProtectSystem=strict",
            f"ReadWritePaths={place.folder}",
            *(f"ReadWritePaths={path}" for path in place.kept if path.startswith("/")),
        ]
    )


def systemd_timer(calendars: Sequence[str]) -> str:
    return _said("systemd") + _unit(
        [
            "[Unit]",
            "Description=When KFM looks what is due",
            "",
            "[Timer]",
            *(f"OnCalendar={each}" for each in calendars),
            "AccuracySec=1s",
            "Persistent=yes",
            "",
            "[Install]",
            "WantedBy=timers.target",
        ]
    )


def calendar(minutes: Sequence[int], hours: Sequence[int], days: str, months: str, weekdays: Sequence[int]) -> str:
    """Return a cron line as a systemd calendar expression; `days` and `months` are comma-separated lists or *."""
    named = ",".join(_WEEKDAYS[each] for each in weekdays) + " " if len(weekdays) < 7 else ""
    hour, minute = (_times(said, most) for said, most in ((hours, 24), (minutes, 60)))
    return f"{named}*-{months}-{days} {hour}:{minute}:00 UTC"


def _times(said: Sequence[int], most: int) -> str:
    return "*" if len(said) == most else ",".join(f"{each:02}" for each in said)


def _unit(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def cron(place: RunnerSite, crons: Sequence[str]) -> str:
    """Return a file for /etc/cron.d, where the sixth field is the user. Cron uses the time zone of the machine."""
    secrets = f"set -a; . {place.environment_file}; set +a; " if place.variables else ""
    command = f"{secrets}cd {place.folder} && {place.program} --quiet up --once"
    return _said("cron") + "SHELL=/bin/sh\n" + "".join(f"{when} {place.user} {command}\n" for when in crons)
