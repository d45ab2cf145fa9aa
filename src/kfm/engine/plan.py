"""Makes the plan twice, compares the two with each other and with the locked plan, and journals it.

A plan is a header line and one line for each step, all canonical JSON; its hash is that of these bytes. The steps are
streamed both times, so a plan of a million steps is never in memory as a whole.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from operator import attrgetter
from typing import TypeVar

import msgspec

from kfm.engine.acquire import author_call
from kfm.engine.isolation.purity import pure
from kfm.engine.run_context import RunContext
from kfm.engine.run_journal import NOTHING_LEARNED, Journal, SettledPlan
from kfm.engine.stage_results import Acquired, Claimed, Duplicate, Fresh, Inspected, Planned, Resume
from kfm.engine.step_results import SMALL
from kfm.engine.world import World
from kfm.errors import BadInput, Corrupt, KfmError, PlanChanged, PlanDrift, PlanImpure, Refused
from kfm.model.canonical import canonical
from kfm.model.names import check_ref
from kfm.model.ports import INLINE_MAX
from kfm.model.records import Lease, RefMove, Run, SourceRef, Step
from kfm.model.updater import Plan
from kfm.parsing.characters import is_printable, printable
from kfm.projections.plan_diff import plan_diff

T = TypeVar("T")
CHUNK = 1000
KEEP_CHUNKS = 64  # plans up to this many chunks stay in memory for the run
_encode_lines = msgspec.json.Encoder(order="sorted").encode_lines
_LIMIT = 2**53
_needs = attrgetter("needs")
_move = attrgetter("move")


def settle_plan(context: RunContext, acquired: Acquired, admitted: Fresh | Resume, inspected: Inspected) -> Planned:
    """Return the plan of the run with its journal. The plan of a resumed run must be the one in the journal."""
    context.stage = "PLAN"
    run, inputs = admitted.run, inspected.inputs
    if run.plan_hash:
        made = recheck(context, admitted, inputs)
    else:
        made = settle(context, admitted, inputs)
        # Not written here: the first durable write of execute contains it together with the first intents.
        run = msgspec.structs.replace(
            run,
            plan_hash=made.plan_hash,
            steps=made.steps,
            inputs=list(inputs),
            held=inspected.held,
        )
    facts = context.guards.protection.facts if context.guards.protection is not None else NOTHING_LEARNED
    sealed = context.world.stored if context.world.encryption is not None else None
    known = (
        sealed is None
        and run.code_hash == context.updater.code_hash
        and len(context.updater.code_listing) <= INLINE_MAX
    )
    kept = [(run.code_hash, context.updater.code_listing)] if known and context.updater.code_listing else []
    if context.work.config:
        kept.append((context.work.config_hash, context.work.config))
    world = context.world
    journal = Journal(
        run,
        made,
        acquired.checkpoints,
        world.state,
        world.clock,
        facts,
        sealed,
        kept,
        context.work.config_hash,
        (world.hidden, world.shown),
    )
    planned = Planned(made, journal, admitted.tenure, inspected, resumed=isinstance(admitted, Resume))
    context.reached.planned = planned
    return planned


def settle(context: RunContext, admitted: Claimed, inputs: list[SourceRef]) -> SettledPlan:
    """Return the plan, made twice. PlanImpure if the two differ, PlanChanged if another is locked for this work."""
    input_hash, lease = admitted.keys.input_hash, admitted.tenure.lease
    made = make(context, inputs, input_hash, guarded=True)
    locked = context.world.state.journal.locked_plan(admitted.keys.claim_key)
    if locked is not None and locked != made.plan_hash:
        raise changed(context, inputs, input_hash, locked)
    again = make(context, inputs, input_hash, guarded=False, like=made, lease=lease, otherwise=lambda: twice(context))
    if again.plan_hash != made.plan_hash:
        raise twice(context)
    return made


def recheck(context: RunContext, admitted: Claimed, inputs: list[SourceRef]) -> SettledPlan:
    """Return the plan of a resumed run. PlanDrift if this code does not make the journaled plan, byte for byte."""
    run = admitted.run
    if run.updater_version != context.updater.version:
        raise drift(context, run, f"it was planned by version {run.updater_version}, this is {context.updater.version}")
    stored = hashlib.sha256()
    for body in context.world.state.journal.plan_chunks(run.plan_hash):
        stored.update(context.world.plain(body))
    if "sha256:" + stored.hexdigest() != run.plan_hash:
        raise Corrupt(f"the journaled plan of run {run.run_id} is damaged", hint="restore the state from a copy")
    made = make(context, inputs, admitted.keys.input_hash, guarded=False, otherwise=lambda: another(context, run))
    if made.plan_hash != run.plan_hash:
        raise another(context, run)
    return made


def check_unchanged(context: RunContext, duplicate: Duplicate) -> None:
    """Raise PlanChanged if the declaration changed while its version did not. Asked before a run is skipped as done."""
    done, input_hash = duplicate.run, duplicate.keys.input_hash
    context.reached.inspected = Inspected(done.inputs)  # these include the partitions that were found
    if make(context, done.inputs, input_hash, guarded=False).plan_hash != done.plan_hash:
        raise changed(context, done.inputs, input_hash, done.plan_hash)
    context.reached.inspected = None


def another(context: RunContext, run: Run) -> PlanDrift:
    return drift(context, run, "this code makes another plan from the same inputs")


def drift(context: RunContext, run: Run, why: str) -> PlanDrift:
    return PlanDrift(
        f"run {run.run_id} cannot be resumed: {why}",
        hint="finish it with the code that planned it, or abandon it: "
        f"`kfm run {context.arguments} --abandon --reason …`",
    )


def changed(context: RunContext, inputs: list[SourceRef], input_hash: str, locked: str) -> PlanChanged:
    made = make(context, inputs, input_hash, guarded=True)
    old = list(map(context.world.plain, islice(context.world.state.journal.plan_chunks(locked), KEEP_CHUNKS + 1)))
    diff = f"it has {made.steps} steps now, too many to show"
    if made.chunks is not None and len(old) <= KEEP_CHUNKS:
        diff = plan_diff(b"".join(old), b"".join(made.chunks)).replace("\n", ", ")
    return PlanChanged(
        f"the plan of {context.updater.id} {context.updater.version} changed for the same inputs: {diff}",
        hint="bump its version in the configuration" if context.updater.declared else "bump the updater's version",
        discreet=f"the plan of {context.updater.id} {context.updater.version} changed for the same inputs "
        f"(`kfm plan {context.dataset}` shows how)",
    )


def make(
    context: RunContext,
    inputs: Sequence[SourceRef],
    input_hash: str,
    *,
    guarded: bool,
    like: SettledPlan | None = None,
    lease: Lease | None = None,
    otherwise: Callable[[], KfmError] | None = None,
) -> SettledPlan:
    """Call plan(), check every step, and return the plan with the hash of its bytes. `like` is the plan of the first
    call: then only the hash is computed, and the chunks of a plan that is too large for memory are stored under the
    hash of `like`. With `otherwise` the steps were checked before and are not checked again; it makes the error for a
    value that is not a step."""
    updater = context.updater
    given = tuple(inputs)
    plan = watched(context, guarded, lambda: updater.plan(given))
    if not isinstance(plan, Plan):
        raise Refused(f"plan() of {updater.id} returned something that is not a Plan", hint="return Plan(steps=[…])")
    if not isinstance(plan.steps, Iterable):
        raise Refused(
            f"plan() of {updater.id} returned a Plan whose steps are not a list or generator",
            hint="return Plan(steps=[…])",
        )
    if not isinstance(plan.complete, bool):
        raise Refused(f"plan() of {updater.id} returned a Plan whose complete is neither True nor False")
    steps: Iterable[Step] = plan.steps
    if isinstance(steps, (list, tuple)):
        steps = in_order(steps)
    partition = context.trigger.partition
    header = canonical(
        {"plan": 1, "updater_id": updater.id, "updater_version": updater.version, "dataset": context.dataset,
         "complete": plan.complete, "window": context.trigger.window, "input_hash": input_hash,
         **({"partition": partition} if partition else {}),
         # With a salt, a reader of the hash of a restricted plan cannot guess its inputs and compare.
         **({"salt": context.world.encryption.salt(input_hash)} if context.world.encryption is not None else {})}
    ) + b"\n"  # fmt: skip
    total = hashlib.sha256(header)
    checker = Checker(moves=updater.moves_only, partition=partition) if otherwise is None else Again(otherwise)
    kept: list[bytes] | None = [] if like is None else None
    steps_kept: list[list[Step]] = []
    spill = ChunkWriter(context.world, lease, like.plan_hash) if like is not None and like.chunks is None else None
    count = 0
    pending = header
    for chunks, batch in enumerate(batches(context, iter(steps), guarded), 1):
        body = pending + checker.check(batch, count)
        pending = b""
        total.update(body if chunks > 1 else body[len(header) :])
        count += len(batch)
        if like is None and guarded and context.world.unjudged is not None:
            from kfm.engine.protected.leak_check import check_planned

            check_planned(context, body)
        if kept is not None:
            kept.append(body)
            steps_kept.append(batch)
            if chunks > KEEP_CHUNKS:
                kept, steps_kept = None, []
        if spill is not None:
            spill.add(body)
        if count % 100_000 < CHUNK:
            context.world.progress("plan", count, 0)
    if pending:
        if kept is not None:
            kept.append(pending)
        if spill is not None:
            spill.add(pending)
    if spill is not None:
        spill.flush()
    return SettledPlan(
        plan_hash="sha256:" + total.hexdigest(),
        steps=count,
        complete=plan.complete,
        has_needs=checker.has_needs,
        chunks=kept,
        batches=steps_kept if kept is not None else None,
        has_moves=checker.has_moves,
        opened=context.world.plain if context.world.encryption is not None else None,
    )


def watched(context: RunContext, guarded: bool, call: Callable[[], T]) -> T:
    """Call an author's code inside the purity guard. The error message is made outside of it."""

    def inside() -> T:
        with pure() if guarded else nullcontext():
            return call()

    return author_call(context, "plan", inside)


