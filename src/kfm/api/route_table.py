"""All routes of the governed application, in the order in which they are matched."""

from __future__ import annotations

from kfm.api import access_routes, data_routes, page_routes, stac_routes

# A page of a dataset comes before the files of its folder.
ROUTES = (*page_routes.ROUTES, *data_routes.ROUTES, *access_routes.ROUTES, *stac_routes.ROUTES)
