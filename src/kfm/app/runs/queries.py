"""Read-only queries on a session, answered with records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.app.authority.run_setup import context_of
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.backends import open_tree
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.protection_files import readable_objects, readable_row
from kfm.app.session.session import Session
from kfm.config.config_file import has_pages
from kfm.errors import BadInput, KfmError
from kfm.model import refs
from kfm.model.keys import scopes
from kfm.model.manifests import entries, find
from kfm.model.names import check_ref, dataset_id, is_digest
from kfm.model.records import (
    Effect,
    EndedTrigger,
    Lease,
    ManifestEntry,
    Receipt,
    RefEntry,
    Run,
    SourceRef,
    Step,
    Trigger,
)
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest
from kfm.projections.file_paths import is_page
from kfm.store.process_identity import is_held

if TYPE_CHECKING:
    from kfm.engine.plan_preview import PlanPreview


def worker(session: Session, unfinished: Run) -> Lease | None:
    """Return the lease of the worker that executes this run; None if it expired or its process is known to be dead."""
    for scope in scopes(unfinished.updater_id, unfinished.dataset, unfinished.trigger.partition):
        lease = session.state.leases.of(scope)
        if lease is not None and is_held(lease, session.state.now_ms()):
            return lease
    return None


def preview(session: Session, dataset: str, window: str = "", partition: str = "") -> PlanPreview:
    """Return the plan that a run would make now, and how it differs from the one locked for these inputs."""
    from kfm.engine.plan_preview import preview_plan

    name = dataset_id(dataset)
    trigger = new_trigger(session, name, window=window, partition=partition)
    return preview_plan(context_of(session, trigger, dataset_updater(session, name)))


def replan(session: Session, dataset: str, inputs: list[SourceRef], window: str = "", partition: str = "") -> str:
    """Return the hash of the plan that this process makes from inputs that were pinned and inspected before."""
    from kfm.engine.plan_preview import plan_hash

    name = dataset_id(dataset)
    trigger = new_trigger(session, name, window=window, partition=partition)
    return plan_hash(context_of(session, trigger, dataset_updater(session, name)), inputs)


def find_run(session: Session, text: str) -> str:
    """Return the id of a run, given the id, its start, or `last`. BadInput unless exactly one matches."""
    if text == "last":
        for unfinished in session.state.runs.unfinished():
            return unfinished.run_id
        for entry in session.state.ledger.entries(reverse=True, limit=1):
            return entry.run_id
        raise BadInput("there is no run yet", hint="start one with `kfm run`")
    if not text or len(text) > 36 or not all(c in "0123456789abcdef-" for c in text):
        raise BadInput(f"{printable(text)} is not the id of a run", hint="see `kfm runs list`")
    if session.state.runs.get(text) is not None or session.state.ledger.receipt(text) is not None:
        return text
    found = set(session.state.runs.ids(text))
    if len(found) == 1:
        return found.pop()
    if found:
        raise BadInput(f"{len(found)} runs begin with {text}", hint="give more of the id")
    raise BadInput(f"there is no run {text}", hint="see `kfm runs list`")


SHORT = 8


def short_run(session: Session, run_id: str) -> str:
    """Return the shortest start of a run's id that no other run shares, with at least 8 characters."""
    with session.state.recent():
        for length in range(SHORT, len(run_id), 4):
            if len(set(islice(session.state.runs.ids(run_id[:length]), 6)) - {run_id}) == 0:
                return run_id[:length]
    return run_id


def runs(session: Session, limit: int, wanted: str) -> Iterator[dict[str, str]]:
    """Yield unfinished runs, then ended ones in ledger order, newest first. `limit` applies to the ended ones."""
    count = 0
    for run in session.state.runs.unfinished(wanted):
        count += 1
        op = run.updater_id.removeprefix("kfm-") if run.trigger.kind == "operation" else "ingest"
        yield _run_row(run.started_at, run.dataset, run.trigger.partition, op, "RUNNING", "unfinished", run.run_id)
    ledger = session.state.ledger
    for entry in ledger.entries_of(wanted) if wanted else ledger.entries(reverse=True):
        if 0 <= limit <= count:
            return
        receipt = ledger.receipt(entry.run_id)
        if receipt is not None:
            count += 1
            about = (receipt.started_at, receipt.dataset, receipt.partition, entry.op_type)
            yield _run_row(*about, receipt.status, receipt.outcome, receipt.run_id)


RUN_ROW = ("started", "dataset", "partition", "op", "status", "outcome", "run")


def _run_row(*values: str) -> dict[str, str]:
    return dict(zip(RUN_ROW, values, strict=True))


