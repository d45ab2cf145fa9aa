"""The records that answer questions, for interfaces that derive their own types from them."""

from __future__ import annotations

from kfm.app.maintenance.status import DatasetStatus as DatasetStatus
from kfm.app.maintenance.status import Status as Status
from kfm.engine.plan_preview import PlanPreview as PlanPreview
from kfm.projections.explanation import Explanation as Explanation
