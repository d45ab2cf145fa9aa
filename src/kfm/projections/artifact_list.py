"""The signed list of a run's artifacts: the digest of each file. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kfm.crypto.envelopes import unwrap, wrap
from kfm.crypto.signatures import Signer
from kfm.errors import BadInput, Denied
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.records import Receipt

PAYLOAD = "application/vnd.kfm.artifacts+json"


class _Named(msgspec.Struct):
    run_id: str


class _Line(msgspec.Struct):
    receipt: _Named


class _Whole(msgspec.Struct):
    receipt: Receipt


class _Rows(msgspec.Struct):
    runs: list[_Named]


def signed(files: Mapping[str, bytes], signer: Signer) -> bytes:
    """Return the signed list of these files."""
    return wrap(PAYLOAD, canonical({name: digest(body) for name, body in files.items()}), [signer])


def open_list(envelope: bytes, keys: Iterable[bytes]) -> dict[str, str]:
    """Return the digest of each file in a signed list. Raise Denied or BadInput if none of these keys signed it."""
    body = unwrap(envelope, PAYLOAD, keys).body
    try:
        return msgspec.json.decode(body, type=dict[str, str])
    except msgspec.MsgspecError:
        raise Denied("the signed content is not a list of artifacts", hint="check who signed it") from None


def named_runs(body: bytes) -> list[str] | None:
    """Return the ids of the runs that run.jsonl or idempotency.json names; None if it is neither."""
    try:
        if body.startswith(b'{"dry_run":') and b'"runs":[' in body and body.count(b"\n") == 1:
            return [row.run_id for row in msgspec.json.decode(body, type=_Rows).runs]
        return [line.receipt.run_id for line in msgspec.json.Decoder(_Line).decode_lines(body)]
    except msgspec.MsgspecError:
        return None


def receipts_in(lines: bytes) -> list[Receipt]:
    """Return the receipts in run.jsonl; none if it cannot be read."""
    try:
        return [line.receipt for line in msgspec.json.Decoder(_Whole).decode_lines(lines)]
    except msgspec.MsgspecError:
        return []


def without_state(body: bytes) -> bytes:
    """Return run.jsonl or idempotency.json without what only the state holds besides receipts: telemetry, and the ETag
    and time of each source. Other bytes are returned as they are."""
    try:
        lines: list[Any] = msgspec.json.Decoder().decode_lines(body)
        if b"".join(canonical(line) + b"\n" for line in lines) != body:
            return body
        for line in lines:
            if "telemetry" in line:
                line["telemetry"] = None
            for source in (source for row in line.get("runs", ()) for source in row["source_metadata"]):
                source.update(etag="", last_modified="")
    except (msgspec.MsgspecError, BadInput, AttributeError, KeyError, TypeError):
        return body
    return b"".join(canonical(line) + b"\n" for line in lines)
