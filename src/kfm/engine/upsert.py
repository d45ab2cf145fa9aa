"""The commit point: refs move here, and only here, in one transaction with everything that proves it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from kfm.contract.canonical import canonical
from kfm.contract.ports import Tx
from kfm.contract.records import DatasetVersion, ManifestEntry, RefMove, Segment
from kfm.engine.plan import append, read_steps
from kfm.engine.record import quarantine_moves
from kfm.engine.walk import Walk
from kfm.errors import Denied, Refused

SORT_IN_MEMORY = 100_000
Entry = tuple[tuple[str, ...], bytes]  # key, and its line of the manifest


def assemble(walk: Walk) -> None:
    """Put the version together: a manifest of sorted lines, stored like any other object."""
    walk.stage = "UPSERT"
    plan, run, results = walk.plan, walk.run, walk.results
    assert plan is not None and run is not None and results is not None
    walk.moves = list(walk.step_moves)
    if walk.updater.moves_only:
        return
    ref = f"processed/{walk.dataset}"
    before = walk.ports.state.ref(ref)
    tally = Tally()
    old = _lines(walk, before)
    new = _sorted(walk, _new_entries(walk))
    sealed = plan.complete and all(source.complete for source in walk.inputs)
    digest, size = walk.ports.objects.put_stream(_blocks(_merge(old, new, sealed, tally)))
    del size
    _check_deletions(walk, tally)
    walk.version = DatasetVersion(
        dataset=walk.dataset,
        digest=digest,
        entries=tally.entries,
        size=tally.size,
        supersedes=before if before != digest else "",
        run_id=run.run_id,
        updater_id=run.updater_id,
        updater_version=run.updater_version,
        plan_hash=plan.plan_hash,
        input_hash=run.input_hash,
        metadata=run.metadata,
        validation={
            "rows": sum(source.rows for source in walk.inputs),
            "held_rows": sum(source.held_rows for source in walk.inputs),
            "contracts": sum(1 for source in walk.inputs if source.contract_hash),
            "sources": len(walk.inputs),
        },
        deleted=tally.deleted,
        created_at=run.started_at,
    )
    walk.moves += _zone_moves(walk, ref, before, digest)


def _zone_moves(walk: Walk, ref: str, before: str, after: str) -> list[RefMove]:
    state = walk.ports.state
    moves = []
    for i, source in enumerate(walk.inputs):
        name = f"raw/{walk.dataset}/{i}"
        if state.ref(name) != source.content_hash and source.content_hash:
            moves.append(RefMove(ref=name, before=state.ref(name), after=source.content_hash))
    moves += quarantine_moves(walk)
    if before != after:
        moves.append(RefMove(ref=ref, before=before, after=after))
    return moves


class Tally:
    def __init__(self) -> None:
        self.entries = self.size = self.deleted = self.old = 0


def _check_deletions(walk: Walk, tally: Tally) -> None:
    budget = walk.ports.settings.deletion_budget
    if tally.deleted and tally.deleted > budget * tally.old and not walk.trigger.force:
        raise Denied(
            f"this run would delete {tally.deleted} of {tally.old} keys of {walk.dataset}, "
            f"more than the deletion budget of {budget:.0%}",
            hint="check the source; if it is right, run again with --force --reason",
        )


def _new_entries(walk: Walk) -> Iterator[Entry]:
    plan, results = walk.plan, walk.results
    assert plan is not None and results is not None
    chunks = plan.chunks if plan.chunks is not None else walk.ports.state.plan_chunks(plan.plan_hash)
    media = results.media_types()
    encode = msgspec.json.Encoder(order="sorted").encode
    for position, step in enumerate(read_steps(chunks)):
        key = step.key
        if key is None:
            continue
        entry = ManifestEntry(
            key=key,
            digest=results.digest(position),
            size=results.size(position),
            media_type=media[results.media_of(position)],
        )
        line = encode(entry)
        yield key, line if line.isascii() else canonical(entry)


def _sorted(walk: Walk, entries: Iterator[Entry]) -> Iterator[Entry]:
    """By key. A plan that is already in order streams; one too large to sort in memory spills sorted runs."""
    runs: list[Iterator[Entry]] = []
    held: list[Entry] = []
    for entry in entries:
        held.append(entry)
        if len(held) >= SORT_IN_MEMORY and not walk.ports.settings.dry_run:
            held.sort()
            runs.append(_spilled(held))
            held = []
    held.sort()
    return heapq.merge(*runs, iter(held)) if runs else iter(held)


def _spilled(entries: list[Entry]) -> Iterator[Entry]:
    import tempfile

    file = tempfile.TemporaryFile()  # noqa: SIM115 - scratch, closed when the iterator ends
    for _, line in entries:
        file.write(line + b"\n")
    file.seek(0)
    return _read_lines(file)


_entry = msgspec.json.Decoder(ManifestEntry).decode


def _read_lines(file: Iterable[bytes]) -> Iterator[Entry]:
    for line in file:
        line = line.rstrip(b"\n")
        yield _entry(line).key, line


def _lines(walk: Walk, manifest: str) -> Iterator[Entry]:
    if manifest:
        with walk.ports.objects.open(manifest) as file:
            yield from _read_lines(file)


def _merge(old: Iterator[Entry], new: Iterator[Entry], sealed: bool, tally: Tally) -> Iterator[bytes]:
    """New lines win. A key only the old version has is carried over, unless the run is sealed and complete."""
    last_old = next(old, None)
    previous: tuple[str, ...] | None = None
    for key, line in new:
        if key == previous:
            raise Refused(f"two steps give the key {'/'.join(key)}", hint="a key names one output; give each its own")
        previous = key
        while last_old is not None and last_old[0] < key:
            tally.old += 1
            if sealed:
                tally.deleted += 1
            else:
                yield _count(tally, last_old[1])
            last_old = next(old, None)
        if last_old is not None and last_old[0] == key:
            tally.old += 1
            last_old = next(old, None)
        yield _count(tally, line)
    while last_old is not None:
        tally.old += 1
        if sealed:
            tally.deleted += 1
        else:
            yield _count(tally, last_old[1])
        last_old = next(old, None)


def _count(tally: Tally, line: bytes) -> bytes:
    tally.entries += 1
    # "size" is the last member of a canonical line: {"digest":…,"key":…,"media_type":…,"size":N}
    tally.size += int(line[line.rindex(b":") + 1 : -1])
    return line + b"\n"


def _blocks(lines: Iterator[bytes], at_least: int = 1 << 16) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= at_least:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


@contextmanager
def commit(walk: Walk) -> Iterator[Tx]:
    """The one transaction, guarded by the lease's token and the switches; frees the lease with it."""
    assert walk.lease is not None
    with walk.ports.state.transaction(walk.lease, switches=walk.switches) as tx:
        if walk.tail_rows:
            tx.objects(walk.tail_rows)
        if walk.tail is not None:
            append(walk, tx, walk.tail)
        yield tx
        tx.release(walk.lease)


