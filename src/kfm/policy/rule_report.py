"""List every rule that a question is checked against, whether it holds, and the cure where it does not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from kfm.errors import Refused
from kfm.model.records import Record
from kfm.policy.policy_bundle import Policies
from kfm.policy.questions import PolicyDecision

PARTS = {
    "work": ("zone",),
    "processed": ("zone", "promotion"),
    "published": ("zone", "promotion", "faircare", "telemetry"),
}
_KFM_YML = "declare it in kfm.yml, under datasets.{dataset}"
# By rule, or by the start of its name.
REMEDIES = {
    "asked.": "give --reason, and KFM_ACTOR or --actor",
    "metadata.title": _KFM_YML + ": title",
    "metadata.schema": _KFM_YML + ": sources: contract, and run it again",
    "metadata.extent": _KFM_YML + ": extent: bbox and interval",
    "metadata.sensitivity": _KFM_YML + ": sensitivity",
    "metadata.kept": "these bytes stay closed, however often they are built; other bytes get today's sensitivity",
    "metadata.": "run it again: `kfm run {dataset}`",
    "licence.declared": _KFM_YML + ": license, an SPDX expression such as CC0-1.0",
    "licence.known": _KFM_YML + ": license; `kfm config check` names the nearest SPDX id",
    "licence.checked": "use a licence that lets everyone pass the data on, or have a person check this one",
    "validation.contracts": "give every source a contract in kfm.yml, and `kfm run {dataset}`",
    "validation.columns": "name the columns, or the variables and crs, of each contract, and `kfm run {dataset}`",
    "validation.": "see `kfm quarantine {dataset}`, and fix the source",
    "provenance.attested": "sign it: `kfm attest {dataset}`",
    "provenance.": "run it again: `kfm run {dataset} --force --reason …`",
    "checksums.": "restore it from a backup, or build it again: `kfm run {dataset} --force --reason …`",
    "receipt.": "run it again: `kfm run {dataset} --force --reason …`",
    "fair.findable": _KFM_YML + ": title and description",
    "fair.accessible": "its label does not allow everyone: see `kfm labels show`",
    "fair.": _KFM_YML + ", and run it again",
    "care.consent": "ask the community: `kfm publish {dataset} --key … --reason …`, then `kfm review list`",
    "care.review": "ask a steward: `kfm publish {dataset} --key … --reason …`, then `kfm review list`",
    "care.": "ask whose data it is, and see `kfm labels show`",
    "telemetry.": "run it again: `kfm run {dataset} --force --reason …`",
    "zone.sealed": "name its custodian's key in kfm.yml, and run it again",
    "zone.usable": "closed data are not used; see `kfm labels show`",
    "zone.": "see the other rules that do not hold",
    "own.": "ask the author of this installation's policies",
    "engine.": "check the policy server at `policy.url`",
}


class RuleResult(Record, frozen=True):
    """One rule. `holds` is `yes`, `no`, or `warn`: the rule does not hold, but does not stop this step."""

    gate: str
    rule: str
    holds: str
    asks: str
    remedy: str = ""


def rule_results(decision: PolicyDecision, to: str, dataset: str, policies: Policies) -> list[RuleResult]:
    """Return the whole checklist of a step, followed by rules of other policies that denied."""
    broken, warned = set(decision.rules), set(decision.warnings)
    found, seen = [], set()
    for part in PARTS[to]:
        for rule, text in sorted(rules_of(policies, part).items()):
            seen.add(rule)
            holds = "no" if rule in broken else "warn" if text in warned else "yes"
            remedy = remedy_for(rule, dataset) if holds != "yes" else ""
            found.append(RuleResult(gate=part, rule=rule, holds=holds, asks=text, remedy=remedy))
    for rule, reason in zip(decision.rules, decision.reasons, strict=True):
        if rule not in seen:
            gate = rule.partition(".")[0]
            found.append(RuleResult(gate=gate, rule=rule, holds="no", asks=reason, remedy=remedy_for(rule, dataset)))
    return found


def remedy_for(rule: str, dataset: str) -> str:
    for name, remedy in REMEDIES.items():
        if rule.startswith(name):
            return remedy.format(dataset=dataset)
    return "see policies/README.md"


def rules_of(policies: Policies, part: str) -> dict[str, str]:
    """Return the text of each rule of a policy."""
    found: dict[str, str] = json.loads(_engine(policies.files).eval_rule_as_json(f"data.kfm.{part}.rules"))
    return found


class PolicyTest(Record, frozen=True):
    name: str
    ok: bool


def run_tests(policies: Policies, own: dict[str, str]) -> list[PolicyTest]:
    """Run every rule named test_… of an installation's own files with the embedded engine."""
    engine = _engine([*policies.files, *((f"own/{name}", own[name]) for name in own if name.endswith("_test.rego"))])
    engine.add_data_json(policies.data)
    found = []
    for text in own.values():
        package = re.search(r"^package[ \t]+([\w.]+)", text, re.MULTILINE)
        for name in dict.fromkeys(re.findall(r"^(test_\w+)\b", text, re.MULTILINE)):
            path = f"data.{package.group(1) if package else 'main'}.{name}"
            try:
                ok = json.loads(engine.eval_rule_as_json(path)) is True
            except (RuntimeError, ValueError):
                ok = False
            found.append(PolicyTest(name=path.removeprefix("data."), ok=ok))
    return found


def _engine(files: Iterable[tuple[str, str]]) -> Any:
    try:
        import regorus
    except ImportError:
        raise Refused("the policy engine is not installed", hint="install kfm with its dependencies") from None
    engine = regorus.Engine()
    try:
        for name, text in files:
            engine.add_policy(name, text)
    except (RuntimeError, ValueError):
        raise Refused("a policy cannot be parsed", hint="run `opa check --strict` to see where") from None
    return engine