def batches(context: RunContext, steps: Iterator[Step], guarded: bool) -> Iterator[list[Step]]:
    """Yield the steps in batches. A generator computes while it is read, so reading it is inside the guard."""
    while batch := watched(context, guarded, lambda: list(islice(steps, CHUNK))):
        yield batch
        if len(batch) < CHUNK:  # the last batch
            return


class Checker:
    """Checks every step: it has a unique id, its needs come before it, and its key is a tuple of texts."""

    def __init__(self, *, moves: bool, partition: str = "") -> None:
        self._moves = moves
        self._partition = partition
        self.index = StepIndex()
        self.has_needs = False
        self.has_moves = False

    def check(self, batch: list[Step], first: int) -> bytes:
        add = self.index.add
        for position, step in enumerate(batch, first):
            if type(step) is not Step:
                raise Refused(f"step {position + 1} of the plan is not a Step", hint="build it with kfm.Step")
            name = step.id
            if type(name) is not str or not 0 < len(name) <= 200 or not is_printable(name):
                raise Refused(f"step {position + 1} of the plan has no printable id of at most 200 characters")
            key = step.key
            if key is not None and not _is_key(key):
                raise Refused(
                    f"step {printable(name)}: its key is not a tuple of texts",
                    hint='for example key=("stations", "KS")',
                    discreet=f"step {position + 1} of the plan: its key is not a tuple of texts",
                )
            if self._partition and key is not None and key[0] != self._partition:
                raise _misshapen(
                    step,
                    position,
                    f"key does not begin with the partition {self._partition}",
                    "key=(trigger.partition, …): pin a source with partition=(trigger.partition,) to know it in plan()",
                )
            if type(step.params) is not dict:
                raise _misshapen(step, position, "params are not a dict", 'for example params={"state": "KS"}')
            if step.needs != ():
                self._check_needs(step, position)
            if step.move is not None:
                self._check_move(step, position)
            if not add(name, position):
                raise _named_twice(step, position)
        return encode(batch, first)

    def _check_needs(self, step: Step, position: int) -> None:
        if not _are_needs(step.needs):
            raise _misshapen(step, position, "needs are not a tuple of ids", 'for example needs=("state-KS",)')
        self.has_needs = True
        for need in step.needs:
            if self.index.find(need) < 0:
                raise Refused(
                    f"step {printable(step.id)} needs {printable(need)}, which does not come before it",
                    hint="list a step after the steps it needs; a list (not a generator) is sorted for you",
                    discreet=f"step {position + 1} of the plan needs one that does not come before it",
                )

    def _check_move(self, step: Step, position: int) -> None:
        self.has_moves = True
        if not self._moves:
            raise _misshapen(step, position, "move is not allowed", "only operations move refs")
        if not isinstance(step.move, RefMove):
            raise _misshapen(step, position, "move is not a RefMove", "build it with RefMove")
        check_ref(step.move.ref)


