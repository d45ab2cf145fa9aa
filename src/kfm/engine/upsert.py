"""The commit point: refs move here, and only here, in one transaction with everything that proves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import msgspec

from kfm.engine.author_overrides import further, upserted
from kfm.engine.manifest.manifest_builder import write_manifest
from kfm.engine.manifest.manifest_tree import Tally
from kfm.engine.partition_base import marks
from kfm.engine.receipt_stage import input_items, outcome_of, quarantine_moves, zones_in, zones_out
from kfm.engine.run_context import RunContext
from kfm.engine.stage_results import Assembled, Executed, Planned, Warrant
from kfm.engine.zone_gates import (
    Publication,
    admit_to_processed,
    admit_to_published,
    is_yes,
    publications,
    still_holds,
    still_labelled,
)
from kfm.errors import Denied, Moved
from kfm.model import refs
from kfm.model.ports import Tx
from kfm.model.preview_records import preview_of, zone_ref
from kfm.model.records import Classification, DatasetVersion, Receipt, RefMove, Run
from kfm.model.run_overrides import deletions_allowed
from kfm.projections.file_paths import KEEPS_CASE, keeps_case


def assemble(context: RunContext, planned: Planned, executed: Executed) -> Assembled:
    """Return the new version and the moves of refs that the run is about to commit. Denied if a gate or the authority
    refuses them."""
    context.stage = "UPSERT"
    plan, run, inputs = planned.plan, planned.journal.run, planned.inputs
    moves = list(executed.moves)
    if context.updater.moves_only:
        shown = list(publications(context, moves))
        decisions = [admit_to_published(context, each) for each in shown]
        warrant = context.guards.authority(context.updater, context.trigger, moves) if moves else Warrant()
        moves += warrant.moves
        return Assembled(
            moves,
            rows=warrant.rows,
            decisions=decisions,
            held={**warrant.held, **_shown_with(shown, moves)},
            orders=warrant.orders,
            lowered=warrant.lowered,
            served=context.guards.served_with(moves),
            of=input_items(context.updater, context.dataset, inputs),
        )
    if context.guards.protection is not None:
        from kfm.engine.protected.leak_check import check_made
        from kfm.engine.protected.verdict import release

        check_made(context, planned, executed)
        release(context, planned, executed)
    context.world.progress("commit", 0, 0)
    partition = context.trigger.partition
    with context.world.state.reading():
        before = context.world.state.refs.at(refs.processed(context.dataset))
        kept = carried_from(context, before)
        carried = context.world.state.ledger.version(context.dataset, kept) if kept else None
        moves += _moves_below(context, planned)
    sealed = plan.complete and bool(inputs) and all(source.complete for source in inputs)
    made, rows, tally = write_manifest(context, planned, executed.results, kept, sealed)
    _check_deletions(context, tally)
    version = DatasetVersion(
        dataset=context.dataset,
        digest=made.digest,
        entries=made.entries,
        size=made.size,
        supersedes=before if before != made.digest else "",
        run_id=run.run_id,
        updater_id=run.updater_id,
        updater_version=run.updater_version,
        plan_hash=plan.plan_hash,
        input_hash=run.input_hash,
        metadata=run.metadata,
        validation={
            "rows": sum(source.rows for source in inputs),
            "held_rows": sum(source.held_rows for source in inputs),
            "contracts": sum(1 for source in inputs if source.contract_hash),
            "sources": len(inputs),
            **_names_mark(context, tally, None if sealed and not partition else carried, made.digest),
            **(marks(context.world.state.ledger.version(context.dataset, before), run, inputs) if partition else {}),
        },
        deleted=tally.deleted,
        created_at=run.started_at,
        code_hash=run.code_hash,
        standing=context.standing,
    )
    version = upserted(context, version, planned, executed)
    read = input_items(context.updater, context.dataset, inputs)
    of = read + further(context, read)
    changes = {
        "added": made.entries - (tally.old - tally.deleted),
        "changed": tally.superseded,
        "removed": tally.deleted,
        "keys": made.entries,
    }
    decision = admit_to_processed(context, run, inputs, version)
    moves += _processed_moves(context, before, made.digest)
    return Assembled(moves, version, changes, rows, [decision], of=of)


def _shown_with(shown: list[Publication], moves: list[RefMove]) -> dict[str, str]:
    """Return the refs that the gates looked at and that do not move themselves, with their values: the version that a
    hotfix corrects, and the hotfixes that a version is shown with. The commit compares them again."""
    moved = {move.ref for move in moves}
    found = {}
    for each in shown:
        found[each.move.ref] = each.move.after
        found[refs.hotfix(each.dataset)] = each.fixes
    return {ref: at for ref, at in found.items() if ref not in moved}


def _names_mark(context: RunContext, tally: Tally, carried: DatasetVersion | None, digest: str) -> dict[str, int]:
    """Return the mark of a version whose published names keep their case; {} if no key has a capital letter. A version
    that was made before keeps the names under which it may be public."""
    if not tally.capitals and not keeps_case(carried):
        return {}
    known = context.world.state.ledger.version(context.dataset, digest)
    return {KEEPS_CASE: 1} if known is None or keeps_case(known) else {}


def carried_from(context: RunContext, before: str) -> str:
    """Return the version whose other entries are carried over; empty if its classification differs, because neither
    unmasked nor encrypted entries may get into the new version. Denied if this run is of a partition then."""
    version = context.world.state.ledger.version(context.dataset, before) if before else None
    if version is None or _carry_key(version.standing) == _carry_key(context.standing):
        return before
    if context.trigger.partition:
        raise Denied(
            f"the classification of {context.dataset} has changed: one partition cannot be run without the others",
            hint=f"run the whole dataset first: `kfm run {context.dataset}`",
            rule="standing.changed",
        )
    return ""


def _carry_key(standing: Classification | None) -> tuple[object, ...]:
    """Return a key that is the same for versions that can carry entries over to each other. An unclassified version is
    stored like a public one."""
    if standing is None or standing.level == "public":
        return ("public",)
    return standing.level, standing.resolution, standing.custodians


def _moves_below(context: RunContext, planned: Planned) -> list[RefMove]:
    """Return the moves in Raw and Quarantine: the sources of this run, and what it quarantines or releases."""
    state = context.world.state
    moves = []
    for i, source in enumerate(planned.inputs):
        name = f"{context.ref_in('raw')}/{i}"
        if state.refs.at(name) != source.content_hash and source.content_hash:
            moves.append(RefMove(ref=name, before=state.refs.at(name), after=source.content_hash))
    return moves + quarantine_moves(context, planned.inspected.held)


def _processed_moves(context: RunContext, before: str, after: str) -> list[RefMove]:
    ref = zone_ref("processed", context.dataset, context.trigger)
    if preview_of(context.trigger):  # a preview starts from the processed version and has a ref of its own
        before = context.world.state.refs.at(ref)
    return [RefMove(ref=ref, before=before, after=after)] if before != after else []


def _check_deletions(context: RunContext, tally: Tally) -> None:
    budget = context.world.settings.deletion_budget
    keys = tally.of_partition if context.trigger.partition else tally.old
    if tally.deleted > max(budget * keys, deletions_allowed(context.trigger)):
        raise Denied(
            f"this run would delete {tally.deleted} of {keys} keys of {context.zone_name}, "
            f"more than the deletion budget of {budget:.0%}",
            hint="check the source; if it is right: "
            f"`kfm run {context.arguments} --allow-deletions {tally.deleted} --reason …`",
        )


ATTEMPTS = 100


def commit(
    context: RunContext, planned: Planned, executed: Executed, stages: Callable[[Assembled, Tx], Receipt]
) -> Receipt:
    """Assemble the version and run the last stages in the one transaction that commits it; return the receipt.

    The run of a partition assembles its version again, from the content that is there now, if another partition was
    committed meanwhile. Every conflict means that another run has ended, so some run always makes progress. Moved if
    the ref of any other run moved, or after the last attempt.
    """
    repeats = bool(context.trigger.partition) and not context.updater.moves_only
    for attempt in count(1):
        made = assemble(context, planned, executed)
        try:
            with transaction(context, planned, executed, made) as tx:
                return stages(_with_served(made, tx), tx)
        except Moved:
            if not repeats or attempt >= ATTEMPTS:
                raise
            context.say("commit.repeated", turn=attempt)
    raise AssertionError("unreachable: the last attempt raises")


def _with_served(made: Assembled, tx: Tx) -> Assembled:
    """Return the moves with those of the refs for readers. They start from the values that hold in the transaction, so
    two publications at once do not conflict in an epoch."""
    if not made.served:
        return made
    moves = list(made.moves)
    for served in made.served:
        before = tx.refs.at(served.ref)
        after = str(int(before or "0") + 1) if served.to is None else served.to
        if before != after and served.only_from in (None, before):
            moves.append(RefMove(ref=served.ref, before=before, after=after))
    return msgspec.structs.replace(made, moves=moves)


@contextmanager
def transaction(context: RunContext, planned: Planned, executed: Executed, made: Assembled) -> Iterator[Tx]:
    """Open the transaction of the commit, guarded by the lease's token and the freeze flags. It releases the lease."""
    switches = context.switches_of(planned.run_id, made.moves)
    with context.world.state.transaction(planned.lease, switches=switches) as tx:
        context.check_slot(tx)
        if executed.tail_rows or made.rows:
            tx.objects(executed.tail_rows + made.rows)
        yield tx
        tx.leases.release(planned.lease)
    context.say(
        "run.committed",
        status="succeeded",
        outcome=outcome_of(made),
        duration_ms=context.elapsed_ms(),
        zone_in=zones_in(context, planned.inputs),
        zone_out=zones_out(made.moves),
    )


