"""`kfm explain`: gathers the public records of the run that made a thing, and of every run upstream.

An explanation uses only `PublicRun` records. It reads the receipts upstream and never the whole ledger: a dataset ten
derivations deep costs ten lookups among a hundred thousand runs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.app.authority.withdrawals import public_moves, withdrawal, withdrawn_line
from kfm.app.provenance.present_labels import ended_by, present_labels
from kfm.app.runs.resolve import Thing, datasets, find_thing
from kfm.delivery.corrections import correction_of
from kfm.delivery.public_runs import entry_of, public_run
from kfm.delivery.upstream_runs import first_with, upstream_runs
from kfm.errors import BadInput, Corrupt, KfmError
from kfm.fsio import Fs, failing_as_storage, write_apart
from kfm.model import manifests, refs
from kfm.model.lineage_edges import ZONES
from kfm.model.public_run import PublicRun
from kfm.operations.registry import operations
from kfm.parsing.characters import printable
from kfm.projections.explanation import Explanation as Explanation
from kfm.projections.explanation import ExplanationSubject, as_text, build_explanation
from kfm.projections.explanation_sentences import Line
from kfm.projections.live_versions import last_move
from kfm.projections.mermaid import chart
from kfm.projections.pages.explanation_page import page

if TYPE_CHECKING:
    from kfm.app.session.session import Session

LOOKED_AT = 2000  # runs of a dataset that are searched for a successful one


def explain(session: Session, text: str) -> tuple[Explanation, list[PublicRun]]:
    """Return the explanation of the thing that this text names, and the runs it uses. BadInput if nothing has that
    name."""
    return explain_thing(session, find_thing(session, text))


def written(explanation: Explanation, runs: list[PublicRun], form: str) -> str:
    """Return the explanation as text, HTML page or Mermaid chart."""
    if form == "html":
        return page(explanation)
    if form == "mermaid":
        return chart(runs)
    return as_text(explanation)


def write_page(path: str, text: str, what: str = "the explanation") -> str:
    """Write a page in one step and return its absolute path. BadInput if the path is a folder or a link."""
    fs, where = Fs(), os.path.abspath(path)
    if os.path.isdir(where) or os.path.islink(where):
        raise BadInput(f"{printable(path)} is a folder or a link", hint="name a file")
    if not os.path.isdir(os.path.dirname(where)):
        raise BadInput(f"the folder of {printable(path)} is not there", hint="make it first")
    with failing_as_storage(f"write {what}"):
        apart = f"{where}.new"
        write_apart(fs, apart, [text.encode(errors="backslashreplace")], mode=0o644)
        fs.replace(apart, where)
    return where


def explain_thing(session: Session, thing: Thing) -> tuple[Explanation, list[PublicRun]]:
    """Return the explanation of a thing, and the runs it uses, oldest first."""
    with session.state.reading():
        maker, digest = _maker(session, thing)
        first = _public_run(session, maker, whole=True)
        upstream, origins, cut = upstream_runs(session.state, session.objects, first)
        dataset = first.dataset
        version = thing.version or (first.version if thing.kind != "run" else "")
        published = _published(session, dataset, version) if version else None
        explanation = build_explanation(
            ExplanationSubject(
                thing=thing.name,
                kind=thing.kind,
                dataset=dataset,
                version=version,
                ref=thing.ref,
                path=thing.path,
                digest=digest,
            ),
            first,
            upstream,
            origins,
            published=published if published is None or published.run_id != first.run_id else None,
            last_good=_last_good(session, dataset),
            cut=cut,
            today=present_labels(session, dataset, version or first.version).now if first.version else "",
            present=_since(session, dataset, version),
            correction=correction_of(session.state, session.objects, dataset, version),
        )
    runs = {run.index: run for run in (first, *upstream)}
    return explanation, [runs[index] for index in sorted(runs)]


# -- the maker


def _maker(session: Session, thing: Thing) -> tuple[str, str]:
    """Return the run that made a thing, and the digest if it is a file or object."""
    if thing.kind == "run":
        run = session.state.runs.get(thing.run_id)
        if run is not None and run.status == "RUNNING":
            raise BadInput(f"run {thing.run_id} is unfinished", hint=f"see `kfm runs show {thing.run_id}`")
        return thing.run_id, ""
    if thing.kind == "file":
        return first_with(session.state, session.objects, thing.dataset, thing.version, thing.digest), thing.digest
    if thing.kind == "object" or (thing.digest and not thing.version):
        return _of_object(session, thing.digest), thing.digest
    if thing.version:
        made = session.state.ledger.version(thing.dataset, thing.version)
        if made is None:
            raise Corrupt(f"the run that made {thing.version} is not recorded", hint="see `kfm doctor --deep`")
        return made.run_id, ""
    if thing.run_id:  # a withdrawn ref, or a freeze flag
        return thing.run_id, ""
    for entry in session.state.ledger.entries_of(thing.dataset):
        return entry.run_id, ""
    raise BadInput(
        f"{thing.dataset} was never run", hint=f"`kfm run {thing.dataset}`, or `kfm why-not {thing.dataset}`"
    )


def _of_object(session: Session, digest: str) -> str:
    """Return the run of an object: by an entry of a current version, or by a source as last read. BadInput if neither
    names it."""
    for ref, at in session.state.refs.all(refs.RAW):
        if at == digest:
            last = next(iter(session.state.refs.history(ref, reverse=True, limit=1)))
            return last.run_id
    for name in datasets(session):
        for version in dict.fromkeys(session.state.refs.at(refs.in_zone(zone, name)) for zone in ZONES):
            if not version:
                continue
            try:
                found = any(entry.digest == digest for entry in manifests.entries(session.objects, version))
            except KfmError:  # encrypted
                continue
            if found:
                return first_with(session.state, session.objects, name, version, digest)
    raise BadInput(
        f"{digest[:19]} is stored, and nothing that is current leads to it",
        hint="name the run, the dataset or the version it belongs to",
    )


def _public_run(session: Session, run_id: str, *, whole: bool = False) -> PublicRun:
    return public_run(session.state, session.objects, entry_of(session.state, run_id), parts=whole)


# -- downstream


def _published(session: Session, dataset: str, version: str) -> PublicRun | None:
    move = last_move(public_moves(session, dataset, version), version)
    return None if move is None else _public_run(session, move.run_id)


def _since(session: Session, dataset: str, version: str) -> list[Line]:
    """Return what became of a published version: which run put another one in its place, or who withdrew it and why."""
    moves = public_moves(session, dataset, version)
    after = ended_by(moves, version)
    if after is None:
        return []
    taken_back = withdrawal(session, dataset, version)
    if taken_back is not None:
        run = _public_run(session, taken_back.run_id)
        public = moves[-1].after
        now = f"Version {public[7:23]} is public today." if public else f"Nothing of {dataset} is public today."
        said = [f"It was {withdrawn_line(taken_back).rstrip('.')}.", now]
    else:
        run = _public_run(session, after.run_id)
        said = [f"It is no longer the current public version: {after.op} put another one in its place at {after.ts}."]
    return [Line(about="published", text=text, cites=(run.receipt_digest,)) for text in said]


def _last_good(session: Session, dataset: str) -> PublicRun | None:
    """Return the last successful run of a dataset, including runs with nothing to do; operations do not count."""
    for number, entry in enumerate(session.state.ledger.entries_of(dataset)):
        if number >= LOOKED_AT:
            return None
        if entry.outcome in ("done", "unchanged", "noop") and _counts_as_ingest(entry.op_type):
            return public_run(session.state, session.objects, entry, parts=False)
    return None


def _counts_as_ingest(op: str) -> bool:
    kind = operations().get(op)
    return kind is None or kind.counts_as_ingest
