"""Brings a signed label file into force and writes it to its place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.app.authority.rule_adoption import finish, next_label_file
from kfm.app.runs.run_control import run_operation
from kfm.fsio import REAL, failing_as_storage, write_apart

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Receipt


def adopt_signed_labels(session: Session, dataset: str, params: dict[str, str], *, reason: str, actor: str) -> Receipt:
    """Move the ref to the signed labels, then write the file. Return the receipt, which says whether they are in
    force."""
    if session.mode == "write":
        _write(session, next_label_file(session, params["to"]), session.objects.read(params["to"]))
    receipt = run_operation(session, "labels", dataset, params, reason=reason, actor=actor)
    if receipt.status == "SUCCESS":
        finish(session)
    elif session.mode == "write":
        REAL.unlink(next_label_file(session, params["to"]))
    return receipt


def _write(session: Session, path: str, body: bytes) -> None:
    place = session.resolved.at(session.resolved.config.labels)
    mode = os.stat(place).st_mode & 0o777 if os.path.exists(place) else 0o644
    with failing_as_storage("write the labels"):
        write_apart(REAL, path, [body], mode=mode)
        REAL.sync_dir(os.path.dirname(path))
