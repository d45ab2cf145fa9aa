"""The records that questions are answered with, for a door that makes kinds of its own of them."""

from __future__ import annotations

from kfm.app.maintenance.status import Status as Status
from kfm.engine.plan_preview import PlanPreview as PlanPreview
from kfm.projections.explanation import Explanation as Explanation
