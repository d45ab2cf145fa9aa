"""Runs recorded work again from its recorded inputs, over stores that write nothing lasting."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kfm.engine.run import run as run_stages
from kfm.engine.run_context import RunContext
from kfm.errors import Refused
from kfm.model import refs
from kfm.model.operation_target import REF
from kfm.model.ports import Objects, State, Tables
from kfm.model.preview_records import preview_of
from kfm.model.records import Checkpoint, Fetched, FetchRequest, Receipt, RefMove, Run, SourceRef, Trigger

_WHY = "to see whether it gives the same"


class RecordedSource:
    """A source that returns the bytes that the earlier run read, not those of today."""

    def __init__(self, inputs: Sequence[SourceRef], readable: Objects) -> None:
        self._inputs = inputs
        self._readable = readable

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched:  # noqa: ARG002
        ref = self._recorded(request)
        staging = objects.stage()
        try:
            with self._readable.open(ref.content_hash) as file:
                while piece := file.read(1 << 20):
                    staging.write(piece)
        except BaseException:
            staging.abort()
            raise
        content_hash, _ = staging.commit()
        checkpoint = Checkpoint(
            uri=request.uri,
            content_hash=content_hash,
            size=ref.size,
            media_type=ref.media_type,
            etag=ref.etag,
            last_modified=ref.last_modified,
            fetched_ms=request.now_ms,
            checked_ms=request.now_ms,
        )
        again = SourceRef(
            uri=request.uri,
            content_hash=content_hash,
            size=ref.size,
            name=request.name,
            media_type=ref.media_type,
            partition=request.partition,
            etag=ref.etag,
            last_modified=ref.last_modified,
            complete=request.complete and ref.complete,
        )
        return Fetched(ref=again, checkpoint=checkpoint, not_modified=False)

    def _recorded(self, request: FetchRequest) -> SourceRef:
        named = [ref for ref in self._inputs if (ref.name, ref.partition) == (request.name, request.partition)]
        same = [ref for ref in named if ref.uri == request.uri]
        if same or (named and request.name):
            return (same or named)[0]
        raise Refused(
            f"the run read no source {request.name or 'of this address'}",
            hint="the configuration or inputs() has changed since",
        )


def rewind(tables: Tables, state: State, run: Run, ts: str) -> None:
    """Set the temporary state to what the run found: the refs that it read and moved are where they were, no other run
    is unfinished, and no freeze flag is set. The state must be a view whose writes are not kept."""
    before = refs.processed(run.dataset)
    moved = {move.ref: move.before for move in run.moves}
    wanted = {ref.uri.removeprefix(REF): ref.content_hash for ref in run.inputs if ref.uri.startswith(REF)}
    wanted |= {before: went_out_from(state, run) if preview_of(run.trigger) else moved.get(before, run.version_digest)}
    wanted |= {switch: "open" for switch, _ in state.refs.all(refs.SWITCH)}
    with state.transaction(durable=False) as tx:
        for ref, at in wanted.items():
            now = state.refs.at(ref)
            if now != at:
                move = RefMove(ref=ref, before=now, after=at)
                tx.refs.move(move, run_id=run.run_id, op="reproduce", actor="kfm", reason=_WHY, ts=ts)
        for unfinished in list(state.runs.unfinished(run.dataset)):
            tx.runs.save(msgspec.structs.replace(unfinished, status="FAILED"))
    tables.begin(False)
    for scope, _ in list(tables.scan("leases")):
        tables.delete("leases", scope)
    tables.commit()


def went_out_from(state: State, run: Run) -> str:
    """Return the processed version that the preview of a branch started from."""
    version = state.ledger.version(run.dataset, run.version_digest)
    return version.supersedes if version is not None else ""


def again_trigger(run: Run) -> Trigger:
    """Return the trigger that runs the work of an earlier run again."""
    return msgspec.structs.replace(run.trigger, trigger_id="", force=True, reason=_WHY)


def again(run: Run, context: RunContext, readable: Objects) -> Receipt:
    """Run the work of an earlier run again, from its recorded inputs, and return the new receipt. The context is that
    of `again_trigger(run)`, over a temporary state."""
    recorded = RecordedSource(run.inputs, readable)
    context.world = msgspec.structs.replace(context.world, open_source=lambda _uri: recorded)
    return run_stages(context)
