"""Decide whether a webhook request is genuine, recent and new. No I/O.

The order is fixed: exactly one signature header, of the scheme that the source accepts; the HMAC over the raw bytes;
only then is the body parsed; its signed time must be recent; its id must be new (the caller checks that in the state).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from kfm.clock import Clock, parse_instant
from kfm.errors import BadInput
from kfm.model.records import KEEP_MS
from kfm.model.secret import Secret
from kfm.parsing.strict_json import decode

Scheme = Literal["kfm", "github", "standard"]
Header = tuple[bytes, bytes]  # name in lower case, value as received

SIGNATURE_OF: dict[bytes, Scheme] = {
    b"x-kfm-signature": "kfm",
    b"x-hub-signature-256": "github",
    b"webhook-signature": "standard",
}
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/-")
_NO_SECRET = Secret(b"nobody+has+this+one/it+is+for+comparison+on=")


class Hook(msgspec.Struct, frozen=True):
    """A source that may send webhooks."""

    source_id: str
    secrets: tuple[Secret, ...]
    accept: Scheme = "kfm"  # one only: a message of another scheme must not pass under its rules
    tolerance_ms: int = 300_000
    enabled: bool = True


class Message(msgspec.Struct, frozen=True):
    """The content of a verified request, in one form for all senders."""

    source_id: str
    scheme: Scheme
    trigger: str
    event_type: str
    sent_ms: int | None  # None: its sender signs no time
    delivery_ids: tuple[str, ...]  # digests; the message is a replay if any of them is known
    expires_ms: int  # until when the ids must be kept; 0: for ever
    wanted: bool = True  # False: a ping that requests nothing


class Rejected(Exception):
    """A refused request. The reason goes to KFM's own log; the sender receives only a status."""

    def __init__(self, reason: str, status: int = 403) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


def verify(
    hook: Hook | None, headers: Sequence[Header], body: bytes, now_ms: int, *, age_ms: int | None = None
) -> Message:
    """Return the message of a request whose signature is right and whose time is now, or at most `age_ms` ago. Raise
    Rejected otherwise.

    An unknown source is compared with a dummy secret, so that the response time reveals nothing.
    """
    scheme, sealed = _sealed(headers)
    # Another scheme's secret may not be a key of this scheme; such a request is refused in any case.
    secrets = hook.secrets if hook is not None and hook.accept == scheme else (_NO_SECRET,)
    genuine = _GENUINE[scheme](secrets, headers, sealed, body)
    if hook is None:
        raise Rejected("source.unknown")
    if not hook.enabled:
        raise Rejected("source.disabled")
    if scheme != hook.accept:
        raise Rejected("scheme.refused")
    if not genuine:
        raise Rejected("signature.mismatch")
    message = _MESSAGE[scheme](hook, headers, _object(body), body)
    oldest_ms = hook.tolerance_ms if age_ms is None else age_ms
    if message.sent_ms is not None and not -hook.tolerance_ms <= now_ms - message.sent_ms <= oldest_ms:
        raise Rejected("time.stale")
    return message


def signature(scheme: Scheme, secret: Secret, body: bytes, *, message_id: str = "", timestamp: str = "") -> str:
    """Return the value of the signature header that a sender of this scheme sends."""
    if scheme != "standard":
        return "sha256=" + hmac.new(secret.reveal(), body, hashlib.sha256).hexdigest()
    return "v1," + base64.b64encode(_standard_mac(secret, message_id.encode(), timestamp.encode(), body)).decode()


class Failures(Protocol):
    """Records refused requests, without body, signature or secret."""

    def note(self, now_ms: int, source_claim: str, reason: str, body: bytes, size: int) -> None: ...


