"""The final plan of a run, and its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct

from kfm.clock import Clock, rfc3339
from kfm.engine.protected.protected_facts import Facts
from kfm.engine.step_results import Done, Results
from kfm.errors import Corrupt
from kfm.model.keys import GENESIS
from kfm.model.ports import State, Tx
from kfm.model.records import Checkpoint, Phase, Run, Segment, Step

NOTHING_LEARNED = Facts()
CLOSING: list[Phase] = ["UPSERT", "LINEAGE"]  # the phases that the commit writes
CARRIED = 4096  # the most carried-over steps in one segment
Described = Callable[[dict[str, Any]], dict[str, Any]]
_decode_steps = msgspec.json.Decoder(Step).decode_lines


class SettledPlan(Struct):
    """A plan that was made twice with the same result, and that is journaled or about to be."""

    plan_hash: str
    steps: int
    complete: bool
    has_needs: bool
    chunks: list[bytes] | None  # its bytes, if it is small enough for memory
    batches: list[list[Step]] | None = None  # its steps, likewise
    has_moves: bool = False
    opened: Callable[[bytes], bytes] | None = None  # decrypts the chunks of a restricted run

    def each(self, state: State) -> Iterator[list[Step]]:
        """Yield the steps of the plan in batches, from memory or from the journal."""
        if self.batches is not None:
            yield from self.batches
            return
        yield from map(_decode_steps, self._bodies(state))

    def left(self, state: State, results: Results) -> Iterator[tuple[int, Step]]:
        """Yield the steps of the plan with their positions. A chunk of the journal whose steps are all done is left out
        and not read."""
        if self.batches is not None:
            yield from enumerate(chain.from_iterable(self.batches))
            return
        end = 0
        for body in self._bodies(state):
            start, end = end, end + body.count(b"\n")
            if not results.all_done(start, end):
                yield from enumerate(_decode_steps(body), start)

    def _bodies(self, state: State) -> Iterator[bytes]:
        """Yield the chunks of the plan without its first line, which is the header."""
        chunks: Iterable[bytes] = self.chunks if self.chunks is not None else ()
        if self.chunks is None:
            chunks = state.journal.plan_chunks(self.plan_hash)
            chunks = chunks if self.opened is None else map(self.opened, chunks)
        for n, body in enumerate(chunks):
            yield body[body.index(b"\n") + 1 :] if n == 0 else body


def planned_config(state: State, run_id: str) -> str:
    """Return the digest of the settings under which a run was planned; empty if it was not planned, if its journal is
    damaged, or if an older version of KFM wrote it."""
    try:
        first = next(state.journal.segments(run_id), None)
    except Corrupt:
        return ""
    said = first[0].payload.get("config_hash") if first is not None else None
    return said if isinstance(said, str) else ""


class Journal:
    """The journal of one run: the place of its next segment, and the row of the run."""

    def __init__(
        self,
        run: Run,
        plan: SettledPlan,
        checkpoints: list[Checkpoint],
        state: State,
        clock: Clock,
        facts: Facts = NOTHING_LEARNED,
        stored: Callable[[bytes], bytes] | None = None,
        kept: Sequence[tuple[str, bytes]] = (),
        config_hash: str = "",
        described: tuple[Described, Described] = (dict, dict),
    ) -> None:
        self.run = run
        self.carried: list[Done] = []  # finished by the run that this one continues, and not journaled yet
        self._plan = plan
        self._checkpoints = checkpoints
        self._state = state
        self._clock = clock
        self._facts = facts
        self._stored = stored  # encrypts the chunks of a restricted plan
        self._kept = kept  # the listing of the code that made the plan, and the settings, each under its digest
        self._config_hash = config_hash  # of the settings under which the plan was made; a resume reads them
        self._hidden, self._shown = described  # how the journal stores descriptions of outputs, and back
        self._segments = 0
        self._last = GENESIS

    def replay(self, results: Results) -> bool:
        """Read the segments that exist into `results`; return whether the PLAN record is among them."""
        for segment, name in self._state.journal.segments(self.run.run_id):
            results.add(segment.done)
            results.described.update((at, self._shown(said)) for at, said in segment.described)
            self._segments = segment.n + 1
            self._last = name
        return self._segments > 0

    def begin(
        self,
        tx: Tx,
        results: Results,
        phases: list[Phase],
        intent: list[tuple[int, int]] = [],  # noqa: B006 - only ever read
        then: list[Phase] = [],  # noqa: B006
    ) -> None:
        """Write the PLAN record, with all carried-over steps, so that the journal of a run is complete by itself."""
        payload = self._keep_plan(tx)
        carried, self.carried = self.carried, []
        while len(carried) > CARRIED:  # a large number is split into several segments
            self.append(tx, results, phases, done=carried[:CARRIED], payload=payload)
            phases, payload, carried = ["EXECUTE"], {}, carried[CARRIED:]
        self.append(tx, results, phases, done=carried, intent=intent, payload=payload, then=then)

    def _keep_plan(self, tx: Tx) -> dict[str, Any]:
        """Store the plan, in the first transaction of execute, and return what the segment records about it."""
        plan, run = self._plan, self.run
        if self._state.journal.locked_plan(run.claim_key) is None:
            self.run = run = msgspec.structs.replace(run, locked_plan=True)
            for n, body in enumerate(plan.chunks or ()):
                tx.journal.plan_chunk(plan.plan_hash, n, body if self._stored is None else self._stored(body))
        tx.journal.lock_plan(run.claim_key, plan.plan_hash)
        tx.runs.save(run)
        for checkpoint in self._checkpoints:  # here, because a resumed run fetches no source
            tx.inbox.keep_checkpoint(checkpoint)
        self._facts.keep(tx)
        for name, body in self._kept:
            if self._state.inline_object(name) is None:
                tx.objects([(name, body)])
        payload: dict[str, Any] = {"plan_hash": plan.plan_hash, "steps": plan.steps, "complete": plan.complete}
        if run.continues:
            payload["continues"] = run.continues
        if self._config_hash:
            payload["config_hash"] = self._config_hash
        return payload

    def append(
        self,
        tx: Tx,
        results: Results,
        phases: list[Phase],
        *,
        done: list[Done] = [],  # noqa: B006 - only ever read
        intent: list[tuple[int, int]] = [],  # noqa: B006
        failed: list[tuple[int, str]] = [],  # noqa: B006
        payload: dict[str, Any] = {},  # noqa: B006
        then: list[Phase] = [],  # noqa: B006
    ) -> None:
        """Add the next segment to the chain."""
        said = results.described
        segment = Segment(
            n=self._segments,
            prev=self._last,
            plan_hash=self._plan.plan_hash,
            phases=phases,
            done=done,
            intent=intent,
            failed=failed,
            described=[(entry[0], self._hidden(said[entry[0]])) for entry in done if entry[0] in said] if said else [],
            payload=payload,
            ts=rfc3339(self._clock.now_ms()),
            then=then,
        )
        self._last = tx.journal.append(self.run.run_id, segment)
        self._segments += 1