def upsert(context: RunContext, run: Run, made: Assembled, tx: Tx) -> None:
    trigger = context.trigger
    still_labelled(context)
    still_holds(context, made.decisions)
    for move in made.moves:
        if not any(is_yes(decision, move) for decision in made.decisions) and _asks_gate(move, made, tx):
            raise Denied(f"{move.ref} may not move: no gate was asked", hint="report this as a bug")
    for ref, at in made.held.items():
        if tx.refs.at(ref) != at:
            raise Denied(f"{ref} has moved since this was decided", hint="request the change again")
    for name, known, stands in made.lowered.standings:
        tx.protected.lower(name, known, stands)
    for key_id, source in made.lowered.prints:
        tx.protected.forget_fingerprints(key_id, source)
    for request, order in made.orders:
        tx.orders.keep(request, order)
    if made.version is not None:
        tx.ledger.keep_version(made.version)
    ts = context.now()
    for move in made.moves:
        tx.refs.move(move, run_id=run.run_id, op=context.updater.op, actor=trigger.actor, reason=trigger.reason, ts=ts)
    version = made.version.digest if made.version else ""
    tx.runs.save(msgspec.structs.replace(run, status="COMMITTED", moves=made.moves, version_digest=version))
    tx.inbox.finish(trigger, run.run_id)


def _asks_gate(move: RefMove, made: Assembled, tx: Tx) -> bool:
    """Return whether a move lacks the yes of a gate: it publishes a version, or it changes the hotfixes of a published
    one about which no gate decided."""
    if move.ref.startswith(refs.PUBLISHED):
        return bool(move.after)
    if not move.ref.startswith(refs.HOTFIX):
        return False
    published = refs.published(refs.parse(move.ref).dataset)
    version = next((each.after for each in made.moves if each.ref == published), tx.refs.at(published))
    return bool(version) and not any(one.allow is True and one.subject == version for one in made.decisions)