class Reception:
    """Verifies incoming requests and records those it refuses."""

    def __init__(self, hooks: dict[str, Hook], clock: Clock, failures: Failures) -> None:
        self._hooks = hooks
        self._clock = clock
        self._failures = failures

    def examine(self, source_id: str, headers: Sequence[Header], body: bytes) -> Message | int:
        """Return the message of a request, or the HTTP status that refuses it."""
        now = self._clock.now_ms()
        try:
            return verify(self._hooks.get(source_id), headers, body, now)
        except Rejected as refusal:
            self._failures.note(now, source_id, refusal.reason, body, len(body))
            return refusal.status

    def turn_away(self, source_id: str, reason: str, size: int) -> None:
        """Record a request that was refused before it was read."""
        self._failures.note(self._clock.now_ms(), source_id, reason, b"", size)


# -- signatures


def _sealed(headers: Sequence[Header]) -> tuple[Scheme, bytes]:
    found = [(SIGNATURE_OF[name], value) for name, value in headers if name in SIGNATURE_OF]
    if len(found) != 1:
        raise Rejected("signature.ambiguous" if found else "signature.missing")
    return found[0]


def _one(headers: Sequence[Header], name: bytes) -> bytes | None:
    found = [value for key, value in headers if key == name]
    if len(found) > 1:
        raise Rejected("header.twice")
    return found[0] if found else None


def _hexadecimal(secrets: Sequence[Secret], _headers: Sequence[Header], sealed: bytes, body: bytes) -> bool:
    if not sealed.startswith(b"sha256=") or len(sealed) != 71:
        raise Rejected("signature.malformed")
    genuine = False
    for secret in secrets:  # always all of them: the time must not reveal which secret matches
        expected = b"sha256=" + hmac.new(secret.reveal(), body, hashlib.sha256).hexdigest().encode()
        genuine |= hmac.compare_digest(expected, sealed)
    return genuine


def _standard(secrets: Sequence[Secret], headers: Sequence[Header], sealed: bytes, body: bytes) -> bool:
    message_id, timestamp = _one(headers, b"webhook-id"), _one(headers, b"webhook-timestamp")
    if not message_id or len(message_id) > 256 or timestamp is None:
        raise Rejected("header.missing")
    offered = [part[3:] for part in sealed.split(b" ") if part.startswith(b"v1,")]
    if not offered or len(offered) > 16:
        raise Rejected("signature.malformed")
    genuine = False
    for secret in secrets:
        expected = base64.b64encode(_standard_mac(secret, message_id, timestamp, body))
        for text in offered:
            genuine |= hmac.compare_digest(expected, text)
    return genuine


def _standard_mac(secret: Secret, message_id: bytes, timestamp: bytes, body: bytes) -> bytes:
    return hmac.new(standard_key(secret), b"%b.%b.%b" % (message_id, timestamp, body), hashlib.sha256).digest()


def standard_key(secret: Secret) -> bytes:
    """Decode a Standard Webhooks secret: base64, with or without `whsec_` in front."""
    try:
        return base64.b64decode(secret.reveal().removeprefix(b"whsec_"), validate=True)
    except ValueError:
        raise BadInput(
            "a Standard Webhooks secret is not base64", hint="copy it whole, with or without its whsec_"
        ) from None


_GENUINE = {"kfm": _hexadecimal, "github": _hexadecimal, "standard": _standard}


# -- bodies


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = decode(body, "the body")
    except BadInput:
        raise Rejected("body.malformed", 400) from None
    if not isinstance(value, dict):
        raise Rejected("body.malformed", 400)
    return value


def _word(value: object) -> str:
    """Return a short plain word; it goes into receipts. Raise Rejected for anything else."""
    if not isinstance(value, str) or not 0 < len(value) <= 100 or not _WORD.issuperset(value):
        raise Rejected("body.incomplete", 400)
    return value


def _instant(value: object) -> int:
    if not isinstance(value, str) or not value[:1].isdigit() or value.isdigit() or len(value) > 40:
        raise Rejected("body.incomplete", 400)
    try:
        return parse_instant(value, "sent_at")
    except BadInput:
        raise Rejected("body.incomplete", 400) from None


def _id(kind: str, text: str) -> str:
    return hashlib.sha256(f"{kind}:{text}".encode("utf-8", "surrogatepass")).hexdigest()


def _body_id(body: bytes) -> str:
    return _id("body", hashlib.sha256(body).hexdigest())


