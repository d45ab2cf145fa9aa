"""Runs a proposed dataset dry, and returns what would be published."""

from __future__ import annotations

from typing import Any, NamedTuple

from kfm.app.runs.execution import Undelivered, run_request, work
from kfm.app.runs.queries import entries_of
from kfm.app.session.session import Session
from kfm.errors import KfmError
from kfm.model import refs
from kfm.model.records import Receipt
from kfm.projections.file_paths import case_twins, page_paths, published_path


class Predicted(NamedTuple):
    """What a run and a promotion would make. `problems` says why they would not."""

    rows: int
    quarantined: int
    files: list[dict[str, Any]]
    page: str  # the path of the page, from the folder of kfm.yml, or its address; empty: there are no pages
    problems: list[str]


class _Silent:
    """A listener that keeps the problems of a run."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def begins(self, about: str) -> None:
        """Say nothing: there is one dataset."""

    def ended(self, receipt: Receipt) -> None:
        self.problems += [note.message for note in receipt.errors]

    def failed(self, about: str, problem: KfmError) -> None:  # noqa: ARG002
        self.problems.append(str(problem))

    def settles(self) -> None:
        """Say nothing: nothing is made durable."""

    def undelivered(self, what: Undelivered) -> None:
        self.problems.append(what.message)


def predict(session: Session, dataset: str) -> Predicted:
    """Return what would be published of a dataset. The session is dry."""
    heard = _Silent()
    receipts = work(session, [run_request(dataset)], heard).receipts
    version = session.state.refs.at(refs.processed(dataset))
    files: list[dict[str, Any]] = []
    if version and not heard.problems:
        entries = list(entries_of(session, version))
        twins = case_twins(entry.key for entry in entries)
        for entry in entries:
            name = published_path(dataset, version, entry, twins).rpartition("/")[2]
            files.append({"file": name, "bytes": entry.size})
    return Predicted(
        rows=sum(one.rows for one in receipts),
        quarantined=sum(one.held_rows for one in receipts),
        files=files,
        page=page_of(session, dataset),
        problems=list(dict.fromkeys(heard.problems)),
    )


def page_of(session: Session, dataset: str) -> str:
    """Return where the page of a dataset will be."""
    config = session.config
    if not config.pages:
        return ""
    place = config.public_url or config.publish.removeprefix("file:")
    return f"{place.rstrip('/')}/{page_paths(dataset)[0]}"
