"""Labels on single records that are stricter now than when a masked version was made.

Which records a version holds cannot be found out from its public form, because an author may leave the ids out. So a
label that is new or stricter closes every version that was masked before it, until it is made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.classification import made_from
from kfm.app.authority.labels_in_force import labels_in_force, read_bytes
from kfm.clock import rfc3339
from kfm.engine.protected.source_classification import PUBLIC, is_more_closed
from kfm.model import refs
from kfm.model.labels import Labels, standing_of_record
from kfm.model.operation_target import REF

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import DatasetVersion, SourceRef

RULE = "record.closed"


def record_rules(session: Session, made: DatasetVersion) -> tuple[str, ...]:
    """Return why a label on a record forbids to show this version, by the names of rules; empty if none does."""
    labels = labels_in_force(session)
    records = sorted({label.of.record for label in labels.labels if label.of.record})
    if not records:
        return ()
    seen: set[str] = set()
    return (RULE,) if _is_stricter(session, made, labels, records, seen) else ()


def _is_stricter(session: Session, made: DatasetVersion, labels: Labels, records: list[str], seen: set[str]) -> bool:
    """Return whether a record in this version, or in a version that it was made of, has a stricter label now."""
    if f"{made.dataset}@{made.digest}" in seen:
        return False
    seen.add(f"{made.dataset}@{made.digest}")
    inputs = made_from(session, made.dataset, made.validated_by or made.run_id)
    if any(map(_is_masked, inputs)) and _changed(session, made, labels, records):
        return True
    for ref in inputs:
        if ref.uri.startswith(REF):
            dataset = ref.uri.removeprefix(REF).partition("/")[2]
            other = session.state.ledger.version(dataset, ref.content_hash)
            if other is not None and _is_stricter(session, other, labels, records, seen):
                return True
    return False


def _is_masked(ref: SourceRef) -> bool:
    """Return whether a run masked this source. A version of another dataset was masked when that one was made."""
    return not ref.uri.startswith(REF) and ref.standing is not None and ref.standing.level != "public"


def _changed(session: Session, made: DatasetVersion, labels: Labels, records: list[str]) -> bool:
    around = made.standing or PUBLIC
    last = session.state.ledger.receipt(made.validated_by or made.run_id)
    since = last.started_at if last is not None else made.created_at
    before, today = _signed_at(session, since), rfc3339(session.clock.now_ms())[:10]
    for record in records:
        was = standing_of_record(before, record, around, since[:10])
        if is_more_closed(standing_of_record(labels, record, around, today), was):
            return True
    return False


def _signed_at(session: Session, since: str) -> Labels:
    """Return the labels that were in force by signature at that time. A run takes a label file that was only tightened
    into force before it begins."""
    at = ""
    for entry in session.state.refs.history(refs.LABELS):
        at = entry.after if entry.ts <= since else at
    return read_bytes(session.objects.read(at)) if at else Labels(version=1)
