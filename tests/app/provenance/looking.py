"""The public records of the installation in this folder."""

from __future__ import annotations

import os

from kfm import config
from kfm.app.session.session import open_session
from kfm.model.public_run import PublicRun
from tests.delivery.ledger_runs import public_runs


def told() -> list[PublicRun]:
    """Of every run that ended, in the order of the ledger."""
    with open_session(config.load("", os.environ), mode="read") as session:
        return list(public_runs(session.state, session.objects))


def last() -> PublicRun:
    return told()[-1]