def steps(session: Session, run: Run) -> Iterator[tuple[Step, str, str]]:
    """Yield each step of the journaled plan with its status and the digest of its output."""
    done: dict[int, str] = {}
    failed: set[int] = set()
    begun = 0
    for segment, _ in session.state.journal.segments(run.run_id):
        done.update({position: digest for position, digest, _, _ in segment.done})
        failed.update(position for position, _ in segment.failed)
        begun = max([begun, *(end for _, end in segment.intent)])
    decode = msgspec.json.Decoder(Step).decode_lines
    position = 0
    for n, body in enumerate(
        map(partial(readable_row, session), session.state.journal.plan_chunks(run.plan_hash) if run.plan_hash else ())
    ):
        for step in decode(body[body.index(b"\n") + 1 :] if n == 0 else body):
            if position in done or run.status == "COMMITTED":
                status = "DONE"
            elif position in failed:
                status = "FAILED"
            else:
                status = "IN_PROGRESS" if position < begun and run.status == "RUNNING" else "PENDING"
            yield step, status, done.get(position, "")
            position += 1


def ref_history(session: Session, ref: str) -> list[RefEntry]:
    """Return the moves of a ref, oldest first. BadInput if there is no such ref."""
    moves = list(session.state.refs.history(ref))
    if not moves:
        raise _no_ref(session, ref)
    return moves


def _no_ref(session: Session, name: str) -> BadInput:
    close = nearest(name, [ref for ref, _ in session.state.refs.all(name.partition("/")[0])])
    hint = f"did you mean {close}?" if close and close != name else "see `kfm refs list`"
    return BadInput(f"there is no ref {printable(name)}", hint=hint)


def held_sources(session: Session, dataset: str, partition: str | None = None) -> list[dict[str, Any]]:
    """Return the quarantine report of each source that has quarantined rows now (in a dry run: would have). With a
    `partition` only its report; without one those of the dataset and of all its partitions, whose sources are named
    `partition/source`."""
    ref = refs.quarantine(dataset)
    if partition is not None:
        reports = [("", session.state.refs.at(f"{ref}/{partition}" if partition else ref))]
    else:
        whole = session.state.refs.at(ref)
        parts = session.state.refs.all(ref + "/")
        reports = [("", whole), *((name.removeprefix(ref + "/") + "/", report) for name, report in parts)]
    return [
        {**source, "source": part + source["source"]}
        for part, report in reports
        if report
        for source in msgspec.json.decode(readable_objects(session).read(report))["sources"]
    ]


