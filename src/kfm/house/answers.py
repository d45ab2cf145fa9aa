"""The records that questions are answered with, for a door that makes kinds of its own of them."""

from __future__ import annotations

from kfm.engine.preview import PlanPreview as PlanPreview
from kfm.house.status import Status as Status
from kfm.projections.account import Account as Account
