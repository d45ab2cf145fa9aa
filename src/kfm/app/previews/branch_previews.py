"""Builds the preview of a branch: runs its datasets in this installation, starting from the processed versions.

A branch brings its declarations, code and files. State, keys, custodians, policies and network rules are those of the
installation, so a branch cannot loosen the rules that judge it. Labels that it adds count; labels that it removes stay.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from kfm import config
from kfm.app.previews.git_branches import Repository
from kfm.app.runs.execution import Request
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_config, dataset_updater
from kfm.config import DatasetConfig, Resolved
from kfm.errors import BadInput, Corrupt, Moved, Refused, Sovereignty
from kfm.fsio import REAL, failing_as_storage
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.labels import LEVELS
from kfm.model.names import dataset_id
from kfm.model.preview_records import (
    Preview,
    PreviewedDataset,
    PreviewInput,
    preview_of,
    record_ref,
    slug,
    zone_ref,
)
from kfm.model.records import Receipt, Trigger
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.app.runs.execution import Tell
    from kfm.app.session.session import Session

FOLDER = ".kfm/previews"


class Proposal(msgspec.Struct, frozen=True):
    """A branch, checked out into a folder, and the installation as it would be with it."""

    branch: str
    commit: str
    resolved: Resolved  # the installation with the branch's datasets
    theirs: Resolved  # the configuration of the branch itself
    datasets: tuple[str, ...]  # the datasets that it changes, or those that were named
    removed: tuple[str, ...]
    bases: dict[str, str] = {}  # by dataset: the processed version when its run began

    @property
    def slug(self) -> str:
        return slug(self.branch)


@contextmanager
def proposed(resolved: Resolved, branch: str, named: list[str], *, every: bool = False) -> Iterator[Proposal]:
    """Check out a branch into a temporary folder, and yield the proposal. The folder is removed afterwards."""
    repository = Repository(resolved.root)
    commit = repository.commit_of(branch)
    folder = os.path.join(resolved.at(FOLDER), f"{slug(branch)}.{os.getpid()}")
    with failing_as_storage("lay out a branch"):
        _clear(resolved.at(FOLDER))
        REAL.make_dirs(folder)
    path = list(sys.path)
    try:
        tree = repository.lay_out(commit, folder)
        sys.path.insert(0, tree)  # for modules that an updater names by their dotted name
        theirs = _declared(tree, os.path.basename(resolved.path), branch)
        _check_open(resolved, theirs)
        _lend(resolved, repository, theirs, tree)
        ours = resolved.config.datasets
        changed = repository.changed(commit)
        datasets = theirs.config.datasets
        wanted = [dataset_id(name) for name in named] or [
            name for name in sorted(datasets) if every or _is_touched(ours.get(name), datasets[name], changed)
        ]
        for name in wanted:
            if name not in datasets:
                raise BadInput(f"the branch declares no dataset {name}", hint="it names: " + ", ".join(datasets))
        removed = tuple(sorted(set(ours) - set(datasets)))
        yield Proposal(branch, commit, _as_proposed(resolved, theirs, tree), theirs, tuple(wanted), removed)
    finally:
        sys.path[:] = path
        with failing_as_storage("clear a branch away"):
            REAL.remove_tree(folder)


def _clear(folder: str) -> None:
    """Remove the temporary folders of branches that killed processes left behind."""
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        pid = name.rpartition(".")[2]
        if not (pid.isdecimal() and os.path.exists(f"/proc/{pid}")):
            REAL.remove_tree(os.path.join(folder, name))


def _declared(tree: str, name: str, branch: str) -> Resolved:
    path = os.path.join(tree, name)
    if not os.path.isfile(path):
        raise BadInput(f"branch {printable(branch, 80)} has no {name}", hint="an installation is declared there")
    return config.load(path, os.environ)


def _as_proposed(resolved: Resolved, theirs: Resolved, tree: str) -> Resolved:
    """Return the configuration of the installation with the datasets of the branch."""
    said = resolved.config
    labels = theirs.at(theirs.config.labels) if theirs.config.labels else ""
    found = Resolved(
        msgspec.structs.replace(
            said,
            datasets=theirs.config.datasets,
            labels=said.labels or labels,
            custodians={**theirs.config.custodians, **said.custodians},
        ),
        resolved.path,
        resolved.document,
    )
    found.tree, found.proposed = tree, labels if said.labels else ""
    return found


def _lend(resolved: Resolved, repository: Repository, theirs: Resolved, tree: str) -> None:
    """Link source files that lie in the installation but not in the repository into the branch's folder. They are not
    copied, so that protected data has no second copy."""
    for dataset in theirs.config.datasets.values():
        for source in dataset.sources.values():
            name = os.path.normpath(source.uri)
            if "://" in source.uri or source.uri.startswith("file:") or os.path.isabs(name) or name.startswith(".."):
                continue
            here, there = resolved.at(name), os.path.join(tree, name)
            if os.path.isfile(here) and not os.path.lexists(there) and not repository.is_tracked(name):
                with failing_as_storage("lay out a source"):
                    REAL.make_dirs(os.path.dirname(there))
                    REAL.link(here, there)


def _check_open(resolved: Resolved, theirs: Resolved) -> None:
    """Raise Sovereignty if a branch opens a dataset that is closed here, and Refused if it would send a secret to
    another address."""
    for name, dataset in theirs.config.datasets.items():
        ours = resolved.config.datasets.get(name)
        was = ours.sensitivity if ours is not None else None
        if was is not None and (dataset.sensitivity is None or _level(dataset) < LEVELS.index(was)):
            raise Sovereignty(
                f"the branch makes {name} more open than it is here, and that is not previewed",
                hint="the owners of the data decide that first; then change `sensitivity` and run it",
            )
        for source, said in dataset.sources.items():
            known = ours.sources.get(source) if ours is not None else None
            lent = known is not None and (known.uri, known.headers, known.query) == (said.uri, said.headers, said.query)
            if (said.headers or said.query) and not lent:
                raise Refused(
                    f"source {source} of {name} uses a secret in a way that is not merged yet",
                    hint="merge the reference first: a branch gets no secrets before it is reviewed",
                )


def _level(dataset: DatasetConfig) -> int:
    assert dataset.sensitivity is not None
    return LEVELS.index(dataset.sensitivity)


def _is_touched(ours: DatasetConfig | None, theirs: DatasetConfig, changed: list[str]) -> bool:
    """Return whether the changed files of the branch affect this dataset."""
    if ours is None or ours.digest() != theirs.digest():
        return True
    if theirs.updater is not None and any(name.endswith(".py") for name in changed):
        return True
    files = {os.path.normpath(path) for source in theirs.sources.values() for path in (source.uri, source.mask) if path}
    return any(name in files for name in changed)


# -- building


def build_requests(proposal: Proposal, *, reason: str, actor: str) -> list[Request]:
    """Return a request to run each dataset of the proposal."""

    def request(name: str) -> Request:
        def do(session: Session, _tell: Tell) -> list[Receipt]:
            return [run_trigger(session, _trigger(session, proposal, name, reason, actor))]

        return Request(name, do)

    return [request(name) for name in proposal.datasets]


def _trigger(session: Session, proposal: Proposal, name: str, reason: str, actor: str) -> Trigger:
    """Return the trigger of a preview run. A killed build of the same commit is resumed; an outdated one is
    abandoned."""
    base = proposal.bases[name] = session.state.refs.at(refs.processed(name))
    built_from = [dataset_config(session, name).digest(), dataset_updater(session, name).code_hash, base]
    params = {"preview": proposal.slug, "build": digest(canonical(built_from))[7:39]}
    stale = [
        run
        for run in session.state.runs.unfinished(name)
        if preview_of(run.trigger) == proposal.slug and run.trigger.params != params
    ]
    said = reason or f"preview of {proposal.branch}"
    trigger = new_trigger(session, name, abandon=bool(stale), reason=said, actor=actor)
    return msgspec.structs.replace(trigger, params=params)


def store_preview(
    session: Session, proposal: Proposal, receipts: list[Receipt], *, actor: str
) -> tuple[Preview, str, Receipt]:
    """Store the record of a preview, whose digest people approve. Return the record, the digest and the receipt. Moved
    if a processed version changed meanwhile."""
    found = Preview(
        branch=proposal.branch,
        commit=proposal.commit,
        datasets=tuple(_previewed(session, proposal, receipt) for receipt in receipts),
        removed=proposal.removed,
    )
    for each in found.datasets:
        if each.base != proposal.bases[each.dataset]:
            raise Moved(f"processed/{each.dataset} moved while the preview was built", hint="build it again")
    at = session.objects.put(canonical(found))
    params = {"branch": proposal.slug, "to": at}
    why = f"preview of {proposal.branch} at {proposal.commit[:12]}"
    receipt = run_operation(session, "preview", "preview", params, reason=why, actor=actor)
    if receipt.status == "SUCCESS":
        kept = {each.dataset for each in found.datasets}
        rest = [ref for ref in below(session, proposal.slug) if ref != "record" and ref.split("/")[1] not in kept]
        if rest:
            sweep(session, proposal.slug, rest, reason="the branch does not change it any more", actor=actor)
    return found, at, receipt


def _previewed(session: Session, proposal: Proposal, receipt: Receipt) -> PreviewedDataset:
    name, state = receipt.dataset, session.state
    trigger = Trigger(kind="manual", updater_id="", dataset=name, params={"preview": proposal.slug})
    good = receipt.status == "SUCCESS" or receipt.outcome == "noop"
    version = state.refs.at(zone_ref("processed", name, trigger)) if good else ""
    made = state.ledger.version(name, version) if version else None
    return PreviewedDataset(
        dataset=name,
        run_id=(made.validated_by or made.run_id) if made is not None else receipt.run_id,
        version=version,
        base=state.refs.at(refs.processed(name)),
        published=state.refs.at(refs.published(name)),
        updater_version=receipt.updater_version,
        config_hash=dataset_config(session, name).digest(),
        code_hash=dataset_updater(session, name).code_hash,
        inputs=tuple(PreviewInput(uri=item.id, digest=item.checksum) for item in receipt.inputs),
        problems=() if good else tuple(note.code for note in receipt.errors) or (receipt.outcome,),
    )


# -- stored previews


def find(session: Session, branch: str) -> tuple[Preview, str]:
    """Return the current preview of a branch, and its digest. Refused if there is none."""
    at = session.state.refs.at(record_ref(slug(branch)))
    if not at:
        raise Refused(f"there is no preview of {printable(branch, 80)}", hint="build it: `kfm preview build BRANCH`")
    return read(session, at), at


def read(session: Session, at: str) -> Preview:
    """Return the record of a preview. Corrupt if the object with this digest is not such a record."""
    try:
        return msgspec.json.decode(session.objects.read(at), type=Preview)
    except msgspec.MsgspecError:
        raise Corrupt(f"{at} is no record of a preview", hint="restore the state from a copy") from None


def previews(session: Session) -> Iterator[tuple[str, Preview, str, str]]:
    """Yield every stored preview: its name in refs, its record, its digest, and when it was built."""
    for ref, at in list(session.state.refs.all(refs.PREVIEW)):
        if at and ref.endswith("/record") and ref.count("/") == 2:
            last = next(iter(session.state.refs.history(ref, reverse=True, limit=1)))
            yield ref.split("/")[1], read(session, at), at, last.ts


def below(session: Session, name: str) -> list[str]:
    """Return the refs of a preview that exist, without their common prefix."""
    zone = refs.preview(name, "")
    return [ref.removeprefix(zone) for ref, at in list(session.state.refs.all(zone)) if at]


def sweep(session: Session, name: str, refs: list[str], *, reason: str, actor: str = "") -> Receipt:
    """Remove these refs of a preview in one transaction, and return the receipt."""
    params = {"branch": name, "refs": " ".join(sorted(refs))}
    return run_operation(session, "sweep", "preview", params, reason=reason, actor=actor)
