"""Promotes the previewed versions of a merged branch: exactly the approved digests, or nothing.

First every change since the approval is searched for, and reported with the approved digest and the present one. Then
each dataset is published with the normal operation, bound to the version and its predecessor, and the previewed version
becomes the processed one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kfm.app.authority.label_match import check_all
from kfm.app.authority.run_setup import context_of
from kfm.app.authority.withdrawals import publish_again, withdrawal, withdrawn_line
from kfm.app.previews.branch_previews import below, sweep
from kfm.app.previews.git_branches import Repository
from kfm.app.runs.change_requests import operate
from kfm.app.runs.execution import Request
from kfm.app.runs.run_control import run_operation
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.protection_files import readable_objects
from kfm.engine.plan_preview import inputs_now
from kfm.errors import BadInput, KfmError, Refused
from kfm.model import manifests, refs
from kfm.model.names import is_digest
from kfm.model.preview_records import Preview, PreviewedDataset, slug
from kfm.model.records import Receipt, Record
from kfm.operations.move_updater import NOTHING

if TYPE_CHECKING:
    from kfm.app.authority.keyring import Signer
    from kfm.app.runs.execution import Tell
    from kfm.app.session.session import Session


class Difference(Record, frozen=True):
    """A reason why the approved preview is not what would be promoted now."""

    rule: str
    dataset: str  # empty if it concerns all
    approved: str
    found: str
    message: str

    @property
    def denies(self) -> bool:
        """Whether a person's agreement is missing. Other differences disappear when the preview is built again."""
        return self.rule.startswith(("approval.", "merge."))


def differences(
    session: Session, preview: Preview, at: str, approved: str, *, merged: bool | None = None
) -> list[Difference]:
    """Return everything that changed since this preview was built and approved. `merged` is what GitHub says, if it was
    asked. Raise BadInput if masks and labels do not match: to build the preview again would not help."""
    if not is_digest(approved):
        raise BadInput(
            "the approved preview is not named by a digest", hint="it is in the report: sha256:<64 hex digits>"
        )
    found = []
    if approved != at:
        found.append(
            Difference(
                rule="approval.stale",
                dataset="",
                approved=approved,
                found=at,
                message="the preview was built again since it was approved",
            )
        )
    repository = Repository(session.resolved.root)
    if not (repository.is_merged(preview.commit) if merged is None else merged):
        found.append(
            Difference(
                rule="merge.missing",
                dataset="",
                approved=preview.commit,
                found=repository.head(),
                message="the previewed commit is not part of the checked-out branch",
            )
        )
        return found  # further differences would only follow from this one
    check_all(session)
    for each in preview.datasets:
        found += _of(session, each)
    return found


def _of(session: Session, each: PreviewedDataset) -> Iterator[Difference]:
    def other(rule: str, approved: str, found: str, message: str) -> Difference:
        return Difference(rule=rule, dataset=each.dataset, approved=approved, found=found, message=message)

    name, state = each.dataset, session.state
    if not each.version:
        yield other("preview.unmade", "", ", ".join(each.problems), "the branch made no version of it")
        return
    declared = session.config.datasets.get(name)
    if declared is None or declared.digest() != each.config_hash:
        there = declared.digest() if declared is not None else ""
        yield other("declaration.changed", each.config_hash, there, "its declaration differs after the merge")
        return
    if (code := dataset_updater(session, name).code_hash) != each.code_hash:
        yield other("code.changed", each.code_hash, code, "its code differs after the merge")
        return
    processed, published = state.refs.at(refs.processed(name)), state.refs.at(refs.published(name))
    if processed not in (each.base, each.version):
        yield other("base.moved", each.base, processed, f"processed/{name} has moved since it was previewed")
    if published not in (each.published, each.version):
        yield other("published.moved", each.published, published, f"published/{name} has moved since it was previewed")
    if (taken_back := withdrawal(session, name, each.version)) is not None:
        again = f"it was {withdrawn_line(taken_back)}; to publish it again: `{publish_again(name, each.version)}`"
        yield other("version.withdrawn", each.version, published, again)
    if (processed, published) != (each.version, each.version):
        yield from _sources(session, each)
        yield from _artifacts(session, each)


