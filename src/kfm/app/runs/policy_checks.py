"""`kfm policy` and `kfm policy gates`: show an operator how the gates of a run would decide. Nothing is changed."""

from __future__ import annotations

import os
import subprocess
from typing import Any, Literal

import msgspec

from kfm.app.authority.classification import declared_settings
from kfm.app.authority.gates import Gates, policies_of
from kfm.app.metadata.catalog_gate import faults, rules_required
from kfm.app.runs.trigger_request import default_actor
from kfm.app.session.session import Session
from kfm.config import Resolved
from kfm.engine.zone_gates import BESIDE
from kfm.errors import BadInput, Denied, Refused, Sovereignty
from kfm.model import refs
from kfm.model.records import Decision, RefMove
from kfm.model.zone_requests import Asking, StepUp
from kfm.policy.checksums import intact_checksums
from kfm.policy.policy_bundle import SHIPPED, bundle, read_files
from kfm.policy.question_builder import VersionFacts, to_published
from kfm.policy.rule_report import PolicyTest as PolicyTest
from kfm.policy.rule_report import RuleResult as RuleResult
from kfm.policy.rule_report import rule_results, run_tests

To = Literal["processed", "published"]
THEIRS = ("care.", "zone.sealed", "zone.usable", "fair.accessible")


def gates_of(session: Session, dataset: str) -> Gates:
    return Gates(session.resolved, dataset, declared_settings(session, dataset).metadata, session)


def ask_all(session: Session, dataset: str, to: To, version: str = "") -> list[Decision]:
    """Return the decision of every gate up to this zone, about a version or the one that is processed now. Refused if
    the dataset has none."""
    digest = version or session.state.refs.at(refs.processed(dataset))
    made = session.state.ledger.version(dataset, digest) if digest else None
    run = session.state.runs.get(made.validated_by or made.run_id) if made is not None else None
    if made is None or run is None:
        raise Refused(f"{dataset} has no processed version", hint=f"run it first: `kfm run {dataset}`")
    gates, asking = gates_of(session, dataset), _question(session)
    steps = [
        StepUp(to="work", subject=run.input_hash, asking=asking, run=run, inputs=run.inputs),
        StepUp(to="processed", subject=digest, asking=asking, run=run, inputs=run.inputs, version=made),
    ]
    found = [gates.step(step) for step in steps]
    if to == "published":
        move = RefMove(ref=refs.published(dataset), before=session.state.refs.at(refs.published(dataset)), after=digest)
        found.append(gates.published(session.state, session.objects, move, asking=asking))
    return found


def bundle_of(resolved: Resolved) -> tuple[str, bytes]:
    """Return the digest of the policies in force, and the bundle of them for an OPA server."""
    given = policies_of(resolved)
    return given.digest, bundle(given)


def exit_code(decisions: list[Decision]) -> int:
    """Return the exit code that a run would end with. A rule of the data's owners decides before the others."""
    broken = [rule for decision in decisions if decision.allow is not True for rule in decision.rules]
    if any(rule.startswith(THEIRS) for rule in broken):
        return Sovereignty.exit_code
    return Denied.exit_code if any(decision.allow is not True for decision in decisions) else 0


def explain(session: Session, dataset: str) -> list[RuleResult]:
    """Return the result of every rule between Processed and Published, for the version that is processed now."""
    digest = session.state.refs.at(refs.processed(dataset))
    version = session.state.ledger.version(dataset, digest) if digest else None
    if version is None:
        raise Refused(f"{dataset} has no processed version", hint=f"run it first: `kfm run {dataset}`")
    gates, asking, ledger = gates_of(session, dataset), _question(session), session.state.ledger
    held_by = session.state.runs.get(version.validated_by or version.run_id)
    known = VersionFacts(version, ledger.receipt(version.run_id), held_by, ledger.telemetry(version.run_id))
    question = to_published(
        known,
        declared_settings(session, dataset).metadata,
        asking,
        intact_checksums(version),
        gates.evidence(asking.when_ms, digest),
    )
    decision = gates.decider().decide(question)
    found = rule_results(decision, "published", dataset, policies_of(session.resolved))
    move = RefMove(ref=refs.published(dataset), before=session.state.refs.at(refs.published(dataset)), after=digest)
    broken = {fault.rule: fault.reason for fault in reversed(faults(session, move, asking.when_ms))}
    return found + [
        _other_rule(rule, asks, broken.get(rule, ""), dataset) for rule, asks in rules_required(session).items()
    ]