def _misshapen(step: Step, position: int, what: str, hint: str) -> Refused:
    return Refused(
        f"step {printable(step.id)}: its {what}", hint=hint, discreet=f"step {position + 1} of the plan: its {what}"
    )


def _named_twice(step: Step, position: int) -> Refused:
    return Refused(
        f"two steps are called {printable(step.id)}",
        hint="give every step an id of its own",
        discreet=f"step {position + 1} of the plan has the id of an earlier one",
    )


def _are_needs(needs: object) -> bool:
    return isinstance(needs, (tuple, list)) and all(type(need) is str for need in needs)


def _is_key(key: object) -> bool:
    if type(key) is not tuple or not key:
        return False
    for part in key:  # noqa: SIM110 - all() with a generator costs more than the rest of the check
        if type(part) is not str or not part:
            return False
    return True


def encode(batch: list[Step], first: int) -> bytes:
    """Return the canonical lines of these steps. The fast encoder is canonical for plain values and ASCII; all others
    use the slow one."""
    for step in batch:
        for value in step.params.values():
            kind = type(value)
            if kind is str:
                continue
            if kind is not int or not -_LIMIT <= value <= _LIMIT:
                return _exactly(batch, first)
    try:
        body = _encode_lines(batch)
    except (UnicodeEncodeError, TypeError):
        return _exactly(batch, first)
    return body if body.isascii() else _exactly(batch, first)


