"""No manifest lets a pod be root, write to its root, go without limits or hold a secret's value; each rule can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.abilities import lacking
from tests.deploy.manifest_policy import mistakes, pod_of
from tests.deploy.manifests import MANIFESTS, documents, given, template
from tests.deploy.test_chart import copied
from tests.policy.tools import Absent, built
from tests.sampling import sampled


def test_the_manifests_keep_every_rule() -> None:
    found = [each for file in sorted(MANIFESTS.iterdir()) for each in documents(file.read_text())]
    assert len([each for each in found if pod_of(each) is not None]) == 6
    assert mistakes(found) == []


PODS = "_pods.tpl"
BROKEN: dict[str, tuple[str, str, str, str]] = {  # file, text, what stands there instead, what is said
    "root": (PODS, "runAsNonRoot: true\n  runAsUser: 10001", "runAsUser: 0", "may be root"),
    "no user": (PODS, "  runAsUser: 10001\n", "", "may be root"),
    "a root container": (PODS, "  runAsNonRoot: true\n  capabilities", "  runAsUser: 0\n  capabilities", "root"),
    "no seccomp": (PODS, "seccompProfile: {type: RuntimeDefault}", "supplementalGroups: []", "seccomp"),
    "a root that can be written": (PODS, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "its root"),
    "privileges": (PODS, "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "gain privileges"),
    "capabilities": (PODS, "capabilities: {drop: [ALL]}", "capabilities: {drop: [KILL]}", "capabilities"),
    "a token": (
        PODS, "automountServiceAccountToken: {{ $root.Values.serviceAccount.workloadIdentity }}",
        "automountServiceAccountToken: true", "token",
    ),
    "the network of the host": (PODS, "enableServiceLinks: false", "hostNetwork: true", "hostNetwork"),
    "variables of services": (PODS, "enableServiceLinks: false", "", "variables of services"),
    "no time to drain": (PODS, "terminationGracePeriodSeconds: {{ .drainSeconds | default 60 }}", "", "drain"),
    "a folder of the host": (
        PODS, "emptyDir: {sizeLimit: {{ $root.Values.scratch.size | quote }}}", "hostPath: {path: /tmp}", "hostPath"
    ),
    "a folder without a limit": (
        PODS, "emptyDir: {sizeLimit: {{ $root.Values.scratch.size | quote }}}", "emptyDir: {}", "without a limit"
    ),
    "no limits": (PODS, "{{- toYaml .resources | nindent 6 }}", "{}", "lacks limits"),
    "the latest image": (
        PODS, "{{ .Values.image.repository }}@{{ .Values.image.digest }}", "{{ .Values.image.repository }}:latest",
        "without a version",
    ),
    "a secret's value": (
        PODS, "valueFrom: {secretKeyRef: {name: {{ .secret | quote }}, key: {{ .key | quote }}}}", "value: hunter2",
        "value of a secret",
    ),
    "files open to everyone": (PODS, "defaultMode: 0440", "defaultMode: 0444", "to everyone"),
    "a mount to write": (PODS, "subPath: kfm.yml, readOnly: true}", "subPath: kfm.yml}", "to write"),
    "a password in the arguments": (
        "up.yaml", '(list "kfm" "--no-color" "up")', '(list "kfm" "redis://u:p@h/0")', "in its arguments"
    ),
    "a secret of the chart": ("config.yaml", "kind: ConfigMap", "kind: Secret", "a secret of the chart"),
    "a password in the configuration": (
        "config.yaml", "kfm.yml: {{ .Values.config | quote }}", "kfm.yml: 'redis: {password: hunter2}'", "no reference"
    ),
    "an open network": ("network.yaml", "policyTypes: [Ingress, Egress]", "policyTypes: [Egress]", "closes its"),
    "a rule for all": (
        "network.yaml", "    - from:\n        {{- toYaml $said.metrics.from | nindent 8 }}\n      ports:",
        "    - ports:", "open to all",
    ),
    "no budget": ("up.yaml", "kind: PodDisruptionBudget", "kind: ConfigMap", "no disruption budget"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(sorted(BROKEN), every=4))
def test_a_broken_chart_is_found(name: str, tmp_path: Path) -> None:
    try:
        built("helm")
    except Absent as problem:
        lacking(str(problem))
    file, old, new, said = BROKEN[name]
    chart = copied(tmp_path)
    path = chart / "templates" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    done = template(*given(), chart=chart)
    assert done.returncode == 0, done.stderr
    found = mistakes(documents(done.stdout))
    assert [each for each in found if said in each], found
