"""The half of the stand-in that is about pull requests, over a real bare repository: heads are what git says, and a
merge is one.

After docs.github.com/rest (2022-11-28), /pulls, /pulls/reviews, /issues/comments, /commits/statuses, /checks/runs,
/branches/branch-protection and /git/refs: a pull request of the same branches is open once (422), a draft is not
merged (405), nor is one whose required checks are not green on its head (405) or whose head is not the one named
(409); what was said of a commit stays with that commit; an approval is of a commit. By REST a draft stays a draft:
people make it ready (`Pulls.ready`), approve it (`Pulls.approve`) and press the button.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

STATES = ("error", "failure", "pending", "success")
CONCLUSIONS = ("action_required", "cancelled", "failure", "neutral", "success", "skipped", "stale", "timed_out")
WHO = {"GIT_AUTHOR_NAME": "octocat", "GIT_AUTHOR_EMAIL": "octocat@example.org"}
WHO |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in WHO.items()}
NOT_FOUND = 404, {"message": "Not Found"}

Said = tuple[int, Any]


class Pulls:
    """What is known of pull requests. `repository` is a bare repository on this disk; without one no branch is known.

    `required` says, by branch, which statuses or checks must be green before a merge; `approvals`, how many people
    must have approved the head as it is.
    """

    def __init__(self) -> None:
        self.repository: Path | None = None
        self.pulls: dict[int, dict[str, Any]] = {}
        self.reviews: dict[int, list[dict[str, Any]]] = {}
        self.comments: dict[int, dict[str, Any]] = {}
        self.statuses: dict[str, list[dict[str, Any]]] = {}  # by commit, newest last
        self.checks: dict[int, dict[str, Any]] = {}
        self.required: dict[str, list[str]] = {}
        self.approvals: dict[str, int] = {}

    # -- what people do on the page

    def ready(self, number: int) -> None:
        self.pulls[number]["draft"] = False

    def approve(self, number: int, by: str = "reviewer") -> None:
        self.review(number, {"event": "APPROVE"}, by)

    def review(self, number: int, said: dict[str, Any], by: str) -> dict[str, Any]:
        state = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED"}.get(said.get("event", ""), "COMMENTED")
        head = said.get("commit_id") or self.sha(self.pulls[number]["head"])
        made = {"id": len(self.reviews.get(number, [])) + 1, "user": {"login": by}, "state": state, "commit_id": head}
        self.reviews.setdefault(number, []).append({**made, "body": said.get("body", "")})
        return made

    # -- git

    def git(self, *words: str, given: str | None = None) -> tuple[int, str]:
        if self.repository is None:
            return 128, ""
        done = subprocess.run(
            ["git", "-C", str(self.repository), *words],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(self.repository), "GIT_CONFIG_NOSYSTEM": "1", **WHO},
        )
        return done.returncode, done.stdout.strip()

    def sha(self, name: str) -> str:
        """Of a branch, a tag or a commit; empty: there is none."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", name):
            return ""
        for ref in (f"refs/heads/{name}", f"refs/tags/{name}", name):
            code, found = self.git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
            if code == 0:
                return found
        return ""

    def open_between(self, head: str, base: str) -> dict[str, Any] | None:
        for pull in self.pulls.values():
            if (pull["head"], pull["base"], pull["state"]) == (head, base, "open"):
                return pull
        return None

    # -- what is shown

    def shown(self, pull: dict[str, Any], owner: str) -> dict[str, Any]:
        head = pull["merged_head"] or self.sha(pull["head"])
        state = self.why_not(pull)
        return {
            **{name: value for name, value in pull.items() if name != "merged_head"},
            "head": {"ref": pull["head"], "sha": head, "label": f"{owner}:{pull['head']}"},
            "base": {"ref": pull["base"], "sha": self.sha(pull["base"]), "label": f"{owner}:{pull['base']}"},
            "merged": bool(pull["merge_commit_sha"]),
            "mergeable": state != "dirty",
            "mergeable_state": state,
        }

    def why_not(self, pull: dict[str, Any]) -> str:
        """As `mergeable_state` says it: clean, draft, dirty (conflicts) or blocked (checks, approvals)."""
        head = self.sha(pull["head"])
        if pull["draft"]:
            return "draft"
        if self.git("merge-tree", "--write-tree", pull["base"], head or "none")[0] != 0:
            return "dirty"
        green = all(self.is_green(head, name) for name in self.required.get(pull["base"], []))
        return "clean" if green and self.approved(pull, head) else "blocked"

    def is_green(self, sha: str, name: str) -> bool:
        said = [each["state"] == "success" for each in self.statuses.get(sha, []) if each["context"] == name]
        ran = [each for each in self.checks.values() if (each["head_sha"], each["name"]) == (sha, name)]
        said += [each["conclusion"] in ("success", "neutral", "skipped") for each in ran[-1:]]
        return bool(said) and said[-1]

    def approved(self, pull: dict[str, Any], head: str) -> bool:
        last = {each["user"]["login"]: each for each in self.reviews.get(pull["number"], [])}
        on_head = [each for each in last.values() if each["state"] == "APPROVED" and each["commit_id"] == head]
        refused = any(each["state"] == "CHANGES_REQUESTED" for each in last.values())
        return not refused and len(on_head) >= self.approvals.get(pull["base"], 0)


