"""What may not be in a manifest, read here again without the chart: who a pod is, what it may write and reach, and
where a secret may stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_PASSWORD = re.compile(r"://[^/\s:@\"']+:[^/\s@\"']+@|-----BEGIN [A-Z ]*PRIVATE KEY-----")
_SECRET_KEY = re.compile(r"\b(?:password|secret|secret_key|access_key|token|sign_with)\"?:\s*([^\s,{}]+)")
_REFERENCE = re.compile(r"""[\["']*(?:env:[A-Za-z_]\w*|file:/\S+|[a-z]+:\S+)[\]"']*$""")
_NEEDED = {"cpu", "memory", "ephemeral-storage"}


def pod_of(document: dict[str, Any]) -> dict[str, Any] | None:
    """The spec of the pods that a manifest makes, if it makes any."""
    spec = document.get("spec", {})
    if document["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    pod: dict[str, Any] | None = spec.get("template", {}).get("spec") if document["kind"] != "Pod" else spec
    return pod


def labels_of(document: dict[str, Any]) -> dict[str, str]:
    spec = document["spec"]["jobTemplate"]["spec"] if document["kind"] == "CronJob" else document["spec"]
    labels: dict[str, str] = spec["template"]["metadata"]["labels"]
    return labels


def mistakes(documents: list[dict[str, Any]]) -> list[str]:
    """Everything that is wrong, each with its manifest."""
    found = [f"{each['kind']} {each['metadata']['name']}: {what}" for each in documents for what in _of(each)]
    return found + list(_together(documents))


def _of(document: dict[str, Any]) -> Iterator[str]:
    if document["kind"] == "Secret":
        yield "a secret of the chart"
    if document["kind"] == "ConfigMap":
        yield from _open_values(document.get("data", {}))
    pod = pod_of(document)
    if pod is not None:
        yield from _of_pod(pod, has_identity=False)


def _open_values(data: dict[str, str]) -> Iterator[str]:
    for name, text in data.items():
        if _PASSWORD.search(text):
            yield f"{name} holds a password"
        if not all(_REFERENCE.match(value) for value in _SECRET_KEY.findall(text)):
            yield f"{name} holds a secret that is no reference"


def _of_pod(pod: dict[str, Any], *, has_identity: bool) -> Iterator[str]:
    said = pod.get("securityContext", {})
    if said.get("runAsNonRoot") is not True or not said.get("runAsUser") or not said.get("runAsGroup"):
        yield "may be root"
    if said.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "has no seccomp profile"
    if pod.get("automountServiceAccountToken") is not has_identity:
        yield "has a token of its service account"
    if pod.get("enableServiceLinks") is not False:
        yield "gets variables of services"
    for word in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(word):
            yield f"has {word}"
    if not pod.get("terminationGracePeriodSeconds"):
        yield "has no time to drain"
    for volume in pod.get("volumes", []):
        kind = next(key for key in volume if key != "name")
        if kind not in ("emptyDir", "configMap", "projected", "secret"):
            yield f"mounts {kind}"
        if kind == "emptyDir" and not volume["emptyDir"].get("sizeLimit"):
            yield f"has a folder without a limit: {volume['name']}"
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        yield from _of_container(container, {each["name"]: each for each in pod.get("volumes", [])})


def _of_container(container: dict[str, Any], volumes: dict[str, Any]) -> Iterator[str]:
    said = container.get("securityContext", {})
    if said.get("readOnlyRootFilesystem") is not True:
        yield "can write to its root"
    if said.get("allowPrivilegeEscalation") is not False or said.get("privileged"):
        yield "may gain privileges"
    if said.get("runAsNonRoot") is False or said.get("runAsUser") == 0:
        yield "may be root"
    if said.get("capabilities") != {"drop": ["ALL"]}:
        yield "has capabilities"
    for kind in ("requests", "limits"):
        if _NEEDED - set(container.get("resources", {}).get(kind, {})):
            yield f"lacks {kind}"
    image = container["image"]
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    if "@sha256:" not in image and tag in ("", "latest"):
        yield "has an image without a version"
    for each in container.get("env", []):
        is_secret = re.search(r"SECRET|PASSWORD|TOKEN|KEY", each["name"])
        if is_secret and "secretKeyRef" not in each.get("valueFrom", {}):
            yield f"has the value of a secret: {each['name']}"
    if _PASSWORD.search(" ".join(container.get("args", []))):
        yield "has a secret in its arguments"
    for mount in container.get("volumeMounts", []):
        source = volumes[mount["name"]]
        mode = source.get("projected", source.get("secret", {})).get("defaultMode", 0)
        if mode & 0o007:
            yield f"opens {mount['name']} to everyone"
        if ("configMap" in source or "projected" in source or "secret" in source) and not mount.get("readOnly"):
            yield f"mounts {mount['name']} to write"


def _together(documents: list[dict[str, Any]]) -> Iterator[str]:
    policies = [each["spec"] for each in documents if each["kind"] == "NetworkPolicy"]
    budgets = [each["spec"]["selector"]["matchLabels"] for each in documents if each["kind"] == "PodDisruptionBudget"]
    closed = [
        each["podSelector"]["matchLabels"]
        for each in policies
        if set(each["policyTypes"]) == {"Ingress", "Egress"} and not each.get("egress") and not each.get("ingress")
    ]
    for each in policies:
        for rule in [*each.get("egress", []), *each.get("ingress", [])]:
            if not (rule.get("to") or rule.get("from")) or not rule.get("ports"):
                yield "NetworkPolicy: a rule is open to all"
    for document in documents:
        if pod_of(document) is None:
            continue
        labels = labels_of(document).items()
        where = f"{document['kind']} {document['metadata']['name']}"
        if not any(one.items() <= labels for one in closed):
            yield f"{where}: no policy closes its network"
        if document["kind"] == "Deployment" and not any(one.items() <= labels for one in budgets):
            yield f"{where}: no disruption budget"
