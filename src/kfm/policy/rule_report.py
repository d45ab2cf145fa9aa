"""Every rule that a question is held against, whether it holds, and what to do where it does not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from kfm.errors import Refused
from kfm.model.records import Record
from kfm.policy.policy_bundle import Policies
from kfm.policy.questions import Decision

PARTS = {
    "work": ("zone",),
    "processed": ("zone", "promotion"),
    "published": ("zone", "promotion", "faircare", "telemetry"),
}
_KFM_YML = "say it in kfm.yml, under datasets.{dataset}"
# By the rule, or by what its name begins with.
REMEDIES = {
    "asked.": "order it with --reason, and KFM_ACTOR or --actor",
    "metadata.title": _KFM_YML + ": title",
    "metadata.schema": _KFM_YML + ": sources: contract, and run it again",
    "metadata.extent": _KFM_YML + ": extent: bbox and interval",
    "metadata.sensitivity": _KFM_YML + ": sensitivity",
    "metadata.kept": "run it again as a whole under the label it has now; what was made before stays closed",
    "metadata.": "run it again: `kfm run {dataset}`",
    "licence.declared": _KFM_YML + ": license, an SPDX id or a URL",
    "licence.checked": "use a licence that lets everybody pass it on, or let somebody look whether this one does",
    "validation.contracts": "give every source a contract in kfm.yml, and `kfm run {dataset}`",
    "validation.": "look at `kfm quarantine {dataset}`, and mend the source",
    "provenance.": "run it again: `kfm run {dataset} --force --reason …`",
    "checksums.": "restore it from a backup, or make it again: `kfm run {dataset} --force --reason …`",
    "receipt.": "run it again: `kfm run {dataset} --force --reason …`",
    "fair.findable": _KFM_YML + ": title and description",
    "fair.accessible": "its label says that it is not for everybody: see `kfm labels show`",
    "fair.": _KFM_YML + ", and run it again",
    "care.consent": "ask the community: `kfm publish {dataset} --key …`, then `kfm review list`",
    "care.review": "ask a steward: `kfm publish {dataset} --key …`, then `kfm review list`",
    "care.": "ask whose data it is, and see `kfm labels show`",
    "telemetry.": "run it again: `kfm run {dataset} --force --reason …`",
    "zone.sealed": "name its custodian's key in kfm.yml, and run it again",
    "zone.usable": "what is closed is not used; see `kfm labels show`",
    "zone.": "see the other rules that do not hold",
    "own.": "ask who wrote the policies of this installation",
    "engine.": "look at the policy server that `policy.url` names",
}


class Explained(Record, frozen=True):
    """One rule. `holds` is `yes`, `no`, or `warn`: it does not hold, and stops nothing at this step."""

    gate: str
    rule: str
    holds: str
    asks: str
    remedy: str = ""


def explained(decision: Decision, to: str, dataset: str, policies: Policies) -> list[Explained]:
    """Of the whole checklist of a step; rules of other policies that said no stand behind it."""
    broken, warned = set(decision.rules), set(decision.warnings)
    found, seen = [], set()
    for part in PARTS[to]:
        for rule, text in sorted(rules_of(policies, part).items()):
            seen.add(rule)
            holds = "no" if rule in broken else "warn" if text in warned else "yes"
            remedy = remedy_for(rule, dataset) if holds != "yes" else ""
            found.append(Explained(gate=part, rule=rule, holds=holds, asks=text, remedy=remedy))
    for rule, reason in zip(decision.rules, decision.reasons, strict=True):
        if rule not in seen:
            gate = rule.partition(".")[0]
            found.append(Explained(gate=gate, rule=rule, holds="no", asks=reason, remedy=remedy_for(rule, dataset)))
    return found


def remedy_for(rule: str, dataset: str) -> str:
    for name, remedy in REMEDIES.items():
        if rule.startswith(name):
            return remedy.format(dataset=dataset)
    return "see policies/README.md"


def rules_of(policies: Policies, part: str) -> dict[str, str]:
    """What each rule of a policy asks for, in its own words."""
    found: dict[str, str] = json.loads(_engine(policies.files).eval_rule_as_json(f"data.kfm.{part}.rules"))
    return found


class Tested(Record, frozen=True):
    name: str
    ok: bool


def tested(policies: Policies, own: dict[str, str]) -> list[Tested]:
    """Every rule called test_… of an installation's own files, evaluated in this process."""
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
            found.append(Tested(name=path.removeprefix("data."), ok=ok))
    return found


def _engine(files: Iterable[tuple[str, str]]) -> Any:
    try:
        import regorus
    except ImportError:
        raise Refused("the policy engine is not installed", hint="install kfm with all it needs") from None
    engine = regorus.Engine()
    try:
        for name, text in files:
            engine.add_policy(name, text)
    except (RuntimeError, ValueError):
        raise Refused("a policy cannot be read", hint="`opa check --strict` says where") from None
    return engine