def answer(hub: Any, owner: str, method: str, path: str, query: dict[str, str], body: bytes) -> Said:
    said = json.loads(body) if body else {}
    pulls: Pulls = hub.pulls
    for wanted, pattern, handle in ROUTES:
        found = re.fullmatch(pattern, path) if wanted == method else None
        if found is not None:
            return handle(pulls, hub, owner, found.groups(), query, said)  # type: ignore[no-any-return,operator]
    return NOT_FOUND


def _refused(field: str, code: str, message: str = "") -> Said:
    problem = {"resource": "PullRequest", "field": field, "code": code, "message": message}
    return 422, {"message": "Validation Failed", "errors": [problem]}


def _page(found: list[Any], query: dict[str, str]) -> list[Any]:
    size, page = int(query.get("per_page", "30")), int(query.get("page", "1"))
    return found[(page - 1) * size : page * size]


def _open(pulls: Pulls, hub: Any, owner: str, _of: Any, _query: Any, said: dict[str, Any]) -> Said:
    head, base = said["head"].removeprefix(f"{owner}:"), said["base"]
    if not pulls.sha(f"refs/heads/{head}"):
        return _refused("head", "invalid")
    if not pulls.sha(f"refs/heads/{base}"):
        return _refused("base", "invalid")
    if pulls.open_between(head, base):
        return _refused("", "custom", f"A pull request already exists for {owner}:{head}.")
    if pulls.git("rev-list", "--count", f"{base}..{head}")[1] == "0":
        return _refused("", "custom", f"No commits between {base} and {head}")
    number = hub.new_id()
    pulls.pulls[number] = {
        "number": number,
        "html_url": f"{hub.url}/{owner}/pull/{number}",
        "title": said["title"],
        "body": said.get("body"),
        "draft": said.get("draft", False),
        "state": "open",
        "head": head,
        "base": base,
        "merge_commit_sha": None,
        "merged_head": "",
        "user": {"login": "kfm[bot]"},
    }
    return 201, pulls.shown(pulls.pulls[number], owner)


def _list(pulls: Pulls, _hub: Any, owner: str, _of: Any, query: dict[str, str], _said: Any) -> Said:
    state = query.get("state", "open")
    found = [
        pulls.shown(pull, owner)
        for pull in sorted(pulls.pulls.values(), key=lambda pull: -pull["number"])
        if state in ("all", pull["state"])
        and query.get("head", f"{owner}:{pull['head']}") == f"{owner}:{pull['head']}"
        and query.get("base", pull["base"]) == pull["base"]
    ]
    return 200, _page(found, query)


def _show(pulls: Pulls, _hub: Any, owner: str, of: Any, _query: Any, _said: Any) -> Said:
    pull = pulls.pulls.get(int(of[0]))
    return (200, pulls.shown(pull, owner)) if pull else NOT_FOUND


def _change(pulls: Pulls, _hub: Any, owner: str, of: Any, _query: Any, said: dict[str, Any]) -> Said:
    pull = pulls.pulls.get(int(of[0]))
    if pull is None:
        return NOT_FOUND
    pull.update({name: said[name] for name in ("title", "body", "state", "base") if name in said})
    return 200, pulls.shown(pull, owner)


