"""Takes labels and policies into force that were written or signed and are not in force yet.

Under a key list the first run takes the label file, the masking policies and the installation's policies as they are.
After that they open only by signatures; labels that a person tightens in the file come into force by themselves.
Each adoption is an operation of its own, with a receipt.

The label file and its ref change one after the other: the next file is written next to it first, and gets its name once
the ref has moved.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.app.authority import signed_policies
from kfm.app.authority.keyring import in_force
from kfm.app.authority.label_change import weigh
from kfm.app.authority.label_match import labels_match
from kfm.app.authority.labels_in_force import file_of, read_bytes, signed_labels
from kfm.app.authority.mask_names import mask_name, recorded_source, replaced_masks, unsigned_masks
from kfm.app.authority.review_rules import ReviewRules, declared
from kfm.app.authority.run_setup import context_of
from kfm.engine.run import run
from kfm.engine.stage_results import Warrant
from kfm.errors import KfmError
from kfm.fsio import REAL, failing_as_storage
from kfm.model import refs
from kfm.model.keys import digest
from kfm.operations.move_updater import NOTHING
from kfm.operations.registry import operations
from kfm.scheduling.triggers import operation_trigger

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.labels import Labels
    from kfm.model.records import Receipt

ACTOR = "kfm"


def adopt_rules(session: Session, dataset: str) -> None:
    """Before a run: finish an adoption that was interrupted, then adopt rules that were never in force. The session
    keeps the receipts."""
    finish(session)
    if session.resolved.is_proposal or not labels_match(session):  # neither in a preview nor with mistakes
        return
    _adopt_labels(session)
    _adopt_policies(session, dataset)
    _end_replaced(session, dataset)


def adopt_tightened(session: Session) -> None:
    """Take a label file into force that only says more than the signed labels: else a later change of the file could
    open again what this one closed."""
    finish(session)
    if session.state.refs.at(refs.LABELS) and not session.resolved.is_proposal and labels_match(session):
        _adopt_labels(session)


def _adopt_labels(session: Session) -> None:
    """Take the labels into force as they are, at their first use under a key list, or if a person tightened them in the
    file."""
    if not session.resolved.config.labels or session.mode != "write" or in_force(session) is None:
        return
    body, signed = file_of(session), signed_labels(session)
    if not body or digest(body) == session.state.refs.at(refs.LABELS):
        return
    if signed is not None and not _only_tightens(session, signed, read_bytes(body)):
        return
    reason = "the labels as they are first used" if signed is None else "the labels as they were tightened in the file"
    params = {"ref": refs.LABELS, "to": session.objects.put(body), "file": digest(body)}
    _adopt(session, "labels", "labels", params, reason, "labels.untaken")


def _only_tightens(session: Session, signed: Labels, written: Labels) -> bool:
    return written != signed and weigh(session, written, signed).action == "label.tighten"


def _adopt_policies(session: Session, dataset: str) -> None:
    """Take each policy into force as it is, at its first use under a key list."""
    declared = session.resolved.config.datasets.get(dataset)
    sources = declared.sources if declared is not None else {}
    wanted = [("mask", refs.mask(dataset, name)) for name, source in sources.items() if source.mask]
    wanted += [("policy", refs.POLICY)] if session.resolved.config.policy.folder else []
    missing = [(op, ref) for op, ref in wanted if not session.state.refs.at(ref)]
    if session.mode != "write" or not missing or in_force(session) is None:
        return
    looser = {refs.mask(dataset, name) for name in unsigned_masks(session, dataset)}  # than under another name
    for op, ref in missing:
        if ref in looser:
            continue
        params = {"ref": ref, "to": session.objects.put(signed_policies.current(session, ref))}
        params |= recorded_source(session, ref) if op == "mask" else {}
        _adopt(session, op, dataset, params, "as it is first used", "rules.untaken")


def adopt_review(session: Session) -> None:
    """Take what `review:` says into force as it is, when the first key list is made. Until then one person could
    publish everything; from then on a lower word needs signatures."""
    if declared(session.resolved) == ReviewRules():  # the usual rules need no record
        return
    if session.mode == "write" and not session.state.refs.at(refs.REVIEW):
        params = {"ref": refs.REVIEW, "to": session.objects.put(signed_policies.current(session, refs.REVIEW))}
        _adopt(session, "review", "review", params, "as it is when the first key list is made", "rules.untaken")


def _end_replaced(session: Session, dataset: str) -> None:
    """End the force of masking policies under names that a source had before: else the old name would bring back what
    was tightened under the new one."""
    if session.mode != "write" or in_force(session) is None:
        return
    for ref in replaced_masks(session, dataset):
        _adopt(session, "mask", dataset, {"ref": ref, "to": NOTHING}, "its source has another name", "rules.untaken")


def _adopt(session: Session, op: str, dataset: str, params: dict[str, str], reason: str, failed: str) -> None:
    updater = operations()[op]()
    trigger = operation_trigger(updater, dataset, params, session.clock, actor=ACTOR, reason=reason)
    context = context_of(session, trigger, updater)
    context.guards.authority = lambda *_about: Warrant()
    if op == "review":  # with the first key of the list the labels may still lack stewards; nothing is opened here
        context.guards.check_labels = None
    try:
        receipt = run(context)
    except KfmError as problem:  # another worker adopts it now, or the next run will
        session.log.event(failed, error=problem)
        return
    if receipt.status == "SUCCESS":
        session.adopted.append(receipt)


def adopted_line(session: Session, receipt: Receipt) -> str:
    """Return one line for the operator that says which rules this operation took into force."""
    ref, after = receipt.moves[0].ref, receipt.moves[0].after
    rules = "the policies of this installation"
    if ref == refs.REVIEW:
        rules = "what kfm.yml says under review"
    elif ref == refs.LABELS:
        rules = f"the labels of {session.resolved.config.labels}"
    elif ref.startswith(refs.MASKS):
        name = mask_name(ref)
        rules = f"the masking policy of source {name.source} of {name.dataset}"
        if not after:
            return f"{rules} is no longer in force, by run {receipt.run_id}; the source has another name now"
    return f"{rules} came into force, by run {receipt.run_id}; from now on only signatures loosen them"


def finish(session: Session) -> None:
    """Rename the next label file if its ref has moved and a crash came in between. A file that a person has changed
    meanwhile stays."""
    at = session.state.refs.at(refs.LABELS)
    if (
        session.mode != "write"
        or not at
        or not session.resolved.config.labels
        or not os.path.lexists(next_label_file(session, at))
    ):
        return
    last = next(iter(session.state.refs.history(refs.LABELS, reverse=True, limit=1)))
    made = session.state.runs.get(last.run_id)
    path = os.path.realpath(session.resolved.at(session.resolved.config.labels))
    untouched = made is not None and made.trigger.params.get("file") == digest(file_of(session))
    with failing_as_storage("write the labels"):
        if untouched:
            REAL.replace(next_label_file(session, at), path)
        else:
            REAL.unlink(next_label_file(session, at))
        REAL.sync_dir(os.path.dirname(path))


def next_label_file(session: Session, at: str) -> str:
    """Return the path where the labels of this digest wait until the ref names them."""
    return f"{os.path.realpath(session.resolved.at(session.resolved.config.labels))}.{at.removeprefix('sha256:')[:16]}"
