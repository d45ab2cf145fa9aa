"""What a trial says when an updater fails it: what was tried, what was found, why it matters and what to do."""

from __future__ import annotations

from typing import NamedTuple


class UpdaterFailed(AssertionError):
    """An updater breaks a promise. `rule` names which."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


class Rule(NamedTuple):
    says: str  # after the name of the updater
    why: str
    advice: str


_AGAIN = "A run that was killed is taken up again, in another process, and must end as if nothing had happened."

RULES = {
    "run.failed": Rule(
        "could not be run at all",
        "Nothing else can be tried before a plain run succeeds.",
        "Mend what the message names. `KFM_LOG=debug kfm run` in an installation shows the traceback of perform().",
    ),
    "plan.impure": Rule(
        "has a plan() that looks at more than its inputs",
        "A plan is made again when a run is resumed, checked or reproduced. It must come out the same, byte for byte.",
        "Take what you need in inputs(), or do it in perform(). plan() may not read the clock, files, the network, "
        "randomness or the environment; sort what comes out of a set, and keep no state between calls.",
    ),
    "plan.varies": Rule(
        "makes another plan in another process",
        "A plan is locked to its inputs and `version`. A run resumed tomorrow, elsewhere, would be refused.",
        "Sort what comes out of a set of texts, and keep no local time, hash() or counter in the module.",
    ),
    "inputs.vary": Rule(
        "reads something else each time it is asked",
        "The same sources must give the same inputs: otherwise no run is ever a NOOP, and none can be reproduced.",
        "Pin the same sources in the same order, and give `partition=` nothing that differs from call to call.",
    ),
    "output.varies": Rule(
        "does not give the same bytes twice",
        "After a crash a step is performed again. Versions are known by the digest of their bytes, so a step that "
        "answers differently makes a new version of unchanged data.",
        "Leave out the time, randomness, uuid and the order of a set; sort rows; write numbers in one way. "
        "Output.json and Output.csv give equal bytes for equal values.",
    ),
    "effect.outside": Rule(
        "changes something outside of its outputs",
        "A dry run must change nothing, and a step may be performed more than once. What it does beside its Output "
        "is done again each time, and no rollback takes it back.",
        "Return what is made as Output. What you need from outside, pin in inputs(). Scratch files go through "
        "`tempfile`, which a trial allows.",
    ),
    "dry-run.changed": Rule(
        "changed the installation during a dry run",
        "Whoever types --dry-run was promised that nothing changes.",
        "Write nothing into the installation's folder; return it as Output.",
    ),
    "crash.differs": Rule(
        "ends otherwise after a crash",
        _AGAIN,
        "Keep nothing between steps: no attribute of self, no global, no file. What a step needs of another one it "
        "names in `needs` and reads with read.json(ID).",
    ),
    "crash.stuck": Rule("cannot be resumed after a crash", _AGAIN, "Mend what the message names."),
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
