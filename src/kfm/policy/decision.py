"""The one decision point: may this be done, and under which obligations? Any doubt is a no, with its reason.

Asked before the commit transaction, so that an engine that is slow or down makes nobody wait at the lock; in the
transaction only digests, policy digest and label epoch are compared again. An answer counts only if it is a literal
true, about exactly the digests asked for, under exactly these policies, to exactly this question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kfm.policy.policy_bundle import Policies, shipped
from kfm.policy.questions import GATES, Decision, Question, Reason, Verdict, encoded, verdict_from
from kfm.policy.rego_engines import Embedded, Engine, Opa, Unanswered

MAX_QUESTION = 1 << 20


class Decider:
    def __init__(self, engine: Engine, policies: Policies) -> None:
        self._engine = engine
        self._policies = policies

    @property
    def policy_digest(self) -> str:
        return self._policies.digest

    def decide(self, question: Question | Mapping[str, Any]) -> Decision:
        """Never raises for what is wrong with a question or an engine: that is a no."""
        try:
            asked = question if isinstance(question, Question) else msgspec.convert(question, Question)
            body = encoded(asked)
        except (msgspec.ValidationError, msgspec.DecodeError, TypeError, ValueError, RecursionError):
            return self._no(question, "question.malformed", "question: a field is missing or is of another type")
        if len(body) > MAX_QUESTION:
            return self._no(question, "question.large", "question: it is too large")
        echo = hashlib.sha256(body).hexdigest()
        told = body[:-1] + b',"question":"' + echo.encode() + b'"}'
        decision = self._asked(asked, asked.gate, told, echo)
        if decision.allow is True and self._policies.has_own:
            own = self._asked(asked, "own", told, echo)
            if own.allow is not True:
                return own
            return msgspec.structs.replace(decision, warnings=[*decision.warnings, *own.warnings])
        return decision

    def _asked(self, asked: Question, gate: str, body: bytes, echo: str) -> Decision:
        try:
            answer = self._engine.ask(gate, body)
        except Unanswered as problem:
            return self._no(asked, "engine.unanswered", f"engine: {problem.reason}")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            # Not Exception: a panic in the engine is not one, and no way it can fail may pass for a yes.
            return self._no(asked, "engine.failed", "engine: it failed")
        try:
            verdict = verdict_from(answer)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError):
            return self._no(asked, "engine.odd", "engine: it gave no verdict, or an odd one")
        return self._weighed(asked, verdict, echo)

    def _weighed(self, asked: Question, verdict: Verdict, echo: str) -> Decision:
        if verdict.policy != self._policies.digest:
            return self._no(asked, "engine.stale", "engine: it answers under other policies")
        if verdict.question != echo or verdict.subjects != asked.subjects:
            return self._no(asked, "engine.other", "engine: it answers another question")
        if verdict.allow is not True and not verdict.deny:
            return self._no(asked, "engine.silent", "engine: it said no without a reason")
        if verdict.allow is True and verdict.deny:
            return self._no(asked, "engine.torn", "engine: it said yes and no")
        return self._decision(asked.gate, asked.subjects, asked.label_epoch, _when(asked), verdict, _to(asked))

    def _no(self, question: object, rule: str, message: str) -> Decision:
        """Of a question that could not be read nothing is quoted but what is known to be harmless."""
        asked = question if isinstance(question, Question) else None
        verdict = Verdict(
            allow=False,
            deny=[Reason(rule=rule, msg=message)],
            warn=[],
            obligations=[],
            subjects=[],
            question="",
            policy="",
        )
        if asked is None or rule.startswith("question."):
            gate = getattr(question, "gate", "")
            return self._decision(gate if gate in GATES else "unknown", [], 0, 0, verdict)
        return self._decision(asked.gate, asked.subjects, asked.label_epoch, _when(asked), verdict, _to(asked))

    def _decision(
        self, gate: str, subjects: list[str], epoch: int, when: int, verdict: Verdict, to: str = ""
    ) -> Decision:
        rules = [reason.rule for reason in verdict.deny]
        # Made of what the decision says and nothing else: it tells nobody more than the decision does.
        told = (gate, to, verdict.allow, subjects, epoch, self._policies.digest, rules, when)
        return Decision(
            id="decision-" + hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:32],
            gate=gate,
            allow=verdict.allow,
            subjects=subjects,
            policy_digest=self._policies.digest,
            label_epoch=epoch,
            engine=self._engine.name,
            rules=rules,
            reasons=[reason.msg for reason in verdict.deny],
            warnings=[reason.msg for reason in verdict.warn],
            obligations=verdict.obligations if verdict.allow else [],
        )


def _when(asked: Question) -> int:
    return asked.asked.when if asked.asked is not None else 0


def _to(asked: Question) -> str:
    return asked.step.to if asked.step is not None else ""


@lru_cache(maxsize=1)
def embedded() -> Decider:
    return Decider(Embedded(shipped()), shipped())


def decider_of(policies: Policies, url: str = "", timeout_s: float = 2.0) -> Decider:
    """The engine in this process, or an OPA at `url` that has exactly these policies."""
    if url:
        return over_http(url, timeout_s=timeout_s, policies=policies)
    return embedded() if policies.digest == shipped().digest else Decider(Embedded(policies), policies)


def over_http(url: str, *, timeout_s: float = 2.0, policies: Policies | None = None) -> Decider:
    """A real OPA that has the bundle of these policies; one that has others is stale, and denies."""
    return Decider(Opa(url, timeout_s=timeout_s), policies or shipped())


def decide(question: Question | Mapping[str, Any], decider: Decider | None = None) -> Decision:
    """May this be done? By default the engine in this process and the policies that were shipped with it."""
    return (decider or embedded()).decide(question)