def held_rows(session: Session, sources: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the quarantined rows of these sources, as `kfm quarantine --rows` writes them."""
    for source in sources:
        if source["held_rows_digest"]:
            for line in readable_objects(session).read(source["held_rows_digest"]).splitlines():
                yield msgspec.json.decode(line, type=dict[str, Any])


def find_version(session: Session, text: str) -> tuple[str, bool]:
    """Return the digest that a ref or digest names, and whether it is a version with entries rather than plain bytes.
    BadInput if there is none."""
    if is_digest(text):
        if not readable_objects(session).has(text):
            raise BadInput(f"there is no object {text}", hint="see `kfm refs list`")
        return text, False
    name = check_ref(text)
    target = session.state.refs.at(name)
    if not target:
        raise _no_ref(session, name)
    if not is_digest(target):
        raise BadInput(f"{name} is a freeze flag; it is {target}", hint=f"see `kfm refs history {name}`")
    return target, name.startswith(refs.VERSIONS)


def entries_of(session: Session, version: str) -> Iterator[ManifestEntry]:
    """Yield the entries of a version."""
    return entries(readable_objects(session), version)


def find_entry(session: Session, version: str, text: str) -> ManifestEntry:
    """Return the entry with this key. BadInput unless exactly one matches."""
    found = _meant(session, version, text)
    if not found:
        raise BadInput(f"the version has no entry {printable(text)}", hint="without a key, `kfm cat` lists them")
    if len(found) > 1:
        forms = " or ".join(f"'{exact_key(entry.key)}'" for entry in found[:2])
        raise BadInput(f"{printable(text)} is the key of {len(found)} entries", hint=f"say which: {forms}")
    return found[0]


def _meant(session: Session, version: str, text: str) -> list[ManifestEntry]:
    """Return the entries whose key is this text: parts joined by `/`, or a JSON list, which is unambiguous."""
    if text.startswith("["):
        try:
            exact = find(readable_objects(session), version, msgspec.json.decode(text, type=tuple[str, ...]))
        except msgspec.MsgspecError:
            exact = None
        if exact is not None:
            return [exact]
    parts = text.split("/")
    if len(parts) > 6:  # it can be split in so many ways that reading every key is quicker
        return [entry for entry in entries(readable_objects(session), version) if "/".join(entry.key) == text]
    ways: list[tuple[str, ...]] = [(parts[0],)]
    for part in parts[1:]:
        ways = [way for made in ways for way in ((*made, part), (*made[:-1], f"{made[-1]}/{part}"))]
    return [entry for way in ways if (entry := find(readable_objects(session), version, way)) is not None]


def exact_key(key: tuple[str, ...]) -> str:
    return msgspec.json.encode(key).decode()


def triggers(session: Session, *, ended: bool, limit: int) -> Iterator[dict[str, str]]:
    """Yield the waiting triggers, and with `ended` also ended ones, newest first. `limit` applies to the ended ones."""
    for waiting in session.state.inbox.waiting():
        yield _trigger_row(waiting, "waiting", "")
    if ended:
        for past in session.state.inbox.all_ended(reverse=True, limit=limit):
            yield _ended_row(session, past)


def trigger(session: Session, trigger_id: str) -> dict[str, str]:
    """Return the row of one trigger, waiting or ended. BadInput if there is none."""
    waiting = next((each for each in session.state.inbox.waiting() if each.trigger_id == trigger_id), None)
    if waiting is not None:
        return _trigger_row(waiting, "waiting", "")
    past = session.state.inbox.ended(trigger_id)
    if past is None:
        raise BadInput(f"there is no trigger {printable(trigger_id)}", hint="see `kfm triggers list --all`")
    return _ended_row(session, past)


def _ended_row(session: Session, past: EndedTrigger) -> dict[str, str]:
    receipt = session.state.ledger.receipt(past.run_id)
    return _trigger_row(past.trigger, receipt.outcome if receipt else "ended", past.run_id)


def _trigger_row(trigger: Trigger, state: str, run_id: str) -> dict[str, str]:
    return {
        "trigger_id": trigger.trigger_id,
        "dataset": trigger.dataset,
        "kind": trigger.kind,
        "asks": requested_move_of(trigger),
        "state": state,
        "received_at": trigger.received_at,
        "actor": trigger.actor,
        "reason": trigger.reason,
        "window": trigger.window,
        "partition": trigger.partition,
        "run_id": run_id,
    }


def requested_move_of(trigger: Trigger) -> str:
    """Return the move that an operation's trigger waits to make; empty for a run."""
    if trigger.kind != "operation":
        return ""
    operation, params = trigger.updater_id.removeprefix("kfm-"), trigger.params
    if operation in ("freeze", "thaw"):
        return f"{operation} {params.get('scope') or trigger.dataset}"
    if "before" not in params:
        return operation
    moved = refs.hotfix if operation == "hotfix" else refs.published
    ref = params.get("ref") or moved(trigger.dataset)
    return f"{operation} {ref} from {params['before']} to {params['to']}"


def version_of(session: Session, receipt: Receipt) -> str:
    """Return the version that a run made or moved; for a run with nothing to do, the processed version."""
    if receipt.outcome == "noop":
        return session.state.refs.at(refs.processed(receipt.dataset))
    kinds = ("dataset", "ref")
    found = (item for kind in kinds for item in receipt.outputs if item.kind == kind)
    return next((item.checksum for item in found if not item.id.startswith(refs.HOTFIX)), "")


def frozen_by(session: Session, dataset: str) -> RefEntry | None:
    """Return the move that froze a dataset, by its own freeze flag or the global one, or that put it at amber; None if
    no flag is set."""
    for switch in (*refs.switches(dataset), *refs.ambers(dataset)):
        if refs.is_frozen(session.state.refs.at(switch)):
            return next(session.state.refs.history(switch, reverse=True, limit=1))
    return None


def already_published(session: Session, effects: Sequence[Effect]) -> list[Effect]:
    """Return the effects whose file the public folder or bucket, or the catalog, already holds exactly. A bucket that
    does not answer is asked once."""
    config, found = session.config, []
    places = {"": config.publish if has_pages(config.publish) else "", "catalog/": config.catalog}
    trees = {beginning: open_tree(session.resolved, url) for beginning, url in places.items() if url}
    for effect in effects:
        path = effect.target
        beginning = "catalog/" if path.startswith("catalog/") and config.catalog else ""
        is_ours = beginning or path.startswith("datasets/") or is_page(path)
        if effect.method != "write_file" or not is_ours or beginning not in trees:
            continue
        try:
            if trees[beginning].holds(path.removeprefix(beginning), effect.digest):
                found.append(effect)
        except KfmError:
            del trees[beginning]
    return found
