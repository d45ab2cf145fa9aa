"""The receivers of notices: each is a sink that follows the ledger, and gets what `notify` in kfm.yml says."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kfm.app.metadata.sink_trace import traced
from kfm.app.session.backends import sink_lock
from kfm.clock import Clock, rfc3339
from kfm.config.config_file import notice_sink
from kfm.config.notify_settings import fits
from kfm.config.openlineage_settings import address_fault
from kfm.delivery.followers import Follower, follow
from kfm.delivery.public_runs import public_run
from kfm.errors import BadInput, Busy, KfmError
from kfm.model.outbox_messages import STATES, Letter
from kfm.model.records import LedgerEntry
from kfm.model.reports.state_changes import KnownStates, StateChange
from kfm.model.secret import Secret
from kfm.projections.notices import QUIET, probe, run_notices, state_notice
from kfm.scheduling.triggers import is_of_preview
from kfm.scheduling.webhook_requests import signature
from kfm.sinks.webhook_receiver import WebhookReceiver

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import Resolved
    from kfm.config.notify_settings import ReceiverConfig
    from kfm.model.records import Effect

KNOWN = "known"  # the note about states
PATIENCE = 20  # hundredths of a second to wait for another process that sends to the same receiver
_PREFIX, _SHORTEST, _LONGEST = b"whsec_", 24, 64  # of a secret, as Standard Webhooks writes it


def notice_followers(session: Session, only: str = "") -> Iterator[Follower]:
    """Yield a follower for each receiver, or for one."""
    for name, said in session.config.notify.items():
        if only not in ("", name):
            continue
        sink = receiver(session, name, said)
        yield Follower(
            sink,
            partial(_letters, session, said),
            sink_lock(session.resolved, session.state, sink.name),
            at_once=1,
            has_message=_has_message,
            states=partial(_states, session, said),
            goes_on=_for_seconds(session.clock, said.timeout_s),
            patience=PATIENCE,
        )


def receiver(session: Session, name: str, said: ReceiverConfig) -> WebhookReceiver:
    """Return the sink of a receiver. Its address and secrets are read when something is sent."""
    resolved = session.resolved
    url, signed = partial(_url, resolved, said), partial(_signed, resolved, said)
    return WebhookReceiver(notice_sink(name), url, signed, session.clock, said.timeout_s)


def _for_seconds(clock: Clock, seconds: float) -> partial[bool]:
    """Return a function that says whether a pass goes on: a receiver that is slow gets the rest in the next one."""
    begun = clock.monotonic()
    return partial(lambda: 0 <= clock.monotonic() - begun < seconds)


def _has_message(entry: LedgerEntry) -> bool:
    return entry.outcome not in QUIET


def _letters(session: Session, said: ReceiverConfig, entries: Sequence[LedgerEntry]) -> Iterator[Letter]:
    for entry in entries:
        if not _has_message(entry) or is_of_preview(session.state, entry):
            continue
        run = public_run(session.state, session.objects, entry, parts=False)
        receipt = session.state.ledger.receipt(entry.run_id)
        code = next((note.code for note in receipt.errors), "") if receipt is not None else ""
        declared = session.config.datasets.get(run.dataset)
        for notice in run_notices(run, code, waits=declared is not None and declared.promote != "auto"):
            if notice.event in said.on and _is_about(said, notice.datasets):
                (dataset,) = notice.datasets
                yield Letter(
                    index=entry.index, run_id=entry.run_id, dataset=dataset, key=notice.body["id"], body=notice.body
                )


def _is_about(said: ReceiverConfig, datasets: Collection[str]) -> bool:
    """Return whether a receiver wants notices about one of these datasets; none: about all."""
    if not said.datasets or not datasets:
        return True
    return any(fits(pattern, dataset) for pattern in said.datasets for dataset in datasets)


def known_states(session: Session) -> KnownStates:
    """Return what is known of the states. A note that cannot be read counts as none, but its number is kept."""
    body = session.state.outbox.note(STATES, KNOWN)
    try:
        return KnownStates() if body is None else msgspec.json.decode(body, type=KnownStates)
    except msgspec.MsgspecError:
        return KnownStates(last=session.state.outbox.cursor(STATES))


def _states(session: Session, said: ReceiverConfig) -> list[Letter]:
    return [_state_letter(said, change) for change in known_states(session).changes]


def _state_letter(said: ReceiverConfig, change: StateChange) -> Letter:
    """Return the message about a changed state; without a body if the receiver does not want it."""
    notice = state_notice(change)
    wanted = notice.event in said.on and _is_about(said, notice.datasets)
    (dataset,) = notice.datasets if len(notice.datasets) == 1 else ("",)
    id = notice.body["id"]
    return Letter(index=-change.n, run_id=id, dataset=dataset, key=id, body=notice.body if wanted else None)


def _url(resolved: Resolved, said: ReceiverConfig) -> str:
    if not said.url.startswith("env:"):
        return said.url
    url = os.environ.get(said.url.removeprefix("env:"), "")
    wrong, hint = address_fault(url, resolved.config.network.allow)
    if wrong:
        raise BadInput(f"what {said.url} holds {wrong}", hint=hint)
    return url


def _signed(resolved: Resolved, said: ReceiverConfig, id: str, sent: str, body: bytes) -> str:
    """Return a signature by each secret."""
    secrets = [webhook_secret(resolved, reference) for reference in said.secrets]
    return " ".join(signature("standard", secret, body, message_id=id, timestamp=sent) for secret in secrets)


def webhook_secret(resolved: Resolved, reference: str) -> Secret:
    """Return the secret at a reference. BadInput if it has not the form of Standard Webhooks."""
    secret = resolved.secret(reference, os.environ, shortest=1)
    text = secret.reveal()
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not text.startswith(_PREFIX) or not _SHORTEST <= len(key) <= _LONGEST:
        raise BadInput(
            f"the secret {reference} is not `whsec_` and base64 of {_SHORTEST} to {_LONGEST} bytes",
            hint='create one with `echo "whsec_$(openssl rand -base64 32)"`',
        )
    return secret


def report_notices(session: Session, effects: list[Effect], only: str = "") -> list[KfmError]:
    """Send what is pending to one receiver, or to all, each in a thread of its own, and append the effects. Return the
    problems. A slow receiver delays no other, and this by little more than its `timeout_s`."""
    dry, found = session.mode != "write", list(notice_followers(session, only))
    results: list[tuple[list[Effect], KfmError | None]] = [([], None) for _ in found]

    def send(at: int) -> None:
        noted: list[Effect] = []
        one = traced(found[at], noted, dry_run=dry)
        problem: KfmError | None = None
        for _ in range(2):  # what another process committed while this one held the lock is sent by this one, too
            problem = follow(session.state, one, session.clock, session.log)
            if problem is not None:
                break
        results[at] = noted, problem

    threads = [threading.Thread(target=send, args=(at,), name=found[at].sink.name) for at in range(1, len(found))]
    for thread in threads:
        thread.start()
    send(0)
    for thread in threads:
        thread.join()
    for noted, _ in results:
        effects += [msgspec.structs.replace(each, seq=len(effects) + n) for n, each in enumerate(noted, 1)]
    return [problem for _, problem in results if problem is not None and not isinstance(problem, Busy)]


def probe_receiver(session: Session, name: str) -> tuple[Letter, WebhookReceiver]:
    """Return a test event for a receiver, and its sink. BadInput if there is no such receiver."""
    said = session.config.notify.get(name)
    if said is None:
        names = ", ".join(session.config.notify) or "none"
        raise BadInput("there is no receiver of this name", hint=f"the section notify of kfm.yml has: {names}")
    at = rfc3339(session.clock.now_ms())
    id = f"msg_test_{os.urandom(12).hex() if session.mode == 'write' else 'dry_run'}"
    letter = Letter(index=0, run_id=id, dataset="", key=id, body=probe(id, at))
    return letter, receiver(session, name, said)
