"""The routes about runs: /v1/runs, and the pages of the same records."""

from __future__ import annotations

from kfm.api.console.frame import Around
from kfm.api.console.run_pages import run_page, runs_page
from kfm.api.problems import not_found
from kfm.api.routes import HTML, STAFF, Answer, ApiRoute, Call, Parameter, View
from kfm.app.metadata.archive_places import places_of_public
from kfm.app.serving.discretion import Discretion
from kfm.app.serving.run_answers import JournalPage, ReceiptAnswer, RunAnswer, RunList, StepList
from kfm.app.serving.run_reader import (
    FoundRun,
    find_shown_run,
    journal_page,
    progress,
    receipt_answer,
    run_answer,
    run_list,
    step_list,
)

_STATUSES = ("", "SUCCESS", "FAILED", "PARTIAL", "SKIPPED", "RUNNING")
DATASET = Parameter("dataset", "only of this dataset")
STATUS = Parameter("status", "only with this status", "choice", "", choices=_STATUSES)
AFTER = Parameter("after", "the cursor that the page before gives as `next`", "whole", 0, 0, 999_999_999)
LIMIT = Parameter("limit", "the most entries of a page", "whole", 50, 1, 1000)


def seen_by(view: View) -> Discretion:
    return Discretion(view.session, view.shelf, view.audience)


def around(view: View) -> Around:
    """Return what the pages of the console have around them for this audience."""
    return Around(places_of_public(view.session).title, view.audience in STAFF)


def _list(view: View, call: Call) -> RunList:
    seen, query = seen_by(view), call.query
    if query["dataset"] and not seen.may_name(query["dataset"]):
        raise not_found()
    return run_list(view.session, seen, query["dataset"], query["status"], query["after"], query["limit"], view.entries)


def _found(view: View, call: Call, seen: Discretion) -> FoundRun:
    found = find_shown_run(view.session, seen, call.path["run"])
    if found is None:
        raise not_found()
    return found


def runs(view: View, call: Call) -> Answer:
    return Answer(_list(view, call))


def runs_html(view: View, call: Call) -> Answer:
    return Answer(runs_page(_list(view, call), call.query, around(view)), HTML)


def run(view: View, call: Call) -> Answer:
    seen = seen_by(view)
    found = _found(view, call, seen)
    return Answer(run_answer(view.session, seen, found, progress(view.session, found, 0, 0), view.entries))


def run_html(view: View, call: Call) -> Answer:
    seen = seen_by(view)
    found, query = _found(view, call, seen), call.query
    come = progress(view.session, found, query["step"], 100)
    answer = run_answer(view.session, seen, found, come, view.entries)
    steps = step_list(view.session, found, come, query["step"], 100, view.entries)
    journal = journal_page(view.session, seen, found, query["record"], 50, view.entries)
    receipt = receipt_answer(view.session, seen, found, view.entries)
    return Answer(run_page(answer, steps, journal, receipt, around(view)), HTML)


def steps(view: View, call: Call) -> Answer:
    found, query = _found(view, call, seen_by(view)), call.query
    come = progress(view.session, found, query["after"], query["limit"])
    return Answer(step_list(view.session, found, come, query["after"], query["limit"], view.entries))


def journal(view: View, call: Call) -> Answer:
    seen, query = seen_by(view), call.query
    found = _found(view, call, seen)
    return Answer(journal_page(view.session, seen, found, query["after"], query["limit"], view.entries))


def receipt(view: View, call: Call) -> Answer:
    seen = seen_by(view)
    found = receipt_answer(view.session, seen, _found(view, call, seen), view.entries)
    if found is None:
        raise not_found()
    return Answer(found)


_PAGED = (AFTER, LIMIT)
ROUTES = (
    ApiRoute(
        "GET", "/v1/runs", "runs", "Runs, the newest first", runs, RunList, (DATASET, STATUS, *_PAGED), tag="runs"
    ),
    ApiRoute("GET", "/v1/runs/{run}", "run", "One run: its stages, its cost, its record", run, RunAnswer, tag="runs"),
    ApiRoute("GET", "/v1/runs/{run}/steps", "runSteps", "The steps of a run", steps, StepList, _PAGED, tag="runs"),
    ApiRoute(
        "GET", "/v1/runs/{run}/journal", "runJournal", "The write-ahead log of a run", journal, JournalPage, _PAGED,
        tag="runs",
    ),
    ApiRoute("GET", "/v1/runs/{run}/receipt", "runReceipt", "The receipt of a run", receipt, ReceiptAnswer, tag="runs"),
    ApiRoute(
        "GET", "/runs", "runsPage", "The page of runs", runs_html, parameters=(DATASET, STATUS, *_PAGED), media=HTML,
        tag="pages",
    ),
    ApiRoute(
        "GET", "/runs/{run}", "runPage", "The page of a run", run_html, media=HTML, tag="pages",
        parameters=(
            Parameter("step", "the step after which the steps begin", "whole", 0, 0, 999_999_999),
            Parameter("record", "the record after which the journal begins", "whole", 0, 0, 999_999_999),
        ),
    ),
)  # fmt: skip
