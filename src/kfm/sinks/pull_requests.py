"""Pull requests of a GitHub repository: open them, report checks, and read their state.

Every call can be repeated: KFM finds its comment by a mark and edits it, finds a check by name and commit, and opens
one pull request between two branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from urllib.parse import quote

import msgspec

from kfm.errors import Unavailable
from kfm.model.canonical import canonical
from kfm.sinks.github_releases import Transport, refusal

MOST_TEXT = 65_000  # most characters of a comment or summary; GitHub accepts a little more
MOST_PAGES = 50


class PullRequests:
    def __init__(
        self, repository: str, token: Callable[[], str], transport: Transport, *, api: str = "https://api.github.com"
    ) -> None:
        self._api = f"{api}/repos/{repository}"
        self._owner = repository.partition("/")[0]
        self._token = token
        self._transport = transport

    def show(self, number: int) -> dict[str, Any]:
        return dict(self._ask("GET", f"/pulls/{number}", None, ok=(200,))[1])

    def open(self, head: str, base: str, title: str, body: str, *, draft: bool) -> tuple[dict[str, Any], bool]:
        """Open a pull request from `head` to `base`; return it, and whether it is new. An open one stays and gets this
        text.
        """
        said = {"title": title, "head": head, "base": base, "body": body[:MOST_TEXT], "draft": draft}
        status, made = self._ask("POST", "/pulls", said, ok=(201, 422))
        if status == 201:
            return dict(made), True
        # 422: it is open already, or an answer was lost; ask.
        asked = f"/pulls?state=open&head={quote(f'{self._owner}:{head}', safe='')}&base={quote(base, safe='')}"
        found = self._ask("GET", asked, None, ok=(200,))[1]
        if not found:
            raise refusal(422, f"POST {self._owner}/pulls", {})
        known = found[0]
        if known.get("body") != said["body"] or known.get("title") != title:
            known = self._ask("PATCH", f"/pulls/{known['number']}", {"title": title, "body": said["body"]}, ok=(200,))[
                1
            ]
        return dict(known), False

    def between(self, head: str, base: str) -> dict[str, Any] | None:
        """Return the newest pull request from `head` to `base`, open or closed; None if there is none."""
        asked = f"/pulls?state=all&head={quote(f'{self._owner}:{head}', safe='')}&base={quote(base, safe='')}"
        found = self._ask("GET", asked, None, ok=(200,))[1]
        return dict(found[0]) if found else None

    def approvals(self, number: int) -> dict[str, str]:
        """Return who approves the pull request, with the commit that each approved. Each reviewer's last
        review counts.
        """
        last: dict[str, tuple[str, str]] = {}
        for review in self._pages(f"/pulls/{number}/reviews"):
            if review["state"] in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED"):
                last[str(review["user"]["login"])] = (review["state"], str(review.get("commit_id")))
        return {who: commit for who, (state, commit) in last.items() if state == "APPROVED"}

    def comment(self, number: int, mark: str, body: str) -> None:
        """Create or edit the one comment that holds this mark."""
        for known in self._pages(f"/issues/{number}/comments"):
            if mark in str(known.get("body")):
                if known["body"] != body[:MOST_TEXT]:
                    self._ask("PATCH", f"/issues/comments/{known['id']}", {"body": body[:MOST_TEXT]}, ok=(200,))
                return
        self._ask("POST", f"/issues/{number}/comments", {"body": body[:MOST_TEXT]}, ok=(201,))

    def check(self, commit: str, name: str, conclusion: str, about: str, title: str, summary: str) -> None:
        """Report a check run on a commit; `about` is the digest that was checked."""
        said = {
            "name": name,
            "head_sha": commit,
            "status": "completed",
            "conclusion": conclusion,
            "external_id": about,
            "output": {"title": title, "summary": summary[:MOST_TEXT]},
        }
        for known in self.checks(commit, name):
            if known.get("external_id") == about:
                self._ask("PATCH", f"/check-runs/{known['id']}", said, ok=(200,))
                return
        self._ask("POST", "/check-runs", said, ok=(201,))

    def checks(self, commit: str, name: str) -> list[dict[str, Any]]:
        """Return the check runs of this name on a commit, newest first."""
        asked = f"/commits/{commit}/check-runs?check_name={quote(name, safe='')}"
        return list(self._ask("GET", asked, None, ok=(200,))[1]["check_runs"])

    def status(self, commit: str, context: str, state: str, description: str) -> None:
        said = {"state": state, "context": context, "description": description[:140]}
        self._ask("POST", f"/statuses/{commit}", said, ok=(201,))

    def statuses(self, commit: str, context: str) -> list[str]:
        """Return the states of a commit under this context, newest first."""
        said = self._pages(f"/commits/{commit}/statuses")
        return [str(each["state"]) for each in said if each["context"] == context]

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        for page in count(1):
            some = self._ask("GET", f"{path}?per_page=100&page={page}", None, ok=(200,))[1]
            yield from some
            if len(some) < 100 or page >= MOST_PAGES:
                return

    def _ask(self, method: str, path: str, value: Any, *, ok: tuple[int, ...]) -> tuple[int, Any]:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token()}",
            "User-Agent": "kfm",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        body = None if value is None else canonical(value)
        if body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        status, answered, answer = self._transport.call(method, self._api + path, headers, body)
        what = f"{method} {path.partition('?')[0]}"
        if status not in ok:
            raise refusal(status, what, answered)
        try:
            return status, msgspec.json.decode(answer) if answer else {}
        except msgspec.MsgspecError:
            raise Unavailable(f"GitHub answers {what} with invalid JSON", hint="try again") from None
