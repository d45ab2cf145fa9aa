"""What arrives from outside, over an open house: webhooks, and the triggers that wait because of them.

Doors come in here for it; what is decided is decided in orchestration/, what is kept is kept by the state.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from kfm.app.runs.event_schedules import asked_by, note_event, on_events
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.settlement import keep_ms
from kfm.app.runs.trigger_request import trigger_updater
from kfm.app.session.session import Session
from kfm.clock import from_environment, rfc3339
from kfm.config import Resolved
from kfm.errors import BadInput, Denied, Refused
from kfm.model.records import Receipt, Trigger
from kfm.model.secret import Secret
from kfm.scheduling import triggers
from kfm.scheduling.webhook_signatures import (
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

__all__ = [
    "Message",
    "Reception",
    "judge",
    "reception_of",
    "replay",
    "retry",
    "signed_headers",
    "take",
]

FAILURES = ".kfm/webhook_failures.jsonl"


def hook_of(resolved: Resolved, name: str) -> Hook:
    """A webhook with its secrets. Refused if one is empty or short."""
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
    """Who judges requests at the door, and notes what is turned away; `tell` hears if that cannot be noted."""
    on_events(session)  # a schedule that means nothing is told before anyone listens
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


def take(session: Session, messages: Sequence[Message]) -> list[list[str] | None]:
    """Verified messages become triggers, all or none, durably: for each the ids, or None for a replay."""

    def told(message: Message) -> list[Trigger]:
        who, why = f"webhook:{message.source_id}", f"{message.trigger}: {message.event_type}"
        datasets = session.config.webhooks[message.source_id].datasets
        asked = (asked_by(session, name, "webhook", actor=who, reason=why) for name in datasets)
        return [trigger for trigger in asked if trigger is not None]

    return triggers.take(session.state, messages, told, session.clock.now_ms(), partial(note_event, session))


def replay(session: Session, source: str, headers: Sequence[Header], body: bytes) -> list[str] | None:
    """Take a request that came while nobody listened: its signature must hold, and its id be known still if it came."""
    hook = hook_of(session.resolved, source)
    try:
        message = verify(hook, headers, body, session.clock.now_ms(), age_ms=max(keep_ms(session), hook.tolerance_ms))
        if triggers.is_past(session.state, message):
            raise Rejected("time.stale")
    except Rejected as refusal:
        hint = "give it exactly as it came"
        if refusal.reason == "time.stale":
            hint = f"nobody knows whether it was taken: ids are dropped after keep_days ({session.config.keep_days})"
            hint += "; `kfm run` does what it asks for"
        raise Denied(f"the request is refused ({refusal.reason})", hint=hint) from None
    return take(session, [message])[0]


def judge(resolved: Resolved, source: str, headers: Sequence[Header], body: bytes) -> dict[str, Any]:
    """Would the door take this request now? Says why not to whoever holds the configuration; changes nothing."""
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
    """What a sender gives with this body, now."""
    if scheme == "kfm":
        return {"X-KFM-Signature": signature("kfm", secret, body)}
    if scheme == "github":
        return {"X-Hub-Signature-256": signature("github", secret, body), "X-GitHub-Event": "push"}
    stamp = str(from_environment().now_ms() // 1000)
    message_id = message_id or f"msg_{stamp}"
    sealed = signature("standard", secret, body, message_id=message_id, timestamp=stamp)
    return {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": sealed}


def retry(session: Session, trigger_id: str) -> Receipt:
    """Run a trigger now: one that waits as it is, one that ended as a new one like it."""
    waiting = next((each for each in session.state.inbox.waiting() if each.trigger_id == trigger_id), None)
    if waiting is None:
        ended = session.state.inbox.ended(trigger_id)
        if ended is None:
            raise BadInput(f"there is no trigger {trigger_id[:80]!r}", hint="see `kfm triggers list --all`")
        if ended.trigger.kind == "operation":
            raise Refused("an operation is not done again", hint="order it anew: `kfm publish`, `kfm rollback` …")
        again = msgspec.structs.replace(ended.trigger, trigger_id="", received_at=rfc3339(session.clock.now_ms()))
        waiting = triggers.keep(session.state, again)
    return run_trigger(session, waiting, trigger_updater(session, waiting))
