"""The guards of a run: everything that can refuse it, and everything that it must prove or sign."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from kfm.engine.stage_results import ServedRef, Warrant
from kfm.model.ports import Tx
from kfm.model.records import Classification, Lease, Receipt, RefMove, SourceRef, Trigger
from kfm.model.updater import Updater
from kfm.model.zone_requests import BothGates, Gate, Rules, StepGate

if TYPE_CHECKING:  # a run of public data loads none of these
    from kfm.engine.protected.protection import Protection
    from kfm.model.masks import MaskingPolicy


class Authority(Protocol):
    def __call__(self, updater: Updater, trigger: Trigger, moves: list[RefMove], /) -> Warrant:
        """Return the warrant for an operation. Denied if the keys in force do not allow it."""


class Attest(Protocol):
    """Signs the statement of a committed run about its version, in the transaction of the commit."""

    def check(self) -> None:
        """Raise if the signing key is missing."""

    def __call__(
        self, receipt: Receipt, inputs: Sequence[SourceRef], policies: Mapping[str, MaskingPolicy], tx: Tx
    ) -> object: ...


def _unrestricted(_updater: Updater, _trigger: Trigger, _moves: list[RefMove]) -> Warrant:
    """Allow every operation: without a key list, the person at this machine may do everything."""
    return Warrant()


def _none_served(_moves: list[RefMove]) -> list[ServedRef]:
    """Return no refs: nothing is served from the versions here."""
    return []


def _unsigned(_dataset: str, _version: str, _since: str) -> bool:
    """Return False: without a key list, no person can sign."""
    return False


class Guards(Struct):
    """Everything that may refuse a run. `preflight` makes the checks that are possible before anything is fetched."""

    gate: Gate  # before the Published zone
    step_gate: StepGate  # before the Work and Processed zones
    both_gates: BothGates | None = None  # both at once, for plainly public data; None: each is asked alone
    rules: Rules | None = None  # digest and epoch under which the gates decide; None: they cannot change during a run
    epoch: int = 0  # of the labels when the run began
    epoch_now: Callable[[], int] | None = None  # of the labels when it commits
    check_labels: Callable[[Updater, Trigger], None] | None = None  # raises if masks and labels do not match
    check_policies: Callable[[], None] | None = None  # raises if the installation's policies cannot be read
    check_budget: Callable[[Updater, Trigger], None] | None = None  # raises if a burnt error budget closes this
    spent_share: Callable[[], float | None] | None = None  # of the error budget of the dataset; None: no objectives
    authority: Authority = _unrestricted
    served_with: Callable[[list[RefMove]], list[ServedRef]] = _none_served  # the refs for readers that move, too
    signed_since: Callable[[str, str, str], bool] = _unsigned  # have all required signers signed this version since?
    classification_of: Callable[[str, str], Classification | None] | None = None  # of a dataset's version, today
    protection: Protection | None = None  # labels, masks and custodians' keys; None: nothing here is protected
    attest: Attest | None = None
    signs_lists: bool = False  # the receipt says so; in a dry run, too, which predicts the receipt and signs nothing
    slot: Lease | None = None  # of a pool; a run that lost it writes nothing more
    waited_ms: int = 0  # for that slot
