"""The gate before a published version is shown over HTTP, decided by the policies. Any doubt is a no."""

from __future__ import annotations

import msgspec

from kfm.model.labels import LEVELS, joined
from kfm.model.records import Classification, DatasetVersion, Level
from kfm.policy.decision import Decider, embedded
from kfm.policy.question_builder import UNSAID, closed_parts, made_as, masked_as
from kfm.policy.questions import (
    Identity,
    LabelFacts,
    PolicyDecision,
    PolicyQuestion,
    RequestFacts,
    ServingFacts,
    label_of,
)


def serve_gate(
    version: DatasetVersion,
    level: Level,
    standing: Classification | None,
    *,
    audience: str,
    status: str,
    when_ms: int,
    epoch: int,
    decider: Decider | None = None,
) -> PolicyDecision:
    """Decide whether this version may be shown to this audience now.

    `level` is the most closed level that the caller found for today, `standing` today's classification by labels. What
    the version was made under counts, too: the label of the question is the strictest of all.
    """
    question = PolicyQuestion(
        gate="serve",
        subjects=[version.digest],
        label_epoch=epoch,
        asked=RequestFacts(who=audience[:200], what="serve", when=max(1, when_ms), why="it is asked for"),
        identity=Identity(dataset=version.dataset, title="", version=version.digest),
        label=_label(version, level, standing),
        masking=masked_as(version.digest, version.standing),
        serving=ServingFacts(audience=audience[:200], status=status[:200]),
    )
    return (decider or embedded()).decide(question)


def no_version(audience: str, when_ms: int, decider: Decider | None = None) -> PolicyDecision:
    """Return the denial of a question that names no version, under the same policies."""
    asked = RequestFacts(who=audience[:200], what="serve", when=max(1, when_ms), why="it is asked for")
    return (decider or embedded()).decide(PolicyQuestion(gate="serve", subjects=[], asked=asked))


def earliest_end_ms(version: DatasetVersion, standing: Classification | None) -> int | None:
    """Return the instant at which a label or consent ends, after which a remembered yes counts no more; None if there
    is no such instant."""
    known = [one for one in (version.standing, standing) if one is not None and one.expires]
    ends = [end for one in known if isinstance(end := label_of(one).expires, int)]
    return min(ends, default=None)


def _label(version: DatasetVersion, level: Level, standing: Classification | None) -> LabelFacts:
    known = [one for one in (version.standing, standing) if one is not None]
    together = joined(known) if known else Classification(level="public", care="open", access="open")
    made = made_as(version)
    levels = [together.level, level, "public" if made == UNSAID else made]
    sensitivity = max(levels, key=lambda one: LEVELS.index(one) if one in LEVELS else len(LEVELS))
    closed = len(closed_parts(version, sensitivity))
    return msgspec.structs.replace(label_of(together, closed_parts=closed), sensitivity=sensitivity)
