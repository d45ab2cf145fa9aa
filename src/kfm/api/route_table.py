"""All routes of the governed application, in the order in which they are matched."""

from __future__ import annotations

from kfm.api import (
    access_routes,
    data_routes,
    ledger_routes,
    now_routes,
    page_routes,
    run_routes,
    session_routes,
    stac_routes,
    steward_routes,
    story_routes,
    version_routes,
)
from kfm.api.changes import operation_routes
from kfm.api.contract_routes import with_contract

# A page of a dataset comes before the files of its folder.
ROUTES = with_contract(
    (
        *page_routes.ROUTES,
        *data_routes.ROUTES,
        *access_routes.ROUTES,
        *session_routes.ROUTES,
        *stac_routes.ROUTES,
        *run_routes.ROUTES,
        *now_routes.ROUTES,
        *ledger_routes.ROUTES,
        *version_routes.ROUTES,
        *steward_routes.ROUTES,
        *operation_routes.ROUTES,
        *story_routes.ROUTES,
    )
)
