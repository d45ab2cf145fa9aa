"""Reports a preview to its pull request, and reads the approvals from there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.app.previews.git_branches import Repository
from kfm.app.previews.merged_promotion import Difference
from kfm.config import Resolved
from kfm.errors import BadInput
from kfm.model.preview_records import Preview
from kfm.projections.preview_report_text import MARK
from kfm.sinks.http_transport import HttpTransport
from kfm.sinks.pull_requests import PullRequests

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.reports.preview_findings import Proposed

CHECK = "kfm preview"


class Pull:
    """One pull request."""

    def __init__(self, requests: PullRequests, number: int) -> None:
        self.requests = requests
        self.number = number


def requests_of(resolved: Resolved) -> PullRequests:
    """Return the client for the repository of pull requests: `github.repository`, else the one published to. BadInput
    if there is none."""
    said = resolved.config.github
    scheme, _, target = resolved.config.publish.partition(":")
    repository = said.repository or (target if scheme == "github" else "")
    if not repository:
        raise BadInput("kfm.yml names no repository of pull requests", hint="set `github: {repository: OWNER/NAME}`")
    return PullRequests(
        repository,
        lambda: resolved.secret(said.token, os.environ, shortest=1).reveal().decode("latin-1"),
        HttpTransport(),
        api=said.api,
    )


def pull_of(resolved: Resolved, number: int) -> Pull:
    """Return the pull request with this number. BadInput if it is not positive."""
    if number < 1:
        raise BadInput("--pull is the number of a pull request", hint="such as --pull 12")
    return Pull(requests_of(resolved), number)


def post_report(pull: Pull, said: Proposed, text: str) -> None:
    """Post the report as a comment, and the result as a check and a status on exactly the previewed commit."""
    title = {"success": "every gate says yes", "failure": "a gate says no"}.get(said.conclusion, "nothing to judge")
    requests = pull.requests
    requests.comment(pull.number, MARK, text)
    requests.check(said.commit, CHECK, said.conclusion, said.preview, title, f"{title}: preview {said.preview}")
    state = "failure" if said.conclusion == "failure" else "success"
    requests.status(said.commit, CHECK, state, f"{title}: {said.preview[:23]}")


def approved_in(pull: Pull, session: Session, preview: Preview, at: str) -> tuple[bool, list[Difference]]:
    """Return whether the pull request was merged into the checked-out branch, and why its approval does not cover this
    preview."""
    shown = pull.requests.show(pull.number)
    head, merge = str(shown["head"]["sha"]), str(shown.get("merge_commit_sha") or "")
    merged = shown.get("merged") is True and bool(merge) and Repository(session.resolved.root).is_merged(merge)
    against = []

    def stale(found: str, message: str) -> None:
        against.append(Difference(rule="approval.stale", dataset="", approved=found, found=at, message=message))

    if head != preview.commit:
        stale(head, "the merged commit is not the previewed one")
    approvals = pull.requests.approvals(pull.number)
    if not any(commit == preview.commit for commit in approvals.values()):
        stale(next(iter(approvals.values()), ""), "no review approved the previewed commit")
    checks = pull.requests.checks(preview.commit, CHECK)
    if not (checks and checks[0].get("external_id") == at and checks[0].get("conclusion") == "success"):
        stale(str(checks[0].get("external_id")) if checks else "", "the check that passed belongs to another preview")
    return merged, against
