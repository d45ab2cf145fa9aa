"""`kfm sinks test`: sends a test event to receivers of notices, and says what each answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.maintenance.maintenance_records import record
from kfm.app.metadata.notice_sinks import probe_receiver
from kfm.errors import BadInput, KfmError
from kfm.model.records import Record

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Receipt


class TriedReceiver(Record, frozen=True):
    """What a receiver answered to a test event."""

    sink: str
    event: dict[str, object]
    answer: str  # its status, or why there is none; empty: nothing was sent
    took_it: bool


def try_receivers(
    session: Session, name: str = "", *, sends: bool = True, **who: str
) -> tuple[list[TriedReceiver], list[Receipt]]:
    """Send a test event to one receiver, or to all. Each is recorded before anything is sent. Return what they
    answered, and the receipts."""
    if not session.config.notify:
        raise BadInput("there is no receiver of notices", hint="add the section notify to kfm.yml")
    found, receipts = [], []
    probes = [probe_receiver(session, each) for each in ([name] if name else session.config.notify)]
    for letter, sink in probes:
        answer, took_it = "", False
        if sends:
            receipts.append(record(session, "sinks", {"sink": sink.name, "test": letter.key}, **who))
            try:
                _, answered = sink.post(letter)
                answer, took_it = str(answered.status), 200 <= answered.status < 300
            except KfmError as problem:
                answer = str(problem)
        found.append(TriedReceiver(sink=sink.name, event=letter.body, answer=answer, took_it=took_it))
    return found, receipts