def _merge(pulls: Pulls, _hub: Any, _owner: str, of: Any, _query: Any, said: dict[str, Any]) -> Said:
    pull = pulls.pulls.get(int(of[0]))
    if pull is None:
        return NOT_FOUND
    head = pulls.sha(pull["head"])
    if pull["state"] != "open" or not head:
        return 405, {"message": "Pull Request is not mergeable"}
    why = pulls.why_not(pull)
    if why == "draft":
        return 405, {"message": "Pull Request is still a draft"}
    if why == "dirty":
        return 405, {"message": "Pull Request has merge conflicts"}
    if why == "blocked":
        return 405, {"message": "Repository rule violations found: required status checks or reviews are missing"}
    if said.get("sha", head) != head:
        return 409, {"message": "Head branch was modified. Review and try the merge again."}
    method = said.get("merge_method", "merge")
    if method not in ("merge", "squash"):
        return 405, {"message": f"{method} merges are not allowed on this repository."}
    base = pulls.sha(pull["base"])
    tree = pulls.git("merge-tree", "--write-tree", base, head)[1]
    parents = ["-p", base] + (["-p", head] if method == "merge" else [])
    title = said.get("commit_title") or f"Merge pull request #{of[0]} from {pull['head']}"
    made = pulls.git("commit-tree", tree, *parents, "-m", title)[1]
    if pulls.git("update-ref", f"refs/heads/{pull['base']}", made, base)[0] != 0:
        return 409, {"message": "Base branch was modified. Review and try the merge again."}
    pull.update(state="closed", merge_commit_sha=made, merged_head=head)
    return 200, {"sha": made, "merged": True, "message": "Pull Request successfully merged"}


def _reviews(pulls: Pulls, _hub: Any, _owner: str, of: Any, query: dict[str, str], _said: Any) -> Said:
    return (200, _page(pulls.reviews.get(int(of[0]), []), query)) if int(of[0]) in pulls.pulls else NOT_FOUND


def _review(pulls: Pulls, _hub: Any, _owner: str, of: Any, _query: Any, said: dict[str, Any]) -> Said:
    if int(of[0]) not in pulls.pulls:
        return NOT_FOUND
    return 200, pulls.review(int(of[0]), said, "kfm[bot]")


def _comments(pulls: Pulls, _hub: Any, _owner: str, of: Any, query: dict[str, str], _said: Any) -> Said:
    mine = [each for each in pulls.comments.values() if each["issue"] == int(of[0])]
    return 200, _page(mine, query)


def _comment(pulls: Pulls, hub: Any, _owner: str, of: Any, _query: Any, said: dict[str, Any]) -> Said:
    if int(of[0]) not in pulls.pulls:
        return NOT_FOUND
    if len(said["body"]) > 65536:
        return _refused("body", "custom", "body is too long (maximum is 65536 characters)")
    number = hub.new_id()
    pulls.comments[number] = {"id": number, "issue": int(of[0]), "body": said["body"], "user": {"login": "kfm[bot]"}}
    return 201, pulls.comments[number]


def _reword(pulls: Pulls, _hub: Any, _owner: str, of: Any, _query: Any, said: dict[str, Any]) -> Said:
    comment = pulls.comments.get(int(of[0]))
    if comment is None:
        return NOT_FOUND
    if len(said["body"]) > 65536:
        return _refused("body", "custom", "body is too long (maximum is 65536 characters)")
    comment["body"] = said["body"]
    return 200, comment


def _state(pulls: Pulls, hub: Any, _owner: str, of: Any, _query: Any, said: dict[str, Any]) -> Said:
    if not re.fullmatch(r"[0-9a-f]{40}", of[0]) or not pulls.sha(of[0]):
        return 422, {"message": f"No commit found for SHA: {of[0]}"}
    if said.get("state") not in STATES or len(said.get("description") or "") > 140:
        return _refused("state", "invalid")
    made = {
        "id": hub.new_id(),
        "state": said["state"],
        "context": said.get("context", "default"),
        "description": said.get("description"),
        "target_url": said.get("target_url"),
    }
    pulls.statuses.setdefault(of[0], []).append(made)
    return 201, made


def _states(pulls: Pulls, _hub: Any, _owner: str, of: Any, query: dict[str, str], _said: Any) -> Said:
    sha = pulls.sha(of[0])
    return (200, _page(pulls.statuses.get(sha, [])[::-1], query)) if sha else NOT_FOUND


def _combined(pulls: Pulls, _hub: Any, _owner: str, of: Any, _query: Any, _said: Any) -> Said:
    sha = pulls.sha(of[0])
    if not sha:
        return NOT_FOUND
    last = {each["context"]: each for each in pulls.statuses.get(sha, [])}
    states = {each["state"] for each in last.values()}
    bad = bool(states & {"error", "failure"})
    state = "failure" if bad else "success" if states == {"success"} else "pending"
    return 200, {"state": state, "sha": sha, "total_count": len(last), "statuses": list(last.values())}


