"""The routes about the ledger, and its pages."""

from __future__ import annotations

from kfm.api.console.ledger_pages import ledger_entry_page, ledger_page
from kfm.api.endpoints.run_routes import AFTER, DATASET, LIMIT, around, seen_by
from kfm.api.problems import not_found
from kfm.api.routes import HTML, Answer, ApiRoute, Call, View
from kfm.app.serving.ledger_answers import LedgerList, LedgerProof, ledger_list, ledger_proof


def _list(view: View, call: Call) -> LedgerList:
    seen, query = seen_by(view), call.query
    if query["dataset"] and not seen.may_name(query["dataset"]):
        raise not_found()
    return ledger_list(view.session, seen, query["dataset"], query["after"], query["limit"], view.entries)


def _proof(view: View, call: Call) -> LedgerProof:
    text = call.path["index"]
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else 0
    found = ledger_proof(view.session, seen_by(view), number, view.entries)
    if found is None:
        raise not_found()
    return found


def ledger(view: View, call: Call) -> Answer:
    return Answer(_list(view, call))


def ledger_html(view: View, call: Call) -> Answer:
    return Answer(ledger_page(_list(view, call), call.query, around(view)), HTML)


def entry(view: View, call: Call) -> Answer:
    return Answer(_proof(view, call))


def entry_html(view: View, call: Call) -> Answer:
    return Answer(ledger_entry_page(_proof(view, call), around(view)), HTML)


_PARAMETERS = (DATASET, AFTER, LIMIT)
ROUTES = (
    ApiRoute(
        "GET", "/v1/ledger", "ledger", "Entries of the ledger, the newest first", ledger, LedgerList, _PARAMETERS,
        tag="ledger",
    ),
    ApiRoute(
        "GET", "/v1/ledger/{index}", "ledgerEntry", "An entry with the proof that it is in the ledger", entry,
        LedgerProof, tag="ledger",
    ),
    ApiRoute(
        "GET", "/ledger", "ledgerPage", "The page of the ledger", ledger_html, parameters=_PARAMETERS, media=HTML,
        tag="pages",
    ),
    ApiRoute("GET", "/ledger/{index}", "ledgerEntryPage", "The page of an entry", entry_html, media=HTML, tag="pages"),
)  # fmt: skip
