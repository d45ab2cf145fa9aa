"""All routes of the governed application, in the order in which they are matched."""

from __future__ import annotations

from kfm.api.endpoints import (
    access_routes,
    data_routes,
    dataset_routes,
    ledger_routes,
    map_routes,
    now_routes,
    operation_routes,
    page_routes,
    run_routes,
    schedule_routes,
    search_routes,
    session_routes,
    stac_routes,
    static_routes,
    steward_routes,
    story_routes,
    table_routes,
    version_routes,
)
from kfm.api.endpoints.contract_routes import with_contract

# A page of a dataset comes before the files of its folder.
ROUTES = with_contract(
    (
        *page_routes.ROUTES,
        *dataset_routes.ROUTES,
        *data_routes.ROUTES,
        *access_routes.ROUTES,
        *session_routes.ROUTES,
        *stac_routes.ROUTES,
        *run_routes.ROUTES,
        *now_routes.ROUTES,
        *schedule_routes.ROUTES,
        *ledger_routes.ROUTES,
        *version_routes.ROUTES,
        *map_routes.ROUTES,
        *table_routes.ROUTES,
        *search_routes.ROUTES,
        *steward_routes.ROUTES,
        *operation_routes.ROUTES,
        *story_routes.ROUTES,
        *static_routes.ROUTES,
    )
)