def _from_kfm(hook: Hook, _headers: Sequence[Header], said: dict[str, Any], body: bytes) -> Message:
    if "specversion" in said:
        trigger, event_type, sent, ids = _cloud_event(said)
    elif "Records" in said:
        trigger, event_type, sent, ids = _object_store(said, body)
    else:
        trigger, event_type, sent, ids = _unified(hook, said, body)
    return Message(
        source_id=hook.source_id,
        scheme="kfm",
        trigger=trigger,
        event_type=event_type,
        sent_ms=sent,
        delivery_ids=ids,
        expires_ms=sent + hook.tolerance_ms + KEEP_MS,
    )


_Said = tuple[str, str, int, tuple[str, ...]]


def _unified(hook: Hook, said: dict[str, Any], body: bytes) -> _Said:
    integrity, metadata = said.get("integrity"), said.get("metadata", {})
    if not isinstance(integrity, dict) or integrity.get("version") != "v1" or not isinstance(metadata, dict):
        raise Rejected("body.incomplete", 400)
    if not {"source_id", "trigger", "event_type", "sent_at", "integrity", "metadata"}.issuperset(said):
        raise Rejected("body.unknown_key", 400)
    if said.get("source_id") != hook.source_id:
        raise Rejected("source.mismatch")
    own_id = metadata.get("delivery_id")
    ids = (_id("id", own_id) if isinstance(own_id, str) and own_id else _body_id(body),)
    return _word(said.get("trigger")), _word(said.get("event_type")), _instant(said.get("sent_at")), ids


def _cloud_event(said: dict[str, Any]) -> _Said:
    source, event_id = said.get("source"), said.get("id")
    if said["specversion"] != "1.0" or not isinstance(source, str) or not isinstance(event_id, str) or not event_id:
        raise Rejected("body.incomplete", 400)
    ids = (_id("id", f"{len(source)}:{source}{event_id}"),)
    return "cloudevent", _word(said.get("type")), _instant(said.get("time")), ids


def _object_store(said: dict[str, Any], body: bytes) -> _Said:
    records = said["Records"]
    if not isinstance(records, list) or not records or not all(isinstance(each, dict) for each in records):
        raise Rejected("body.incomplete", 400)
    if not all(isinstance(each.get("s3"), dict) for each in records):
        raise Rejected("body.incomplete", 400)
    sent = max(_instant(each.get("eventTime")) for each in records)
    return "object-store", _word(records[0].get("eventName")), sent, (_body_id(body),)


def _from_github(hook: Hook, headers: Sequence[Header], _said: dict[str, Any], body: bytes) -> Message:
    """Return the message of a GitHub request. GitHub signs neither a time nor its delivery id, so a digest of the body
    is among the ids by which a repeated message is recognized."""
    event = (_one(headers, b"x-github-event") or b"").decode("latin-1")
    delivery = (_one(headers, b"x-github-delivery") or b"").decode("latin-1")
    return Message(
        source_id=hook.source_id,
        scheme="github",
        trigger="github",
        event_type=_word(event),
        sent_ms=None,
        delivery_ids=(_body_id(body), _id("id", delivery)) if delivery else (_body_id(body),),
        expires_ms=0,
        wanted=event != "ping",
    )


def _from_standard(hook: Hook, headers: Sequence[Header], said: dict[str, Any], _body: bytes) -> Message:
    message_id, timestamp = _one(headers, b"webhook-id") or b"", _one(headers, b"webhook-timestamp") or b""
    if not timestamp.isdigit() or len(timestamp) > 11:
        raise Rejected("time.malformed")
    sent = int(timestamp) * 1000
    kind = said.get("event_type", said.get("type", "message"))
    return Message(
        source_id=hook.source_id,
        scheme="standard",
        trigger="standard-webhook",
        event_type=_word(kind),
        sent_ms=sent,
        delivery_ids=(_id("id", message_id.decode("latin-1")),),
        expires_ms=sent + hook.tolerance_ms + KEEP_MS,
    )


_MESSAGE = {"kfm": _from_kfm, "github": _from_github, "standard": _from_standard}
