"""`promote: auto`: publishes the new version of a public dataset with the same operation that an operator would use.

The same gates decide, and the receipt names the automation as its actor. A version that an operator took back is not
published again; only a newer version is. No list of pending promotions is stored: the refs show them, so the next
command completes what a killed one left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kfm.app.authority.classification import declared_settings
from kfm.app.authority.run_setup import guards_of
from kfm.app.runs.run_control import run_operation
from kfm.errors import Broken, Busy, Conflict, Denied, Fenced, KfmError, Moved, Sovereignty
from kfm.model import refs
from kfm.model.records import Classification, Decision, Receipt, RefEntry, RefMove
from kfm.model.zone_requests import Asking
from kfm.projections.live_versions import withdrawn_versions

if TYPE_CHECKING:
    from kfm.app.session.session import Session

ACTOR = "kfm, promote: auto"
OTHERS = (Busy.code, Conflict.code, Fenced.code, Moved.code)  # another worker is promoting it, or has done so
LOOKED_AT = 1000  # how many runs are searched for the last promotion
Tell = Callable[[str, KfmError], None]
Note = Callable[[str, str], None]


def _ignore(_dataset: str, _text: str) -> None:
    """Ignore a remark for the operator."""


def with_promotions(
    session: Session, receipts: Iterable[Receipt], tell: Tell, note: Note = _ignore
) -> Iterator[Receipt]:
    """Yield each receipt, and after each successful run the receipt of the automatic promotion, if the dataset has
    one."""
    asks = any(each.promote == "auto" for each in session.config.datasets.values())
    for receipt in receipts:
        yield receipt
        if asks and receipt.trigger != "operation" and _ended_well(receipt):
            yield from promote(session, receipt.dataset, tell, note, after=receipt.run_id)


def promote_left(session: Session, datasets: Iterable[str], tell: Tell, note: Note = _ignore) -> Iterator[Receipt]:
    """Promote versions that a killed command or a denying gate left unpublished; yield the receipts."""
    for dataset in datasets:
        yield from promote(session, dataset, tell, note)


def promote(session: Session, dataset: str, tell: Tell, note: Note = _ignore, *, after: str = "") -> Iterator[Receipt]:
    """Promote the processed version of a dataset if it is `promote: auto`, not public yet and not taken back. Yields at
    most one receipt. Calls `tell` with a problem and `note` with a remark for the operator."""
    declared = session.config.datasets.get(dataset)
    if declared is None or declared.promote != "auto" or session.resolved.is_proposal:
        return
    at = session.state.refs.at
    made, public = at(refs.processed(dataset)), at(refs.published(dataset))
    if not made or made == public or any(refs.is_frozen(at(flag)) for flag in refs.switches(dataset)):
        return
    if any(refs.is_frozen(at(flag)) for flag in refs.ambers(dataset)):
        note(
            dataset, f"the new version is not public: no promotion goes on by itself at amber; `kfm publish {dataset}`"
        )
        return
    from kfm.operations.move_updater import NOTHING
    from kfm.operations.promotion import AutomaticPromotion

    try:
        who = taken_back(session, dataset, made)
        if who is not None:
            note(dataset, _left_alone(session, dataset, made, who))
            return
        check_open(session, dataset)
        check_plainly_public(session, dataset, made)
        check_not_denied(session, dataset, RefMove(ref=refs.published(dataset), before=public, after=made))
        reason = f"promote: auto, after run {after}" if after else "promote: auto, left by an earlier command"
        receipt = run_operation(
            session,
            "promote",
            dataset,
            {"to": made, "before": public or NOTHING},
            reason=reason,
            actor=ACTOR,
            updater=AutomaticPromotion(),
        )
    except Broken:
        raise
    except Conflict as problem:  # another worker promotes it: the next run checks again
        session.log.event("promotion.awaited", about=dataset, error=problem)
        return
    except KfmError as problem:
        tell(dataset, problem)
        return
    if any(each.code in OTHERS for each in receipt.errors):
        return
    yield receipt
    if receipt.status == "FAILED":
        note(
            dataset,
            f"the new version was made, and is not public: correct the problem above, then "
            f"`kfm publish {dataset} --reason …`, or run it again",
        )


def _ended_well(receipt: Receipt) -> bool:
    return receipt.status == "SUCCESS" or receipt.outcome in ("noop", "unchanged", "merged")


def check_open(session: Session, dataset: str) -> None:
    """Raise Denied if a burnt error budget closes promotions that no person looks at. It leaves no receipt: no person
    requested it, and the next run looks again."""
    if not session.resolved.has_objectives:
        return
    from kfm.app.objectives.error_budgets import closed_by_objectives

    why = closed_by_objectives(session, "promote: auto", dataset)
    if why is not None:
        raise Denied(why, hint=f"see `kfm slo`; after a look, `kfm publish {dataset} --reason …` publishes it")


def check_plainly_public(session: Session, dataset: str, version: str) -> None:
    """Raise Denied if a person must decide first: if there is a key list, or if a label protects the dataset."""
    from kfm.app.authority.authorization import labelled
    from kfm.app.authority.keyring import in_force
    from kfm.app.authority.review_rules import in_force as review_in_force

    hint = f"say promote: manual in kfm.yml, and publish with `kfm publish {dataset} --reason …`"
    if in_force(session) is not None and review_in_force(session, dataset) != "none":
        raise Denied(
            f"{dataset} is promote: auto, and there is a key list: people sign what is published",
            hint=f"{hint}; or say review: none, and have it signed: `kfm review deploy`",
        )
    known = session.state.ledger.version(dataset, version)
    declared = session.config.datasets[dataset].sensitivity
    for said in (labelled(session, dataset, said=declared), known.standing if known is not None else None):
        if _is_closed(said):
            raise Denied(f"{dataset} is promote: auto, and a label says that it is not public", hint=hint)


def check_not_denied(session: Session, dataset: str, move: RefMove) -> None:
    """Raise Denied if the last promotion was denied and the gate would decide the same again, so that no second receipt
    repeats the first."""
    receipt = _last_denied(session, dataset)
    if receipt is None:
        return
    asking = Asking(who=ACTOR, what="promote", when_ms=session.clock.now_ms(), why="promote: auto")
    if receipt.config_hash != declared_settings(session, dataset).config_hash:
        return
    now = guards_of(session, dataset).gate(session.state, session.objects, move, asking=asking)
    if now.allow is not True and [_grounds(now)] == [_grounds(each) for each in receipt.policy_decisions]:
        kind = Sovereignty if any(each.code == Sovereignty.code for each in receipt.errors) else Denied
        raise kind(
            f"{dataset} is not public: run {receipt.run_id} was denied, and nothing that decides it has changed since: "
            + "; ".join(now.reasons or ["the gate gave no reason"]),
            hint=f"correct that, then `kfm publish {dataset} --reason …`, or run it again",
        )


def _grounds(decision: Decision) -> tuple[object, ...]:
    """Return the facts by which two decisions are compared: subject, rules, labels and reasons."""
    return decision.subject, decision.policy_digest, decision.label_epoch, decision.rules, decision.reasons


def _last_denied(session: Session, dataset: str) -> Receipt | None:
    """Return the receipt of the dataset's last promotion if it was denied. Only the last `LOOKED_AT` runs are
    searched."""
    for entry in islice(session.state.ledger.entries_of(dataset), LOOKED_AT):
        if entry.op_type == "promote":
            return session.state.ledger.receipt(entry.run_id) if entry.outcome == "denied" else None
    return None


def _is_closed(said: Classification | None) -> bool:
    return said is not None and (said.level != "public" or bool(said.custodians))


def _left_alone(session: Session, dataset: str, version: str, who: RefEntry) -> str:
    """Return why the automation does not publish a version, and the command that does."""
    from kfm.app.authority.withdrawals import publish_again, withdrawal, withdrawn_line

    known = withdrawal(session, dataset, version)
    if known is not None:
        return (
            f"not published: {version[:19]} was {withdrawn_line(known)}. The same bytes stay withdrawn however often "
            f"they are built; to publish them again: `{publish_again(dataset, version)}`"
        )
    return (
        f"not published by itself: {who.actor} returned to another version after {version[:19]} was built; "
        f"`kfm publish {dataset} --reason …` publishes it"
    )


def taken_back(session: Session, dataset: str, version: str) -> RefEntry | None:
    """Return the move that took this version back, or that returned to an older one while this one was processed. None
    if the version was published since, or is newer than that move. A version is its bytes: the same bytes, built again,
    are the version that was taken back."""
    entries = list(session.state.refs.history(refs.published(dataset)))
    withdrawn = withdrawn_versions(entries).get(version)
    if withdrawn is not None:
        return withdrawn
    position = max((at for at, entry in enumerate(entries) if entry.op != "promote"), default=-1)
    if position < 0:
        return None
    last, earlier, later = entries[position], entries[: position + 1], entries[position + 1 :]
    if any(entry.after == version for entry in later):
        return None
    if any(version in (entry.before, entry.after) for entry in earlier):
        return last
    return None if _is_newer(session, dataset, version, last) else last


def _is_newer(session: Session, dataset: str, version: str, than: RefEntry) -> bool:
    """Return whether the processed ref moved to this version after the move `than`, in the order of the ledger."""
    moved = next(iter(session.state.refs.history(refs.processed(dataset), reverse=True, limit=1)), None)
    if moved is None or moved.after != version or moved.ts < than.ts:
        return False
    for entry in session.state.ledger.entries_of(dataset):
        if entry.run_id in (moved.run_id, than.run_id):
            return entry.run_id == moved.run_id
    return False
