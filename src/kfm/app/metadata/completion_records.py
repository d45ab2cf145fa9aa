"""The second record of a run: which sinks are pending, and the signed completion when all have followed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, Literal

import msgspec

from kfm.app.session.session import Session, trust_of
from kfm.clock import rfc3339
from kfm.config.config_file import sink_names
from kfm.delivery.completions import SinkPositions, complete_runs
from kfm.errors import Corrupt, KfmError
from kfm.model.outbox_messages import Completion, PendingRun
from kfm.model.records import Record

KIND: Final = "application/vnd.kfm.completion+json"  # the type of the signed bytes


class SinkStatus(Record, frozen=True):
    """A sink that has not followed some committed runs."""

    sink: str
    runs: int  # how many runs
    run_id: str  # the oldest of them
    dataset: str  # of that run
    since: str  # when that run was committed
    waits_for: Literal["sink", "thaw", "retry"]  # retry: the sink refused the run, and an operator must act


def complete(session: Session) -> KfmError | None:
    """Store the completion of every run that all its sinks have followed. Return the problem that prevented it, or
    None: like a sink, it fails no run."""
    if session.mode != "write":
        return None
    try:
        now = rfc3339(session.clock.now_ms())
        complete_runs(session.state, sink_names(session.config), now, _signing(session))
    except KfmError as problem:
        session.log.event("completion.failed", error=problem)
        return type(problem)(f"completions cannot be written: {problem.message}", hint=problem.hint)
    return None


def _signing(session: Session) -> Callable[[bytes], bytes]:
    """Return the function that signs a completion, with the key for attestations or that of the ledger. Without either,
    the record stays as it is."""
    config = session.config
    if not (config.attest.sign_with or config.ledger.sign_with):
        return bytes
    from kfm.crypto.envelopes import wrap

    signer = trust_of(session).signer("attest" if config.attest.sign_with else "checkpoint")
    return bytes if signer is None else lambda body: wrap(KIND, body, [signer])


def completion_of(session: Session, run_id: str) -> tuple[Completion, list[str]] | None:
    """Return the completion of a run, and the ids of the keys that it says it is signed with, not verified; None if
    there is none yet. Corrupt if it cannot be read or names another receipt."""
    body = session.state.outbox.completion(run_id)
    if body is None:
        return None
    from base64 import b64decode

    try:
        signed = msgspec.json.decode(body)
        keys = [each["keyid"] for each in signed["signatures"]] if "payload" in signed else []
        found = msgspec.json.decode(b64decode(signed["payload"]) if "payload" in signed else body, type=Completion)
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError):
        raise _damaged(run_id) from None
    entry = session.state.ledger.entry(found.index)
    if found.run_id != run_id or entry is None or (entry.run_id, entry.receipt_digest) != (run_id, found.receipt):
        raise _damaged(run_id)
    return found, keys


def completion_faults(session: Session) -> Iterator[tuple[str, str]]:
    """Yield the dataset and the fault of each completion that names another receipt, or that no trusted key signed. A
    record without a signature is from a time when the installation had no key."""
    trusted: list[bytes] | None = None
    for run_id in session.state.outbox.completed():
        try:
            found = completion_of(session, run_id)
        except Corrupt as problem:
            receipt = session.state.ledger.receipt(run_id)
            yield receipt.dataset if receipt is not None else "", problem.message
            continue
        body = session.state.outbox.completion(run_id)
        if found is None or not found[1] or body is None:
            continue
        from kfm.crypto.envelopes import unwrap

        if trusted is None:
            try:
                trusted = _trusted(session)
            except KfmError as problem:
                yield found[0].dataset, f"completions cannot be verified: {problem.message}"
                return
        try:
            unwrap(body, KIND, trusted)
        except KfmError:
            yield found[0].dataset, f"the completion of run {run_id} is signed by no trusted key"


def signature_of(session: Session, run_id: str) -> str:
    """Return the ids of the trusted keys that signed a completion, or in words that there is none."""
    from kfm.crypto.envelopes import unwrap

    try:
        return ", ".join(unwrap(session.state.outbox.completion(run_id) or b"", KIND, _trusted(session)).key_ids)
    except KfmError as problem:
        return f"by no trusted key: {problem.message}"


def _trusted(session: Session) -> list[bytes]:
    trust = trust_of(session)
    return [*trust.believed("attest").public, *trust.believed("checkpoint").public]


def _damaged(run_id: str) -> Corrupt:
    what = f"the completion of run {run_id} is damaged or names another receipt"
    return Corrupt(what, hint="restore the state from a copy")


def pending_run(session: Session, run_id: str) -> PendingRun | None:
    """Return the pending record of a run; None if all its sinks have followed, or none had to."""
    return next((each for each in session.state.outbox.pending() if each.run_id == run_id), None)


def sinks_left(session: Session, run: PendingRun) -> list[str]:
    """Return the sinks that have not followed a run."""
    return SinkPositions(session.state, sink_names(session.config)).behind(run)


def sinks_of_run(session: Session, run_id: str) -> PendingRun | Completion | None:
    """Return what the write-ahead log says about the sinks of a run."""
    found = completion_of(session, run_id)
    return found[0] if found is not None else pending_run(session, run_id)


def pending_at(session: Session, datasets: Collection[str] = ()) -> list[SinkStatus]:
    """Return the sinks that have not followed some committed runs, of these datasets or of all, with the oldest run of
    each."""
    sinks = SinkPositions(session.state, sink_names(session.config))
    found: dict[str, tuple[int, PendingRun]] = {}
    for run in session.state.outbox.pending():
        for sink in sinks.behind(run) if not datasets or run.dataset in datasets else ():
            count, first = found.get(sink, (0, run))
            found[sink] = count + 1, first
    return [
        SinkStatus(
            sink=sink,
            runs=count,
            run_id=first.run_id,
            dataset=first.dataset,
            since=first.since,
            waits_for=_waits_for(session, sink, first),
        )
        for sink, (count, first) in found.items()
    ]


def _waits_for(session: Session, sink: str, run: PendingRun) -> Literal["sink", "thaw", "retry"]:
    if any(letter.index == run.index for letter in session.state.outbox.dead(sink)):
        return "retry"
    from kfm.delivery.followers import is_frozen

    return "thaw" if is_frozen(session.state, run.dataset) else "sink"
