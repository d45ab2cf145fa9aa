"""The one decision point: may this be done, and under which obligations? Any doubt is a no, with its reason.

It decides before the commit transaction, so a slow engine does not hold the lock; the transaction compares only the
digests, the policy digest and the label epoch again. An answer counts only if it is a literal true about exactly these
digests, under exactly these policies, to exactly this question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kfm.policy.policy_bundle import Policies, shipped
from kfm.policy.questions import (
    GATES,
    EngineReason,
    EngineVerdict,
    PolicyDecision,
    PolicyQuestion,
    both_from,
    encode_question,
    verdict_from,
)
from kfm.policy.rego_engines import BOTH, Embedded, Engine, Opa, Unanswered

MAX_QUESTION = 1 << 20


class Decider:
    def __init__(self, engine: Engine, policies: Policies) -> None:
        self._engine = engine
        self._policies = policies

    @property
    def policy_digest(self) -> str:
        return self._policies.digest

    def decide(self, question: PolicyQuestion | Mapping[str, Any]) -> PolicyDecision:
        """Decide a question. A malformed question or a failing engine does not raise: it is a no."""
        try:
            asked = question if isinstance(question, PolicyQuestion) else msgspec.convert(question, PolicyQuestion)
            body = encode_question(asked)
        except (msgspec.ValidationError, msgspec.DecodeError, TypeError, ValueError, RecursionError):
            return self._no(question, "question.malformed", "question: a field is missing or is of another type")
        if len(body) > MAX_QUESTION:
            return self._no(question, "question.large", "question: it is too large")
        echo = hashlib.sha256(body).hexdigest()
        told = _with_echo(body, echo)
        decision = self._asked(asked, asked.gate, told, echo)
        if decision.allow is True and self._policies.has_own:
            own = self._asked(asked, "own", told, echo)
            if own.allow is not True:
                return own
            return msgspec.structs.replace(decision, warnings=[*decision.warnings, *own.warnings])
        return decision

    def allows_both(self, work: PolicyQuestion, processed: PolicyQuestion) -> PolicyDecision | None:
        """Decide about Work and Processed in one evaluation. Return the decision about Processed if both are a yes
        without obligations; None otherwise: the caller then asks each question alone, and gets its reasons.

        Each answer must be about its own question and digest, as if it had been asked alone. The decision has no
        warnings.
        """
        if self._policies.has_own or not self._engine.asks_both:
            return None
        try:
            bodies = [encode_question(work), encode_question(processed)]
            echoes = [hashlib.sha256(body).hexdigest() for body in bodies]
            first, second = (_with_echo(*each) for each in zip(bodies, echoes, strict=True))
            if len(first) + len(second) > MAX_QUESTION:
                return None
            both = both_from(self._engine.ask(BOTH, second[:-1] + b',"work":' + first + b"}"))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            return None  # not an answer; asked alone, each question is a no with its reason, or gets its answer
        about_work = self._weighed(work, both.work, echoes[0])
        about_processed = self._weighed(processed, both.processed, echoes[1])
        if not about_work.is_yes(*work.subjects) or not about_processed.is_yes(*processed.subjects):
            return None
        return None if about_work.obligations or about_processed.obligations else about_processed

    def _asked(self, asked: PolicyQuestion, gate: str, body: bytes, echo: str) -> PolicyDecision:
        try:
            answer = self._engine.ask(gate, body)
        except Unanswered as problem:
            return self._no(asked, "engine.unanswered", f"engine: {problem.reason}")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            # BaseException, because a panic in the engine is not an Exception, and no failure may count as a yes.
            return self._no(asked, "engine.failed", "engine: it failed")
        try:
            verdict = verdict_from(answer)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError):
            return self._no(asked, "engine.odd", "engine: it gave no verdict, or an odd one")
        return self._weighed(asked, verdict, echo)

    def _weighed(self, asked: PolicyQuestion, verdict: EngineVerdict, echo: str) -> PolicyDecision:
        if verdict.policy != self._policies.digest:
            return self._no(asked, "engine.stale", "engine: it answers under other policies")
        if verdict.question != echo or verdict.subjects != asked.subjects:
            return self._no(asked, "engine.other", "engine: it answers another question")
        if verdict.allow is not True and not verdict.deny:
            return self._no(asked, "engine.silent", "engine: it said no without a reason")
        if verdict.allow is True and verdict.deny:
            return self._no(asked, "engine.torn", "engine: it said yes and no")
        return self._decision(asked.gate, asked.subjects, asked.label_epoch, _when(asked), verdict, _to(asked))

    def _no(self, question: object, rule: str, message: str) -> PolicyDecision:
        """Return a denial. It quotes nothing of a question that could not be read."""
        asked = question if isinstance(question, PolicyQuestion) else None
        verdict = EngineVerdict(
            allow=False,
            deny=[EngineReason(rule=rule, msg=message)],
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
        self, gate: str, subjects: list[str], epoch: int, when: int, verdict: EngineVerdict, to: str = ""
    ) -> PolicyDecision:
        rules = [reason.rule for reason in verdict.deny]
        # The id is computed from the decision alone, so it reveals no more than the decision does.
        told = (gate, to, verdict.allow, subjects, epoch, self._policies.digest, rules, when)
        return PolicyDecision(
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


def _with_echo(body: bytes, echo: str) -> bytes:
    """Return a question with its own digest, which the answer must repeat."""
    return body[:-1] + b',"question":"' + echo.encode() + b'"}'


def _when(asked: PolicyQuestion) -> int:
    return asked.asked.when if asked.asked is not None else 0


def _to(asked: PolicyQuestion) -> str:
    return asked.step.to if asked.step is not None else ""


@lru_cache(maxsize=1)
def embedded() -> Decider:
    return Decider(Embedded(shipped()), shipped())


def decider_of(policies: Policies, url: str = "", timeout_s: float = 2.0) -> Decider:
    """Return the decider with the embedded engine, or with an OPA server at `url` that has exactly these policies."""
    if url:
        return over_http(url, timeout_s=timeout_s, policies=policies)
    return embedded() if policies.digest == shipped().digest else Decider(Embedded(policies), policies)


def over_http(url: str, *, timeout_s: float = 2.0, policies: Policies | None = None) -> Decider:
    """Return a decider over an OPA server. A server with other policies is stale, and its answers are denials."""
    given = policies or shipped()
    return Decider(Opa(url, timeout_s=timeout_s, policies=given), given)


def decide(question: PolicyQuestion | Mapping[str, Any], decider: Decider | None = None) -> PolicyDecision:
    """Decide a question, by default with the embedded engine and the shipped policies."""
    return (decider or embedded()).decide(question)
