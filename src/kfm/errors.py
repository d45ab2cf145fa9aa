"""Every error a caller can meet, sorted by what the caller does next.

    KfmError
    ├── Refused          the request or the data is wrong: fix it
    │   ├── BadInput         a file, name or value that cannot be read as what it should be
    │   ├── PlanImpure       plan() reached for the clock, files, network, randomness, environment
    │   ├── PlanChanged      same inputs and version, other plan: bump the version
    │   ├── PlanDrift        the journaled plan is not the one this code makes: never guessed over
    │   ├── Held             the source is in quarantine: look at the findings
    │   └── StepFailed       perform() raised or gave something that is not an Output
    ├── Denied           a rule says no: ask someone
    │   └── Sovereignty      those whose data it is have a say, and have not given it: ask them
    ├── Frozen           a switch is set: wait for the thaw
    ├── Cancelled        somebody ended this run: ask them, or run it again
    ├── Conflict         the world moved: look again
    │   ├── Busy             another live worker holds the lease
    │   │   └── Full         every slot of a pool is taken
    │   ├── Fenced           our lease was taken over; nothing of ours may be written any more
    │   └── Moved            a ref is not where the plan expected it
    ├── Unavailable      a source or service does not answer: wait, retryable
    └── Broken           the ground under us
        ├── Corrupt          stored bytes are not what was stored
        └── StorageFailed    the disk said no (full, I/O error): nothing more is acknowledged

A message says what happened with its values, then what to do. It never quotes a value of the data.
"""

from __future__ import annotations

from typing import ClassVar, Self


class Veiled(Exception):
    """Stands for an exception whose words may hold values of protected data: its type, and where it rose."""


def _veiled(cause: BaseException) -> Veiled:
    if isinstance(cause, Veiled):
        return cause
    return Veiled(f"{type(cause).__name__}, whose words are withheld").with_traceback(cause.__traceback__)


class KfmError(Exception):
    """Base of all errors meant for people; anything else reaching a door is a bug."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", discreet: str = "", **fields: str | int | None) -> None:
        """`discreet` is the message without the names an author may have made from data: step ids, keys."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.discreet = discreet
        self.fields = fields

    def without_names(self) -> Self:
        """The same error as it may be told of data that is not public: also of what lay behind it, no words."""
        if not self.discreet and self.__cause__ is None:
            return self
        told = type(self)(self.discreet or self.message, hint=self.hint)
        told.fields = self.fields
        told.__cause__ = None if self.__cause__ is None else _veiled(self.__cause__)
        return told

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
}


def place_of(problem: BaseException) -> str:
    """File and line of the author's code that was running; of ours, if it was none. Reads no file to find it."""
    import traceback

    standard = (traceback.__file__ or "").removesuffix("traceback.py")
    not_theirs = (__file__.removesuffix("errors.py"), standard, "<frozen ")
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(problem.__traceback__)]
    theirs = [place for place in frames if not place[0].startswith(not_theirs)]
    if not frames:
        return "an unknown place"
    name, line = (theirs or frames)[-1]
    return f"{name.rpartition('/')[2]}:{line}"
