"""The sink of worker receipts: writes the receipt of every run into a folder, in the form that workers exchange."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.app.metadata.private_folder import check_private
from kfm.app.session.backends import sink_lock
from kfm.delivery.followers import Follower
from kfm.model.outbox_messages import Letter
from kfm.projections.file_paths import receipt_path
from kfm.projections.worker_receipt import worker_receipt
from kfm.sinks.receipt_files import ReceiptFiles

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import LedgerEntry, Receipt


def worker_receipts_follower(session: Session) -> Follower:
    """Return the follower that writes worker receipts."""
    sink = ReceiptFiles(session.resolved.at(session.resolved.config.worker_receipts))
    return Follower(sink, partial(_letters, session), sink_lock(session.resolved, session.state, sink.name))


def _letters(session: Session, entries: Sequence[LedgerEntry]) -> Iterator[Letter]:
    check_private(session.resolved, "worker_receipts", session.resolved.config.worker_receipts)
    for entry in entries:
        receipt = session.state.ledger.receipt(entry.run_id)
        if receipt is not None:
            path = receipt_path(receipt)
            body = msgspec.json.format(msgspec.json.encode(worker_form(session, receipt)), indent=2) + b"\n"
            yield Letter(index=entry.index, run_id=entry.run_id, dataset=entry.dataset, key=path, body=body)


def worker_form(session: Session, receipt: Receipt) -> dict[str, Any]:
    """Return a receipt in the form that workers exchange."""
    run = session.state.runs.get(receipt.run_id)
    inputs = run.inputs if run is not None and receipt.trigger != "operation" else []
    return worker_receipt(receipt, session.state.ledger.telemetry(receipt.run_id), inputs)