def _exactly(batch: list[Step], first: int) -> bytes:
    lines = []
    for position, step in enumerate(batch, first):
        try:
            lines.append(canonical(step) + b"\n")
        except BadInput as problem:
            raise Refused(
                f"step {position + 1} of the plan has no canonical form: {problem.message}", hint=problem.hint
            ) from problem
    return b"".join(lines)


class Again:
    """Encodes the steps of a plan that is made a second time, without checking them. A value that is not a step means
    that the two plans differ."""

    def __init__(self, otherwise: Callable[[], KfmError]) -> None:
        self._otherwise = otherwise
        self.has_needs = False
        self.has_moves = False

    def check(self, batch: list[Step], first: int) -> bytes:
        try:
            self.has_needs = self.has_needs or any(map(_needs, batch))
            self.has_moves = self.has_moves or any(map(_move, batch))
            return encode(batch, first)
        except (AttributeError, TypeError):
            raise self._otherwise() from None


def twice(context: RunContext) -> PlanImpure:
    return PlanImpure(
        f"plan() of {context.updater.id} made two different plans for the same inputs",
        hint="look for sets, object addresses or state kept between calls",
    )


class StepIndex:
    """Maps step ids to positions. A large plan uses an open-addressing table of 64-bit hashes, about 40 bytes a step.

    Two of a million ids share a hash in about one of 10^7 plans. Such a plan is refused, as if it named a step twice;
    it is never wrong without an error.
    """

    def __init__(self) -> None:
        self._small: dict[str, int] | None = {}
        self._size = 0
        self._count = 0
        self._keys = array("q")
        self._positions = array("q")

    def add(self, name: str, position: int) -> bool:
        small = self._small
        if small is not None:
            if small.setdefault(name, position) != position:
                return False
            if len(small) > SMALL:
                self._small = None
                self._resize(SMALL * 4)
                for known, at in small.items():
                    self._insert(hash(known) or 1, at)
            return True
        if self._count * 3 > self._size * 2:
            self._resize(self._size * 2)
        return self._insert(hash(name) or 1, position)

    def _insert(self, key: int, position: int) -> bool:
        keys, mask = self._keys, self._size - 1
        at = key & mask
        while keys[at]:
            if keys[at] == key:
                return False
            at = (at + 1) & mask
        keys[at] = key
        self._positions[at] = position
        self._count += 1
        return True

    def find(self, name: str) -> int:
        if self._small is not None:
            return self._small.get(name, -1)
        key = hash(name) or 1
        keys, mask = self._keys, self._size - 1
        at = key & mask
        while keys[at]:
            if keys[at] == key:
                return self._positions[at]
            at = (at + 1) & mask
        return -1

    def _resize(self, size: int) -> None:
        old_keys, old_positions = self._keys, self._positions
        self._size, self._count = size, 0
        self._keys = array("q", bytes(8 * size))
        self._positions = array("q", bytes(8 * size))
        for key, position in zip(old_keys, old_positions, strict=True):
            if key:
                self._insert(key, position)