def _sources(session: Session, each: PreviewedDataset) -> Iterator[Difference]:
    """Yield the sources that have changed. For protected sources, the digests are those of encrypted bytes."""
    try:
        trigger, updater = new_trigger(session, each.dataset), dataset_updater(session, each.dataset)
        now = inputs_now(context_of(session, trigger, updater))
    except Refused as problem:  # a file that is gone; a server that does not answer raises Unavailable instead
        yield Difference(
            rule="source.changed",
            dataset=each.dataset,
            approved=each.inputs[0].digest if each.inputs else "",
            found="",
            message=f"the sources of {each.dataset} have changed or are gone ({problem.code})",
        )
        return
    read = [(ref.uri, ref.content_hash) for ref in now]
    then = [(item.uri, item.digest) for item in each.inputs]
    for position in range(max(len(read), len(then))):
        was, is_ = (side[position] if position < len(side) else ("", "") for side in (then, read))
        if was != is_:
            yield Difference(
                rule="source.changed",
                dataset=each.dataset,
                approved=was[1],
                found=is_[1],
                message=f"source {position + 1} of {each.dataset} is not what was previewed",
            )


def _artifacts(session: Session, each: PreviewedDataset) -> Iterator[Difference]:
    """Yield a difference if an object of the approved version is missing or altered."""
    readable = readable_objects(session)
    try:
        session.objects.read(each.version)
        for digest in manifests.parts(readable, each.version):
            session.objects.read(digest)
        for entry in manifests.entries(readable, each.version):
            with session.objects.open(entry.digest) as file:
                while file.read(1 << 20):
                    pass
    except KfmError as problem:
        yield Difference(
            rule="artifact.changed",
            dataset=each.dataset,
            approved=each.version,
            found="",
            message=f"a previewed file has changed or is gone ({problem.code})",
        )


# -- promotion


def promotion_requests(preview: Preview, *, signer: Signer | None, days: int, reason: str, actor: str) -> list[Request]:
    """Return a request for each dataset: publish the approved version, then make it the processed one."""
    name = slug(preview.branch)
    why = reason or f"merged from {preview.branch} at {preview.commit[:12]}"

    def request(each: PreviewedDataset) -> Request:
        def do(session: Session, _tell: Tell) -> Iterator[Receipt]:
            yield from _promoted(session, name, each, why, signer, days, actor)

        return Request(each.dataset, do)

    return [request(each) for each in preview.datasets]


def _promoted(
    session: Session, name: str, each: PreviewedDataset, why: str, signer: Signer | None, days: int, actor: str
) -> Iterator[Receipt]:
    if session.state.refs.at(refs.published(each.dataset)) != each.version:
        params = {"to": each.version, "before": each.published or NOTHING}
        receipt = operate(session, "promote", each.dataset, params, signer=signer, days=days, reason=why, actor=actor)
        yield receipt
        if receipt.status != "SUCCESS" or receipt.job_type != "operation.promote":
            return  # refused, frozen, or waiting for the signatures of others
    if session.state.refs.at(refs.processed(each.dataset)) != each.version:
        inputs = str(len(each.inputs))
        taken = {"branch": name, "version": each.version, "base": each.base, "inputs": inputs}
        yield run_operation(session, "adopt", each.dataset, taken, reason=why, actor=actor)


def is_promoted(session: Session, preview: Preview) -> bool:
    """Return whether every dataset of the preview is published and processed at its approved version."""
    return all(
        session.state.refs.at(refs.in_zone(zone, each.dataset)) == each.version
        for each in preview.datasets
        for zone in ("published", "processed")
    )


def remove_promoted(session: Session, preview: Preview, *, actor: str) -> Receipt | None:
    """Remove the preview once all of it is promoted, and return the receipt; else None."""
    refs = below(session, slug(preview.branch))
    if not refs or not is_promoted(session, preview):
        return None
    return sweep(session, slug(preview.branch), refs, reason=f"{preview.branch} was promoted", actor=actor)