def _checked(said: dict[str, Any]) -> Said | None:
    output = said.get("output") or {}
    if said.get("conclusion") not in (None, *CONCLUSIONS):
        return _refused("conclusion", "invalid")
    if output and not ("title" in output and "summary" in output):
        return _refused("output", "missing_field")
    if any(len(output.get(name) or "") > 65535 for name in ("summary", "text")):
        return _refused("output", "custom", "Only 65535 characters are allowed")
    if len(output.get("annotations", [])) > 50:
        return _refused("annotations", "custom", "Only 50 annotations are allowed per request")
    return None


def _check(pulls: Pulls, hub: Any, _owner: str, _of: Any, _query: Any, said: dict[str, Any]) -> Said:
    if not re.fullmatch(r"[0-9a-f]{40}", said.get("head_sha", "")) or not pulls.sha(said["head_sha"]):
        return 422, {"message": f"No commit found for SHA: {said.get('head_sha')}"}
    if problem := _checked(said):
        return problem
    number = hub.new_id()
    status = "completed" if said.get("conclusion") else said.get("status", "queued")
    known = {"output": {}, "external_id": "", "conclusion": None, "details_url": None}
    pulls.checks[number] = {**known, **said, "id": number, "status": status}
    return 201, pulls.checks[number]


def _recheck(pulls: Pulls, _hub: Any, _owner: str, of: Any, _query: Any, said: dict[str, Any]) -> Said:
    check = pulls.checks.get(int(of[0]))
    if check is None:
        return NOT_FOUND
    if problem := _checked(said):
        return problem
    check.update({name: value for name, value in said.items() if name != "head_sha"})
    check["status"] = "completed" if check["conclusion"] else check["status"]
    return 200, check


def _checks(pulls: Pulls, _hub: Any, _owner: str, of: Any, query: dict[str, str], _said: Any) -> Said:
    sha = pulls.sha(of[0])
    if not sha:
        return NOT_FOUND
    name = query.get("check_name")
    found = [c for c in pulls.checks.values() if c["head_sha"] == sha and name in (None, c["name"])][::-1]
    return 200, {"total_count": len(found), "check_runs": _page(found, query)}


def _protection(pulls: Pulls, _hub: Any, _owner: str, of: Any, _query: Any, _said: Any) -> Said:
    if of[0] not in pulls.required and of[0] not in pulls.approvals:
        return 404, {"message": "Branch not protected"}
    contexts = pulls.required.get(of[0], [])
    return 200, {
        "required_status_checks": {"strict": False, "contexts": contexts},
        "required_pull_request_reviews": {"required_approving_review_count": pulls.approvals.get(of[0], 0)},
    }


def _ref(pulls: Pulls, _hub: Any, _owner: str, of: Any, _query: Any, _said: Any) -> Said:
    sha = pulls.sha(f"refs/heads/{of[0]}")
    return (200, {"ref": f"refs/heads/{of[0]}", "object": {"type": "commit", "sha": sha}}) if sha else NOT_FOUND


def _new_ref(pulls: Pulls, _hub: Any, _owner: str, _of: Any, _query: Any, said: dict[str, Any]) -> Said:
    if not pulls.sha(said["sha"]):
        return 422, {"message": "Object does not exist"}
    if pulls.sha(said["ref"]):
        return 422, {"message": "Reference already exists"}
    pulls.git("update-ref", said["ref"], said["sha"])
    return 201, {"ref": said["ref"], "object": {"type": "commit", "sha": said["sha"]}}


ROUTES = (
    ("POST", r"/pulls", _open),
    ("GET", r"/pulls", _list),
    ("GET", r"/pulls/(\d+)", _show),
    ("PATCH", r"/pulls/(\d+)", _change),
    ("PUT", r"/pulls/(\d+)/merge", _merge),
    ("GET", r"/pulls/(\d+)/reviews", _reviews),
    ("POST", r"/pulls/(\d+)/reviews", _review),
    ("GET", r"/issues/(\d+)/comments", _comments),
    ("POST", r"/issues/(\d+)/comments", _comment),
    ("PATCH", r"/issues/comments/(\d+)", _reword),
    ("POST", r"/statuses/([^/]+)", _state),
    ("GET", r"/commits/(.+)/statuses", _states),
    ("GET", r"/commits/(.+)/status", _combined),
    ("POST", r"/check-runs", _check),
    ("PATCH", r"/check-runs/(\d+)", _recheck),
    ("GET", r"/commits/(.+)/check-runs", _checks),
    ("GET", r"/branches/(.+)/protection", _protection),
    ("GET", r"/git/ref/heads/(.+)", _ref),
    ("POST", r"/git/refs", _new_ref),
)
