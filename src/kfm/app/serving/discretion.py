"""How much one audience may learn about runs, entries of the ledger and names of datasets.

Data that is not plainly public shows no key, step, source address or text of an error to anybody: only what the
commands show of it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kfm.app.runs.visibility import Visibility
from kfm.errors import BadInput, Unavailable
from kfm.model import refs
from kfm.model.lineage_edges import ZONES
from kfm.model.public_run import WITHHELD_SOURCE

if TYPE_CHECKING:
    from kfm.app.serving.shelf import Shelf
    from kfm.app.session.session import Session
    from kfm.model.public_run import PublicInput, PublicRun
    from kfm.model.records import DatasetVersion, RefMove

STAFF = ("single", "operator", "steward", "admin")  # who may see more than what is public
EVERYTHING = "global"  # stands for the dataset in operations on all of them
_DATASET, _REF = "kfm://dataset/", "kfm://ref/"


class Discretion:
    """Decides for one request. It reads the labels once."""

    def __init__(self, session: Session, shelf: Shelf, audience: str) -> None:
        self._session = session
        self.shelf = shelf
        self.is_staff = audience in STAFF
        self._visibility: Visibility | None = None
        self._read = False
        self._plain: dict[str, bool] = {}
        self._named: dict[str, bool] = {}

    def may_name(self, dataset: str) -> bool:
        """Return whether the audience may learn that a dataset of this name exists."""
        if dataset not in self._named:
            own = self.is_staff and dataset in ("", EVERYTHING)
            self._named[dataset] = own or self.shelf.find(dataset) is not None or self._staff_name(dataset)
        return self._named[dataset]

    def _staff_name(self, dataset: str) -> bool:
        return self.is_staff and self.shelf.may_name(dataset)

    def names(self) -> list[str]:
        """Return the datasets that the audience may know of, by name."""
        if self.is_staff:
            return self.shelf.names()
        return [one.dataset for one in self.shelf.all()]

    def is_plain(self, dataset: str, *versions: DatasetVersion | None) -> bool:
        """Return whether nothing restricts this dataset now, nor these versions of it."""
        if dataset == EVERYTHING:
            return True
        if dataset not in self._plain:
            self._plain[dataset] = self._is_public(dataset, *self._current(dataset))
        return self._plain[dataset] and (not versions or self._is_public(dataset, *versions))

    def _is_public(self, dataset: str, *versions: DatasetVersion | None) -> bool:
        if not self._read:
            self._read = True
            try:
                self._visibility = Visibility(self._session)
            except BadInput:  # without readable labels, no dataset counts as public
                self._visibility = None
        return self._visibility is not None and self._visibility.is_public(dataset, *versions)

    def _current(self, dataset: str) -> list[DatasetVersion | None]:
        state = self._session.state
        at = [state.refs.at(refs.in_zone(zone, dataset)) for zone in ZONES]
        return [state.ledger.version(dataset, version) for version in at if version]

    def may_show(self, run: PublicRun) -> bool:
        """Return whether the audience may see this run: its version is shown, or it belongs to the staff."""
        if self.shelf.may_show(run.dataset, run.version):
            return True
        return self.is_staff and self.may_name(run.dataset)

    def is_open(self, run: PublicRun) -> bool:
        """Return whether keys, steps and addresses of this run may be shown: it was about public data, and the dataset
        and its version are public now."""
        if run.labels is not None:
            return False
        version = self._session.state.ledger.version(run.dataset, run.version) if run.version else None
        return self.is_plain(run.dataset, version)

    def of(self, run: PublicRun) -> PublicRun:
        """Return the record of a run as the audience may see it."""
        inputs = tuple(each for each in run.inputs if self._may_show_input(each))
        moves = tuple(filter(self._may_show_move, run.moves))
        before = run.before if self.is_staff or self.shelf.may_show(run.dataset, run.before) else ""
        run = replace(run, inputs=inputs, moves=moves, before=before, removed=(), operator="")
        if self.is_open(run):
            return run
        withheld = tuple(each for each in inputs if each.id.startswith((_DATASET, _REF, WITHHELD_SOURCE)))
        return replace(
            run, inputs=withheld, artifacts=(), kept=(), restored=(), run_key="", plan_hash="", input_hash="",
            config_hash="", correlation_id="", partition="", rows=None, held_rows=None, metadata={},
        )  # fmt: skip

    def _may_show_input(self, each: PublicInput) -> bool:
        name = named_by(each.id)
        return not name or self.may_name(name)

    def _may_show_move(self, move: RefMove) -> bool:
        name = refs.parse(move.ref).dataset
        if not self.may_name(name):
            return False
        return self.is_staff or all(self.shelf.may_show(name, at) for at in (move.before, move.after) if at)


@contextmanager
def own_mistakes() -> Iterator[None]:
    """Answer for mistakes in the files of the installation: they are not the caller's, and their texts are for the
    command line."""
    try:
        yield
    except BadInput as problem:
        raise Unavailable("a file of this installation has a mistake", hint="see `kfm status`") from problem


def named_by(address: str) -> str:
    """Return the dataset that an address names; empty if it names none."""
    if address.startswith(_DATASET):
        return address.removeprefix(_DATASET).partition("/")[0].partition("@")[0]
    if address.startswith(_REF):
        return refs.parse(address.removeprefix(_REF)).dataset
    return ""
