"""Webhooks and the triggers that they leave in the inbox.

`scheduling` decides what a request means, and the state stores it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.app.runs.event_schedules import event_trigger, note_event, on_events
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.settlement import keep_ms
from kfm.app.runs.trigger_request import trigger_updater
from kfm.app.session.session import Session
from kfm.clock import from_environment, rfc3339
from kfm.config import Resolved
from kfm.errors import BadInput, Denied, Refused
from kfm.model.operation_target import is_requested
from kfm.model.records import KEEP_MS, Receipt, Trigger
from kfm.model.secret import Secret
from kfm.scheduling import triggers
from kfm.scheduling.webhook_requests import (
    Header,
    Hook,
    Message,
    Reception,
    Rejected,
    Scheme,
    signature,
    standard_key,
    verify,
)
from kfm.telemetry.rejected_requests import FailureLog

if TYPE_CHECKING:
    from kfm.model.ports import Tx

__all__ = [
    "SERVER",
    "Message",
    "Reception",
    "accepted_request",
    "judge",
    "reception_of",
    "replay",
    "retry",
    "signed_headers",
    "take",
]

FAILURES = ".kfm/webhook_failures.jsonl"


def hook_of(resolved: Resolved, name: str) -> Hook:
    """Return the settings of a webhook with its secrets. Refused if a secret is empty or short."""
    said = resolved.config.webhooks[name]
    secrets = tuple(resolved.secret(reference, os.environ) for reference in said.secrets)
    if said.accept == "standard":
        for secret in secrets:
            standard_key(secret)
    return Hook(
        source_id=name,
        secrets=secrets,
        accept=said.accept,
        tolerance_ms=round(said.tolerance_s * 1000),
        enabled=said.enabled,
    )


def reception_of(session: Session, tell: Callable[[str, str], None] | None = None) -> Reception:
    """Return the object that verifies webhook requests and logs the rejected ones. `tell` is called if that log cannot
    be written. Refused if two webhooks share a secret."""
    on_events(session)  # raises for a mistake in a schedule before the server listens
    hooks = {name: hook_of(session.resolved, name) for name in sorted(session.config.webhooks)}
    used: dict[bytes, str] = {}
    for name, hook in hooks.items():
        for value in {secret.reveal() for secret in hook.secrets}:
            if used.setdefault(value, name) != name:
                raise Refused(
                    f"webhooks {used[value]} and {name} have the same secret",
                    hint="give each its own: what was signed for one would be taken by the other",
                )
    return Reception(hooks, session.clock, FailureLog(session.resolved.at(FAILURES), tell=tell))


class AcceptedRequest(Message, frozen=True, kw_only=True):
    """What a person requested from this server, in the form of a message: the trigger to store, and the objects that it
    names. The key of the request and its body are its ids, so that the same request again stores nothing."""

    kept: Trigger
    objects: tuple[tuple[str, bytes], ...] = ()


SERVER = "server"  # stands for the sender of what people request from a server


def accepted_request(
    now_ms: int, ids: tuple[str, str], trigger: Trigger, objects: Sequence[tuple[str, bytes]]
) -> Message:
    """Return the message that stores a request with its ids: that of its key, and that of its key and body."""
    return AcceptedRequest(
        source_id=SERVER,
        scheme="kfm",
        trigger="request",
        event_type=trigger.kind,
        sent_ms=None,
        delivery_ids=ids,
        expires_ms=now_ms + KEEP_MS,
        kept=trigger,
        objects=tuple(objects),
    )


def take(session: Session, messages: Sequence[Message]) -> list[list[str] | None]:
    """Store the triggers of verified messages in one transaction. Return the trigger ids of each message; None for a
    message that was taken before."""
    named = {name: body for each in messages if isinstance(each, AcceptedRequest) for name, body in each.objects}

    def noted(tx: Tx, trigger: Trigger) -> None:
        note_event(session, tx, trigger)
        if (body := named.get(trigger.params.get("to", ""))) is not None:
            tx.objects([(trigger.params["to"], body)])

    def told(message: Message) -> list[Trigger]:
        if isinstance(message, AcceptedRequest):
            return [message.kept]
        who, why = f"webhook:{message.source_id}", f"{message.trigger}: {message.event_type}"
        datasets = session.config.webhooks[message.source_id].datasets
        found = (event_trigger(session, name, "webhook", actor=who, reason=why) for name in datasets)
        return [trigger for trigger in found if trigger is not None]

    return triggers.take(session.state, messages, told, session.clock.now_ms(), noted)


def replay(session: Session, source: str, headers: Sequence[Header], body: bytes) -> list[str] | None:
    """Take a request that was sent while no server listened, and return its trigger ids. Denied if its signature is
    wrong, or if it is so old that nothing shows whether it was taken before."""
    hook = hook_of(session.resolved, source)
    try:
        message = verify(hook, headers, body, session.clock.now_ms(), age_ms=max(keep_ms(session), hook.tolerance_ms))
        if triggers.is_past(session.state, message):
            raise Rejected("time.stale")
    except Rejected as refusal:
        hint = "give it exactly as it came"
        if refusal.reason == "time.stale":
            hint = f"it is unknown whether it was taken: ids are dropped after keep_days ({session.config.keep_days})"
            hint += "; `kfm run` does what it asks for"
        raise Denied(f"the request is refused ({refusal.reason})", hint=hint) from None
    return take(session, [message])[0]


def judge(resolved: Resolved, source: str, headers: Sequence[Header], body: bytes) -> dict[str, Any]:
    """Return whether a webhook would accept this request now, and if not, why. Changes nothing."""
    try:
        message = verify(hook_of(resolved, source), headers, body, from_environment().now_ms())
    except Rejected as refusal:
        return {"accepted": False, "reason": refusal.reason, "status": refusal.status}
    return {
        "accepted": True,
        "source_id": message.source_id,
        "scheme": message.scheme,
        "trigger": message.trigger,
        "event_type": message.event_type,
        "sent_at": None if message.sent_ms is None else rfc3339(message.sent_ms),
    }


def signed_headers(scheme: Scheme, secret: Secret, body: bytes, message_id: str = "") -> dict[str, str]:
    """Return the headers with which a sender would sign this body now."""
    if scheme == "kfm":
        return {"X-KFM-Signature": signature("kfm", secret, body)}
    if scheme == "github":
        return {"X-Hub-Signature-256": signature("github", secret, body), "X-GitHub-Event": "push"}
    stamp = str(from_environment().now_ms() // 1000)
    message_id = message_id or f"msg_{stamp}"
    sealed = signature("standard", secret, body, message_id=message_id, timestamp=stamp)
    return {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": sealed}


def retry(session: Session, trigger_id: str) -> Iterator[Receipt]:
    """Run a trigger now and yield the receipts. A trigger that has ended is stored again as a new one. Refused for an
    operation that has ended."""
    waiting = next((each for each in session.state.inbox.waiting() if each.trigger_id == trigger_id), None)
    if waiting is None:
        ended = session.state.inbox.ended(trigger_id)
        if ended is None:
            raise BadInput(f"there is no trigger {trigger_id[:80]!r}", hint="see `kfm triggers list --all`")
        if ended.trigger.kind == "operation":
            raise Refused("an operation is not done again", hint="request it again: `kfm publish`, `kfm rollback` …")
        again = msgspec.structs.replace(ended.trigger, trigger_id="", received_at=rfc3339(session.clock.now_ms()))
        waiting = triggers.keep(session.state, again)
    if is_requested(waiting):
        from kfm.app.runs.requested_work import carry_out_trigger

        yield from carry_out_trigger(session, waiting)
    else:
        yield run_trigger(session, waiting, trigger_updater(session, waiting))
