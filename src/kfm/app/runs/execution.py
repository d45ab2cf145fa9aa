"""Carries out requests: runs them, makes the results durable, publishes and reports them. Every interface uses this."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from kfm.app.runs.run_control import resume_runs, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_names
from kfm.app.session.session import Session
from kfm.delivery.public_files import RECEIPTS
from kfm.errors import Broken, Conflict, Frozen, KfmError, kind_of
from kfm.model import refs
from kfm.model.outbox_messages import NOTIFY, PUBLIC
from kfm.model.records import Effect, LedgerEntry, Receipt

Tell = Callable[[str, KfmError], None]


class Request(NamedTuple):
    """Something to do, and its subject. `do` yields receipts as they come, and calls its second argument with each
    problem."""

    about: str
    do: Callable[[Session, Tell], Iterable[Receipt]]


class Undelivered(NamedTuple):
    """A result that is durable but not delivered to the public files or a sink. `ours` is false if another command left
    it. With `is_change` false nothing that was committed is pending, only receipts, signed heads and messages about
    runs that changed nothing; with `is_notice` only a message to a receiver of notices."""

    dataset: str
    problem: KfmError
    ours: bool
    is_change: bool = True
    is_notice: bool = False

    @property
    def message(self) -> str:
        if self.is_notice:
            return f"done and delivered, but a receiver of notices was not told yet: {self.problem.message}"
        if self.is_change:
            return f"committed, but not delivered yet, do not repeat it: {self.problem.message}"
        return f"every change is delivered, only records of runs are not yet: {self.problem.message}"


class Outcome:
    """The results of some requests: receipts, problems of requests that left no receipt, and what was or was not
    delivered."""

    def __init__(self, receipts: Iterable[Receipt] = ()) -> None:
        self.receipts = list(receipts)
        self.problems: list[tuple[str, KfmError]] = []
        self.effects: list[Effect] = []
        self.undelivered: list[Undelivered] = []
        self.notes: list[tuple[str, str]] = []  # dataset, and a remark for the operator


class Listener(Protocol):
    """Receives each event of the work as it happens."""

    def begins(self, about: str) -> None: ...

    def ended(self, receipt: Receipt) -> None: ...

    def failed(self, about: str, problem: KfmError) -> None: ...

    def settles(self) -> None: ...

    def undelivered(self, what: Undelivered) -> None: ...


def work(session: Session, requests: Iterable[Request], audience: Listener, *, all_are_ours: bool = False) -> Outcome:
    """Carry out the requests, then settle, and return the outcome. A failed request does not stop the others; only
    Broken, damage to the storage itself, is raised."""
    outcome = Outcome()

    def tell(about: str, problem: KfmError) -> None:
        outcome.problems.append((about, problem))
        audience.failed(about, problem)

    def note(about: str, text: str) -> None:
        outcome.notes.append((about, text))

    for request in requests:
        audience.begins(request.about)
        try:
            for receipt in _with_promotions(session, request.do(session, tell), tell, note):
                outcome.receipts.append(receipt)
                audience.ended(receipt)
        except Broken:
            raise
        except KfmError as problem:
            tell(request.about, problem)
    settle_after(session, outcome, audience, all_are_ours=all_are_ours)
    return outcome


def _with_promotions(
    session: Session, receipts: Iterable[Receipt], tell: Tell, note: Callable[[str, str], None]
) -> Iterable[Receipt]:
    """Return the receipts, with those of automatic promotions where a dataset has them."""
    if not any(each.promote == "auto" for each in session.config.datasets.values()):
        return receipts
    from kfm.app.runs.auto_promotion import with_promotions

    return with_promotions(session, receipts, tell, note)


def settle_after(session: Session, outcome: Outcome, audience: Listener, *, all_are_ours: bool = False) -> None:
    """Settle after requests. If none left a receipt, what failed them and fails the settlement, too, is not raised:
    it was reported."""
    try:
        settle(session, outcome, audience, all_are_ours=all_are_ours)
    except Broken:
        raise
    except KfmError as problem:
        if outcome.receipts or str(problem) not in {str(each) for _, each in outcome.problems}:
            raise


def settle(session: Session, outcome: Outcome, audience: Listener, *, all_are_ours: bool = False) -> None:
    """Make everything durable and deliver it. If only the delivery fails, the outcome says so and nothing is raised:
    the work is done, and repeating it would be wrong."""
    audience.settles()
    try:
        outcome.effects = _numbered([*session.effects, *settle_session(session, again=all_are_ours)])
    except KfmError:
        if not session.undelivered:
            raise
    ours = {"", *(receipt.dataset for receipt in outcome.receipts)}
    for what in undelivered(session, lambda dataset: all_are_ours or dataset in ours, of_sinks=all_are_ours):
        outcome.undelivered.append(what)
        audience.undelivered(what)


def undelivered(session: Session, is_ours: Callable[[str], bool], *, of_sinks: bool = False) -> Iterator[Undelivered]:
    """Yield what the last settlement could not deliver, each problem once. A sink that does not answer fails no run,
    but is named. `of_sinks` says whether what the sinks have not received is ours."""
    is_change = bool(session.undelivered) and _is_change_pending(session)
    for dataset, problem in {(each[0], str(each[1])): each for each in session.undelivered}.values():
        yield Undelivered(dataset, problem, is_ours(dataset), bool(dataset) or is_change)
    for problem in session.sink_problems:
        is_notice = problem.message.startswith(NOTIFY)  # no command fails because of a receiver
        is_change = not is_notice and next(session.state.outbox.pending(), None) is not None
        yield Undelivered("", problem, of_sinks and not is_notice, is_change, is_notice)


def _is_change_pending(session: Session) -> bool:
    """Return whether public files wait, or the receipt of a run that changed something."""
    outbox = session.state.outbox
    unexported = session.state.ledger.entries(after=outbox.cursor(RECEIPTS))
    return next(iter(outbox.due(PUBLIC)), None) is not None or any(map(_is_change, unexported))


def _is_change(entry: LedgerEntry) -> bool:
    """Return whether an entry is of a run that changed something. The record of a move, a backup or a repair is written
    before its first change, and such a command may be repeated."""
    return entry.outcome == "done" and not all(refs.parse(move.ref).zone == "maintenance" for move in entry.moves)


def _numbered(effects: list[Effect]) -> list[Effect]:
    """Return the effects with consecutive numbers, also where an earlier settlement made some of them."""
    return [
        each if each.seq == number else msgspec.structs.replace(each, seq=number)
        for number, each in enumerate(effects, 1)
    ]


def problem_of(receipt: Receipt) -> KfmError | None:
    """Return the error that a receipt records, as the class with its code; None if the run succeeded or had nothing to
    do."""
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
        return kind_of(note.code)(note.message, run_id=receipt.run_id)
    return KfmError(f"the run of {receipt.dataset} ended as {receipt.outcome}", run_id=receipt.run_id)


# -- requests


def run_request(dataset: str, **asked: Any) -> Request:
    """Return the request for a run of a dataset."""
    return Request(dataset, lambda session, _tell: [run_trigger(session, new_trigger(session, dataset, **asked))])


def operation_request(operation: str, dataset: str, params: Mapping[str, str], **who: Any) -> Request:
    """Return the request for an operation: promote, rollback, freeze or thaw. With a `signer` it is signed, and becomes
    a change request if others must sign too."""
    from kfm.app.runs.change_requests import operate

    return Request(dataset, lambda session, _tell: [operate(session, operation, dataset, params, **who)])


def resume_request(run_id: str = "", *, today: bool = False) -> Request:
    """Return the request to resume a run; without an id, every unfinished run and every waiting trigger. With `today`,
    the settings are those of kfm.yml, not those that a run was planned with."""

    def do(session: Session, tell: Tell) -> Iterator[Receipt]:
        if not run_id:
            from kfm.app.runs.auto_promotion import promote_left
            from kfm.app.runs.requested_work import carry_out_signatures

            yield from resume_runs(session, tell=tell, today=today)
            yield from carry_out_signatures(session, tell)
            yield from promote_left(session, dataset_names(session), tell)
            return
        for receipt in resume_runs(session, run_id, today=today):
            yield receipt
            return
        raise Conflict(f"another worker has ended run {run_id} meanwhile", hint="see `kfm runs receipt`")

    return Request(run_id, do)


def retry_request(trigger_id: str) -> Request:
    """Return the request to run a trigger now."""
    from kfm.app.runs.trigger_inbox import retry

    return Request(trigger_id, lambda session, _tell: retry(session, trigger_id))
