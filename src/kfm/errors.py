"""Every error a caller can meet, sorted by what the caller does next.

    KfmError
    ├── Refused          the request or the data is wrong: correct it
    │   ├── BadInput         a file, name or value does not have the form it must have
    │   ├── PlanImpure       plan() used the clock, files, network, randomness or environment
    │   ├── PlanChanged      plan() gave another plan for the same inputs and version: raise the version
    │   ├── PlanDrift        the plan in the journal is not the plan that this code makes
    │   ├── Held             the source is in quarantine: read the findings
    │   └── StepFailed       perform() raised, or returned something that is not an Output
    ├── Denied           a policy or a missing right forbids it: ask a person with that right
    │   └── Sovereignty      the community that owns the data must agree, and has not: ask it
    ├── Frozen           a freeze flag is set: wait for the thaw
    ├── Cancelled        an operator ended this run: run it again if it is still wanted
    ├── Conflict         the state changed meanwhile: read it again
    │   ├── Busy             another live worker holds the lease
    │   │   └── Full         every slot of a pool is taken
    │   ├── Fenced           another worker took over the lease; this one may no longer write
    │   └── Moved            a ref does not have the value that the plan expected
    ├── Unavailable      a source or service does not answer: try again later
    │   ├── CircuitOpen      a circuit breaker is open: the call was not made
    │   ├── BudgetSpent      the retry budget has no token left: the call was not made again
    │   └── ClusterLost      the cluster that performs the steps is gone: the run stays open, resume it
    └── Broken           the storage failed
        ├── Corrupt          stored bytes differ from the bytes that were written
        └── StorageFailed    the disk refused (full, I/O error): KFM acknowledges nothing more

A message says what happened, with its values; the hint says what to do. Neither quotes a value of the data.
"""

from __future__ import annotations

from typing import ClassVar, Self


class Veiled(Exception):
    """Replaces an exception whose text may hold values of protected data: it keeps only the type and the traceback."""


def _veiled(cause: BaseException) -> Veiled:
    if isinstance(cause, Veiled):
        return cause
    return Veiled(f"{type(cause).__name__}, text withheld").with_traceback(cause.__traceback__)


class KfmError(Exception):
    """The base of all errors meant for people. Any other exception that reaches an interface is a bug."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    others: tuple[KfmError, ...] = ()  # more mistakes of the same configuration, reported after this one

    def __init__(self, message: str, *, hint: str = "", discreet: str = "", **fields: str | int | None) -> None:
        """`discreet` is the message without names that an author may have made from data, such as step ids and keys."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.discreet = discreet
        self.fields = fields

    def without_names(self) -> Self:
        """Return this error in a form that may be shown for data that is not public.

        It uses the discreet message, and its cause keeps only the type and the traceback.
        """
        if not self.discreet and self.__cause__ is None:
            return self
        shown = type(self)(self.discreet or self.message, hint=self.hint)
        shown.fields = self.fields
        shown.__cause__ = None if self.__cause__ is None else _veiled(self.__cause__)
        return shown

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class Refused(KfmError):
    code = "refused"
    exit_code = 3


class BadInput(Refused):
    code = "input.bad"


class PlanImpure(Refused):
    code = "plan.impure"


class PlanChanged(Refused):
    code = "plan.changed"


class PlanDrift(Refused):
    code = "plan.drift"


class Held(Refused):
    code = "source.held"


class StepFailed(Refused):
    code = "step.failed"
    exit_code = 1


class Denied(KfmError):
    code = "denied"
    exit_code = 4


class Sovereignty(Denied):
    code = "denied.sovereignty"
    exit_code = 7


class Frozen(KfmError):
    code = "frozen"
    exit_code = 5


class Cancelled(KfmError):
    code = "run.cancelled"
    exit_code = 1


class Conflict(KfmError):
    code = "conflict"
    exit_code = 6


class Busy(Conflict):
    code = "lease.busy"


class Full(Busy):
    code = "pool.full"


class Fenced(Conflict):
    code = "lease.fenced"


class Moved(Conflict):
    code = "ref.moved"


class Unavailable(KfmError):
    code = "unavailable"
    exit_code = 69


class CircuitOpen(Unavailable):
    code = "circuit.open"


class BudgetSpent(Unavailable):
    code = "retry.spent"


class ClusterLost(Unavailable):
    code = "cluster.lost"


class Broken(KfmError):
    code = "broken"
    exit_code = 74


class Corrupt(Broken):
    code = "corrupt"
    exit_code = 65


class StorageFailed(Broken):
    code = "storage.failed"
    exit_code = 74


EXIT_CODES: dict[str, int] = {
    "done": 0,
    "failed": 1,
    "usage": 2,
    "refused": Refused.exit_code,
    "denied": Denied.exit_code,
    "sovereignty": Sovereignty.exit_code,
    "frozen": Frozen.exit_code,
    "busy": Conflict.exit_code,
    "noop": 10,  # only with --exit-code; otherwise a NOOP is a success and exits 0
    "corrupt": Corrupt.exit_code,
    "unavailable": Unavailable.exit_code,
    "storage": StorageFailed.exit_code,
    "interrupted": 130,  # 128 and the number of the signal, as shells count: SIGINT
    "pipe": 141,  # SIGPIPE
    "terminated": 143,  # SIGTERM
}


def kind_of(code: str) -> type[KfmError]:
    """Return the class of errors with this code; KfmError if none has it."""
    pending: list[type[KfmError]] = [KfmError]
    while pending:
        kind = pending.pop()
        if kind.code == code:
            return kind
        pending += kind.__subclasses__()
    return KfmError


def place_of(problem: BaseException) -> str:
    """Return `file:line` of the author's code that raised, or of KFM's own code if no author's code was running.

    The files themselves are not read.
    """
    authors, others = _frames(problem)
    if not authors and not others:
        return "an unknown place"
    name, line, _ = (authors or others)[-1]
    return f"{name.rpartition('/')[2]}:{line}"


MOST_FRAMES = 20


def stack_of(problem: BaseException) -> str:
    """Return the calls in an author's code that led to the cause of an error, outermost first, as lines of
    `file.py:line in function`; empty if no author's code raised it. It holds no message, argument or value."""
    cause = problem.__cause__
    authors, _ = _frames(cause) if cause is not None else ([], [])
    named = [(name.rpartition("/")[2], line, function) for name, line, function in authors if name.endswith(".py")]
    return "\n".join(f"{name}:{line} in {function}" for name, line, function in named[-MOST_FRAMES:])


def _frames(problem: BaseException) -> tuple[list[tuple[str, int, str]], list[tuple[str, int, str]]]:
    """Return the frames of a traceback as file, line and function: those of an author's code, and all others."""
    import traceback

    standard = (traceback.__file__ or "").removesuffix("traceback.py")
    not_authors = (__file__.removesuffix("errors.py"), standard, "<frozen ")
    walked = traceback.walk_tb(problem.__traceback__)
    frames = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in walked]
    authors = [frame for frame in frames if not frame[0].startswith(not_authors)]
    return authors, [frame for frame in frames if frame not in authors]
