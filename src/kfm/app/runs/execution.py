"""Working: run what was asked for, make it durable, tell the outside. What every door does with an open house, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from kfm.app.runs.auto_promotion import following, left
from kfm.app.runs.run_control import resume_runs, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_names
from kfm.app.session.session import Session
from kfm.errors import Broken, Conflict, Frozen, KfmError
from kfm.model.records import Effect, Receipt

Tell = Callable[[str, KfmError], None]


class Request(NamedTuple):
    """Something to do, and what it is about. It gives receipts as they come; of a part that fails, it tells."""

    about: str
    do: Callable[[Session, Tell], Iterable[Receipt]]


class Undelivered(NamedTuple):
    """All is durable, and the outside was not told of it. What another command left is not `ours`."""

    dataset: str
    problem: KfmError
    ours: bool

    @property
    def told(self) -> str:
        return f"committed, but not delivered yet, do not repeat it: {self.problem.message}"


class Outcome:
    """What became of some requests: receipts, problems of what left none, and what was told to the outside, or not."""

    def __init__(self, receipts: Iterable[Receipt] = ()) -> None:
        self.receipts = list(receipts)
        self.problems: list[tuple[str, KfmError]] = []
        self.effects: list[Effect] = []
        self.undelivered: list[Undelivered] = []
        self.notes: list[tuple[str, str]] = []  # what a person should know, of which dataset


class Audience(Protocol):
    """Hears of everything as it happens."""

    def begins(self, about: str) -> None: ...

    def ended(self, receipt: Receipt) -> None: ...

    def failed(self, about: str, problem: KfmError) -> None: ...

    def settles(self) -> None: ...

    def undelivered(self, what: Undelivered) -> None: ...


def work(session: Session, requests: Iterable[Request], audience: Audience, *, all_are_ours: bool = False) -> Outcome:
    """Do them, then settle. The failure of one does not keep the others from running, unless the ground gave way."""
    outcome = Outcome()

    def tell(about: str, problem: KfmError) -> None:
        outcome.problems.append((about, problem))
        audience.failed(about, problem)

    def note(about: str, text: str) -> None:
        outcome.notes.append((about, text))

    for request in requests:
        audience.begins(request.about)
        try:
            for receipt in following(session, request.do(session, tell), tell, note):
                outcome.receipts.append(receipt)
                audience.ended(receipt)
        except Broken:
            raise
        except KfmError as problem:
            tell(request.about, problem)
    settle(session, outcome, audience, all_are_ours=all_are_ours)
    return outcome


def settle(session: Session, outcome: Outcome, audience: Audience, *, all_are_ours: bool = False) -> None:
    """Durable, and told to the outside. If only that fails, people must see what was done: again, it is undone."""
    audience.settles()
    try:
        outcome.effects = settle_session(session, again=all_are_ours)
    except KfmError:
        if not session.undelivered:
            raise
        ours = {"", *(receipt.dataset for receipt in outcome.receipts)}
        for dataset, problem in session.undelivered:
            outcome.undelivered.append(Undelivered(dataset, problem, all_are_ours or dataset in ours))
            audience.undelivered(outcome.undelivered[-1])
    for problem in session.untold:  # a sink that does not answer fails no run; whoever asked to tell it wants to know
        outcome.undelivered.append(Undelivered("", problem, all_are_ours))
        audience.undelivered(outcome.undelivered[-1])


def problem_of(receipt: Receipt) -> KfmError | None:
    """What a receipt tells as an error, of the kind that it was; none if the run ended well or had nothing to do."""
    if receipt.outcome in ("noop", "unchanged"):
        return None
    if receipt.outcome == "frozen":
        name = receipt.dataset
        return Frozen(
            f"{name} is frozen; its trigger is kept", hint=f"see `kfm why-not {name}`; after the thaw, resume"
        )
    if receipt.status == "SUCCESS":
        return None
    for note in receipt.errors:
        return _kind_of(note.code)(note.message, run_id=receipt.run_id)
    return KfmError(f"the run of {receipt.dataset} ended as {receipt.outcome}", run_id=receipt.run_id)


def _kind_of(code: str) -> type[KfmError]:
    pending: list[type[KfmError]] = [KfmError]
    while pending:
        kind = pending.pop()
        if kind.code == code:
            return kind
        pending += kind.__subclasses__()
    return KfmError


# -- what can be asked for


def running(dataset: str, **asked: Any) -> Request:
    """A run of a dataset."""
    return Request(dataset, lambda session, _tell: [run_trigger(session, new_trigger(session, dataset, **asked))])


def moving(operation: str, dataset: str, params: Mapping[str, str], **who: Any) -> Request:
    """An operation: promote, rollback, freeze or thaw. With a `signer` it is signed, or asked for."""
    from kfm.app.runs.change_requests import operate

    return Request(dataset, lambda session, _tell: [operate(session, operation, dataset, params, **who)])


def resuming(run_id: str = "") -> Request:
    """An unfinished run; with no id, all that is unfinished or waits."""

    def do(session: Session, tell: Tell) -> Iterator[Receipt]:
        if not run_id:
            yield from resume_runs(session, tell=tell)
            yield from left(session, dataset_names(session), tell)
            return
        for receipt in resume_runs(session, run_id):
            yield receipt
            return
        raise Conflict(f"another worker has ended run {run_id} meanwhile", hint="see `kfm runs receipt`")

    return Request(run_id, do)


def retrying(trigger_id: str) -> Request:
    """A trigger, now."""
    from kfm.app.runs.trigger_inbox import retry

    return Request(trigger_id, lambda session, _tell: [retry(session, trigger_id)])