def in_order(steps: list[Step] | tuple[Step, ...]) -> Iterable[Step]:
    """Return the steps of a list sorted so that needs come first, otherwise in the author's order. Refused if they have
    a cycle; the message names it."""
    seen: set[str] = set()
    for step in steps:
        if not _can_be_sorted(step):
            return steps  # the check of each step refuses it
        if not seen.issuperset(step.needs):
            return _sorted_by_needs(steps) if all(map(_can_be_sorted, steps)) else steps
        seen.add(step.id)
    return steps


def _can_be_sorted(step: Step) -> bool:
    return type(step) is Step and type(step.id) is str and _are_needs(step.needs)


def _sorted_by_needs(steps: list[Step] | tuple[Step, ...]) -> list[Step]:
    by_name: dict[str, Step] = {}
    for position, step in enumerate(steps):
        if by_name.setdefault(step.id, step) is not step:
            raise _named_twice(step, position)
    state: dict[str, int] = {}  # 1: on the current path, 2: sorted
    ordered: list[Step] = []
    for root in steps:
        if state.get(root.id):
            continue
        stack: list[tuple[Step, Iterator[str]]] = [(root, iter(root.needs))]
        state[root.id] = 1
        while stack:
            step, needs = stack[-1]
            for need in needs:
                if need not in by_name:
                    raise Refused(
                        f"step {printable(step.id)} needs {printable(need)}, which is not in the plan",
                        hint="`needs` names ids of steps",
                        discreet="a step needs one that is not in the plan",
                    )
                if state.get(need) == 1:
                    path = [entry[0].id for entry in stack]
                    loop = [*path[path.index(need) :], need]
                    shown = loop if len(loop) <= 12 else [*loop[:10], "…", need]
                    raise Refused(
                        "the plan has a cycle: " + " → ".join(shown),
                        hint="break it",
                        discreet=f"the plan has a cycle of {len(loop) - 1} steps",
                    )
                if not state.get(need):
                    state[need] = 1
                    stack.append((by_name[need], iter(by_name[need].needs)))
                    break
            else:
                stack.pop()
                state[step.id] = 2
                ordered.append(step)
    return ordered


class ChunkWriter:
    """Writes the chunks of a plan that is too large for memory, a few at a time, under the hash of the first plan."""

    def __init__(self, world: World, lease: Lease | None, plan_hash: str) -> None:
        self._world = world
        self._lease = lease
        self._hash = plan_hash
        self._n = 0
        self._held: list[bytes] = []

    def add(self, body: bytes) -> None:
        self._held.append(body)
        if len(self._held) >= 32:
            self.flush()

    def flush(self) -> None:
        if self._held:
            with self._world.state.transaction(self._lease, durable=False) as tx:
                for body in self._held:
                    tx.journal.plan_chunk(self._hash, self._n, self._world.stored(body))
                    self._n += 1
            self._held = []