def upsert(walk: Walk, tx: Tx) -> None:
    run, plan, trigger = walk.run, walk.plan, walk.trigger
    assert run is not None and plan is not None
    for move in walk.moves:
        if move.ref.startswith("published/") and move.after:
            admit_to_published(walk, move)
    if walk.version is not None:
        tx.version(walk.version)
    ts = walk.now()
    for move in walk.moves:
        tx.move(move, run_id=run.run_id, op=walk.updater.op, actor=trigger.actor, reason=trigger.reason, ts=ts)
    for checkpoint in walk.checkpoints:
        tx.checkpoint(checkpoint)
    append(
        walk,
        tx,
        Segment(
            n=0, prev="", plan_hash=plan.plan_hash, phase="UPSERT",
            payload={"moves": [msgspec.to_builtins(move) for move in walk.moves]},
        ),
    )  # fmt: skip
    walk.run = msgspec.structs.replace(
        run, status="COMMITTED", moves=walk.moves, version_digest=walk.version.digest if walk.version else ""
    )
    tx.save_run(walk.run)
    tx.finish_trigger(trigger.trigger_id)


def admit_to_published(walk: Walk, move: RefMove) -> None:
    """Only a literal yes about exactly this digest opens the Published zone."""
    decision = walk.ports.gate(walk.ports.state, walk.ports.objects, move)
    walk.decisions.append(decision)
    if decision.allow is not True or decision.subject != move.after:
        raise Denied(
            f"{move.ref} may not move: " + "; ".join(decision.reasons or ["the gate gave no reason"]),
            hint="complete what is missing and try again",
        )
