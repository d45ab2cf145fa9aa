"""A temporary installation with one updater, which can be cleared, opened and run repeatedly."""

from __future__ import annotations

import os
import shutil

import msgspec

from kfm import config
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Mode, Session
from kfm.model import refs
from kfm.model.manifests import entries
from kfm.model.records import Receipt
from kfm.model.updater import Updater, check_updater
from kfm.testing.kills import Boundaries, trial_session

RUN_FOLDERS = (".kfm", "public", "catalog")  # made by runs; removed between two trials


class RunResult(msgspec.Struct, frozen=True):
    """The result of a run in a temporary installation."""

    version: str
    plan_hash: str
    outcome: str
    input_hash: str
    digests: dict[str, str]  # by key, with the parts joined by slashes


class TrialInstallation:
    """A temporary installation. `kind` is the class to try; None: the updater that the configuration names."""

    def __init__(self, root: str, dataset: str, kind: type[Updater] | None, window: str, partition: str) -> None:
        self.root = root
        self.dataset = dataset
        self.kind = kind
        self.window = window
        self.partition = partition

    @property
    def config(self) -> str:
        return os.path.join(self.root, "kfm.json")

    def clear(self) -> None:
        for name in RUN_FOLDERS:
            shutil.rmtree(os.path.join(self.root, name), ignore_errors=True)

    def open(self, mode: Mode = "write", boundaries: Boundaries | None = None) -> Session:
        make = self._make if self.kind is not None else None
        return trial_session(config.load(self.config, {}), mode, make, boundaries)

    def _make(self) -> Updater:
        assert self.kind is not None
        updater = self.kind()
        if updater.id == "":
            updater.id = self.dataset
        return check_updater(updater)

    def run(self, session: Session) -> Receipt:
        receipt = run_trigger(
            session, new_trigger(session, self.dataset, window=self.window, partition=self.partition, actor="trial")
        )
        settle_session(session)
        return receipt

    def made(self, session: Session, receipt: Receipt) -> RunResult:
        version = session.state.refs.at(refs.processed(self.dataset))
        found = {"/".join(entry.key): entry.digest for entry in entries(session.objects, version)} if version else {}
        return RunResult(version, receipt.plan_hash, receipt.outcome, receipt.input_hash, found)
