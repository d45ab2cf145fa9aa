"""The failures that a trial reports: what was tried, what was found, why it matters and what to do."""

from __future__ import annotations

from typing import NamedTuple


class UpdaterFailed(AssertionError):
    """Raised if an updater breaks a guarantee; `rule` names which."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


class FailureRule(NamedTuple):
    says: str  # follows the name of the updater
    why: str
    advice: str


_AGAIN = "A run that was killed is resumed in another process, and must end as if nothing had happened."

RULES = {
    "run.failed": FailureRule(
        "could not be run at all",
        "Nothing else can be tried before a plain run succeeds.",
        "Fix what the message names. `KFM_LOG=debug kfm run` in an installation shows the traceback of perform().",
    ),
    "plan.impure": FailureRule(
        "has a plan() that reads more than its inputs",
        "KFM computes the plan again when a run is resumed, checked or reproduced. It must be the same, byte for byte.",
        "Read what you need in inputs() or in perform(). plan() may not use the clock, files, the network, "
        "randomness or the environment; sort the items of a set, and keep no state between calls.",
    ),
    "plan.varies": FailureRule(
        "makes another plan in another process",
        "A plan is locked to its inputs and `version`. A run resumed tomorrow, elsewhere, would be refused.",
        "Sort the items of a set, and use no local time, hash() or counter of the module.",
    ),
    "inputs.vary": FailureRule(
        "pins different inputs each time",
        "The same sources must give the same inputs: otherwise no run is ever a NOOP, and none can be reproduced.",
        "Pin the same sources in the same order, and give `partition=` nothing that differs from call to call.",
    ),
    "output.varies": FailureRule(
        "does not give the same bytes twice",
        "After a crash a step is performed again. Versions are known by the digest of their bytes, so a step that "
        "answers differently makes a new version of unchanged data.",
        "Do not use the time, randomness, uuid or the order of a set; sort rows; write numbers in one way. "
        "Output.json and Output.csv give equal bytes for equal values.",
    ),
    "effect.outside": FailureRule(
        "changes something besides its outputs",
        "A dry run must change nothing, and a step may be performed more than once. Any effect besides its Output "
        "happens again each time, and no rollback reverts it.",
        "Return results as Output. Pin in inputs() what you need from outside. Write scratch files with "
        "`tempfile`, which a trial allows.",
    ),
    "dry-run.changed": FailureRule(
        "changed the installation during a dry run",
        "A dry run promises that nothing changes.",
        "Write nothing into the installation's folder; return it as Output.",
    ),
    "crash.differs": FailureRule(
        "ends differently after a crash",
        _AGAIN,
        "Keep nothing between steps: no attribute of self, no global, no file. A step that needs another one "
        "names in `needs` and reads with read.json(ID).",
    ),
    "crash.stuck": FailureRule("cannot be resumed after a crash", _AGAIN, "Fix what the message names."),
}


def failure(rule: str, updater: str, tried: str, found: str) -> UpdaterFailed:
    about = RULES[rule]
    lines = (
        f"updater {updater} {about.says} ({rule})",
        "",
        f"  tried:  {tried}",
        f"  found:  {found}",
        f"  why:    {about.why}",
        f"  do:     {about.advice}",
    )
    return UpdaterFailed(rule, "\n".join(lines))
