"""The public records of the installation in this folder."""

from __future__ import annotations

import os

from kfm import config
from kfm.contract.public_run import PublicRun
from kfm.engine.told import public_runs
from kfm.house.opening import open_house


def told() -> list[PublicRun]:
    """Of every run that ended, in the order of the ledger."""
    with open_house(config.load("", os.environ), mode="read") as house:
        return list(public_runs(house.state, house.objects))


def last() -> PublicRun:
    return told()[-1]