def _other_rule(rule: str, asks: str, fault: str, dataset: str) -> RuleResult:
    """Return the result of a rule that is no policy, but a check of the graph or the catalog."""
    gate = rule.partition(".")[0]
    if not fault:
        return RuleResult(gate=gate, rule=rule, holds="yes", asks=asks)
    remedy = next(words for begins, words in BESIDE.items() if rule.startswith(begins))
    return RuleResult(gate=gate, rule=rule, holds="no", asks=fault, remedy=remedy.format(dataset=dataset))


def check_file(resolved: Resolved, path: str) -> Decision:
    """Return the decision on a question in a JSON file. BadInput if the file holds none."""
    try:
        with open(path, "rb") as file:
            question: Any = msgspec.json.decode(file.read(1 << 21))
    except OSError as problem:
        reason = (problem.strerror or "").lower()
        raise BadInput(f"the question cannot be read: {reason}", hint="name a JSON file, or a dataset") from None
    except (msgspec.DecodeError, RecursionError):
        raise BadInput("the question is not JSON", hint="policies/README.md describes the question") from None
    if not isinstance(question, dict):
        raise BadInput("the question is not a JSON object", hint="policies/README.md describes the question")
    decision = Gates(resolved, "", {}).decider().decide(question)
    return decision.recorded()


def policies_in_force(resolved: Resolved) -> dict[str, Any]:
    """Return which policies decide and by which engine. The policies are compiled, so a mistake in one raises Denied
    here."""
    policies = policies_of(resolved)
    gates = Gates(resolved, "", {})
    decision = gates.decider().decide({"gate": "zone", "subjects": ["sha256:" + "0" * 64]})
    broken = [rule for rule in decision.rules if rule.startswith(("engine.", "question."))]
    if broken:
        raise Denied("; ".join(decision.reasons), hint="look at `policy:` in kfm.yml, and at the server it names")
    own = [name.removeprefix("own/") for name, _ in policies.files if name.startswith("own/")]
    return {"policy_digest": policies.digest, "engine": decision.engine, "own": own}


def own_tests(resolved: Resolved) -> tuple[str, list[PolicyTest]]:
    """Run the tests next to the installation's own policies: with `opa` if it is installed, else in this process.
    Return the engine and the results."""
    import shutil

    folder = resolved.config.policy.folder
    if not folder:
        raise Refused("this installation has no policies of its own", hint="name their folder: `policy: {folder: …}`")
    policies = policies_of(resolved)
    own = read_files(resolved.at(folder), tests=True)
    opa = shutil.which("opa")
    if opa is None:
        return "embedded", run_tests(policies, own)
    command = [opa, "test", "--format=json", SHIPPED, resolved.at(folder)]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    try:
        said = msgspec.json.decode(done.stdout or b"[]", type=list[dict[str, Any]])
    except msgspec.DecodeError:
        raise Refused("opa cannot read the policies", hint=f"`opa check --strict {folder}` says why") from None
    found = [
        PolicyTest(name=f"{str(one['package']).removeprefix('data.')}.{one['name']}", ok=not one.get("fail"))
        for one in said
    ]
    if done.returncode and all(one.ok for one in found):
        raise Refused("opa cannot read the policies", hint=f"`opa check --strict {folder}` says why")
    return "opa", found


def is_file(text: str) -> bool:
    return text.endswith(".json") or os.path.isfile(text)


def _question(session: Session) -> Asking:
    return Asking(who=default_actor(), what="look", when_ms=session.clock.now_ms(), why="to see whether it may")
