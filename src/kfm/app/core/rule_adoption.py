"""Takes labels and masking policies into force that were written or signed but not yet adopted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.core import signed_policies
from kfm.app.core.label_match import are_right
from kfm.app.core.labels_in_force import finish, take_first

if TYPE_CHECKING:
    from kfm.app.core.keyring import Installed


def adopt_rules(session: Installed, dataset: str) -> None:
    """Before a run: finish an adoption that was interrupted, then adopt rules that were never in force."""
    finish(session)
    if session.resolved.is_proposal or not are_right(session):  # nobody agreed to a proposal; a slip is not adopted
        return
    take_first(session)
    signed_policies.take_first(session, dataset)
