"""`kfm catalog discover --draft-pr`: proposes discovered sources as a branch and a draft pull request.

The branch is made without touching the working tree, the index or other branches. Its name is derived from its content,
so the same findings are proposed once. Each step can be repeated: the next command finishes what a killed one left.
"""

from __future__ import annotations

import os
from difflib import unified_diff
from typing import TYPE_CHECKING, Literal

from kfm.app.previews.config_edit import declared
from kfm.app.previews.git_branches import Repository
from kfm.app.previews.pull_request_checks import CHECK, requests_of
from kfm.errors import BadInput, Refused
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.records import Record
from kfm.model.reports.discovered_datasets import Discovery, slug
from kfm.parsing.characters import printable
from kfm.projections.discovery_draft import documents

if TYPE_CHECKING:
    from kfm.config import Resolved
    from kfm.sinks.pull_requests import PullRequests

WAITING = "no gate has decided yet: `kfm preview build`, then `kfm preview report`"
MOST_ROWS = 200
_NOBODY = {"name": "kfm", "email": "kfm@localhost"}


class Draft(Record, frozen=True):
    """The result of proposing discovered sources. `state`: `nothing` to propose, a `diff` (dry run), `open`, or
    `closed` by a person before."""

    state: Literal["nothing", "diff", "open", "closed"]
    branch: str
    base: str
    commit: str
    files: list[str]
    diff: str
    by_hand: list[str]  # datasets with their own code, to which a person must add sources
    pull: int | None
    url: str


class Proposal:
    """The changed files of a draft, and the base commit they apply to."""

    def __init__(self, resolved: Resolved, found: Discovery, base: str) -> None:
        self.repository = Repository(resolved.root)
        self.found = found
        self.base = base or self.repository.current()
        self.parent = self.repository.commit_of(self.base)
        name = os.path.relpath(resolved.path, resolved.root)
        if name.endswith(".json"):
            raise BadInput("sources can be added only to a kfm.yml", hint="declare what was found in it by hand")
        before = self._before(name)
        with open(resolved.path, "rb") as file:
            if before is None or file.read() != before:
                raise Refused(
                    f"{name} is not the one of {printable(self.base, 80)}",
                    hint="commit what was changed first, or name the branch with --base",
                )
        body, self.done, self.by_hand = declared(before, name, found)
        self.files: dict[str, bytes] = {name: body}
        for dataset, finding in self.done:
            self.files |= documents(finding, dataset, found.pages)
        self.old = {path: self._before(path) for path in self.files}
        self.files = {path: self.files[path] for path in sorted(self.files) if self.files[path] != self.old[path]}

    def _before(self, path: str) -> bytes | None:
        return self.repository.file_in(self.parent, path)

    @property
    def branch(self) -> str:
        """The name of the branch, derived from the changed files, so that equal changes have the same branch."""
        content = digest(canonical({path: digest(body) for path, body in self.files.items()}))
        return f"discover/{slug(self.found.source.partition('://')[2] or self.found.source, 40)}-{content[7:19]}"

    def diff(self) -> str:
        """Return the changed files in the format of `git diff`. The result depends only on the files."""
        out: list[str] = []
        for path, body in self.files.items():
            old = self.old[path]
            lines = unified_diff(
                (old or b"").decode().splitlines(keepends=True),
                body.decode().splitlines(keepends=True),
                f"a/{path}" if old is not None else "/dev/null",
                f"b/{path}",
            )
            out += (line if line.endswith("\n") else line + "\n" for line in lines)
        return "".join(out)

    def title(self) -> str:
        names = sorted({dataset for dataset, _ in self.done})
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"Discovered: {', '.join(names[:3])}{more}"

    def text(self) -> str:
        """Return the text of the pull request. Text from the catalog stands in code spans, so that it mentions and
        links nothing."""
        lines = [
            f"`kfm catalog discover` found this at {_span(self.found.source)} ({self.found.kind}).",
            "",
            "| dataset | file | is | type | bytes | address |",
            "|---|---|---|---|---|---|",
        ]
        rows = [(name, offer) for name, finding in self.done for offer in finding.offers if offer.status != "known"]
        for name, offer in rows[:MOST_ROWS]:
            size = "" if offer.size is None else str(offer.size)
            lines.append(
                f"| {_span(name)} | {_span(offer.name)} | {offer.status} | {_span(offer.media_type)} | {size} "
                f"| {_span(offer.uri)} |"
            )
        if len(rows) > MOST_ROWS:
            lines.append(f"\nand {len(rows) - MOST_ROWS} more, which are in the difference.")
        lines += ["", "Read, by SHA-256:", ""]
        lines += [f"- {_span(page.uri)} `{page.digest}`" for page in self.found.pages[:20]]
        lines += [
            "",
            "What a machine cannot know is not declared: how open the data is (`sensitivity`), what each file must "
            "look like (`contract`), and whether the stated licence is right.",
            "",
            f"The status `{CHECK}` stays pending until `kfm preview build {self.branch}` and `kfm preview report` have "
            "asked every gate about this very commit. Require it on the branch this goes to.",
            "",
        ]
        return "\n".join(lines)

    def commit(self) -> str:
        """Create the commit of these files on the base and return its id. Equal files on an equal base give the same
        commit."""
        repository = self.repository
        when = repository.write("show", "-s", "--format=%ct", self.parent) + " +0000"
        name, email = (repository.setting(f"user.{part}") or _NOBODY[part] for part in ("name", "email"))
        scratch = f"refs/kfm/draft-{os.getpid()}"
        lines = [f"commit {scratch}", f"committer {name} <{email}> {when}".replace("\n", " ")]
        stream = [
            "\n".join(lines).encode() + b"\n",
            _data(f"{self.title()}\n\nFound at {self.found.source}\n".encode()),
        ]
        stream.append(f"from {self.parent}\n".encode())
        for path, body in self.files.items():
            where = os.path.normpath(os.path.join(repository.below, path))
            stream += [f'M 100644 inline "{where}"\n'.encode(), _data(body)]
        try:
            repository.write("fast-import", "--quiet", "--force", given=b"".join(stream))
            return repository.write("rev-parse", "--verify", scratch)
        finally:
            repository.write("update-ref", "-d", scratch)


def _data(body: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(body), body)


def predicted_draft(resolved: Resolved, found: Discovery, base: str) -> Draft:
    """Return the draft that `propose` would open."""
    proposal = Proposal(resolved, found, base)
    return _draft(proposal, "diff" if proposal.files else "nothing")


def propose(resolved: Resolved, found: Discovery, base: str, remote: str) -> Draft:
    """Make the branch, push it, set its status to pending, and open the draft. This order leaves no moment in which it
    could be merged before the gates were asked."""
    proposal = Proposal(resolved, found, base)
    if not proposal.files:
        return _draft(proposal, "nothing")
    requests = requests_of(resolved)
    branch, repository = proposal.branch, proposal.repository
    known = requests.between(branch, proposal.base)
    if known is not None and known["state"] == "closed":
        return _draft(proposal, "closed", str(known["head"]["sha"]), known)
    commit = repository.sent(remote, branch)
    if not commit:
        commit = proposal.commit()
        repository.send(remote, branch, commit)
    _hold(requests, commit)
    made, _ = requests.open(branch, proposal.base, proposal.title(), proposal.text(), draft=True)
    return _draft(proposal, "open", commit, made)


def _hold(requests: PullRequests, commit: str) -> None:
    """Set the status of a commit to pending, unless it has one: repeated discovery does not reset a passed check."""
    if not requests.statuses(commit, CHECK):
        requests.status(commit, CHECK, "pending", WAITING)


def _draft(
    proposal: Proposal,
    state: Literal["nothing", "diff", "open", "closed"],
    commit: str = "",
    pull: dict[str, object] | None = None,
) -> Draft:
    number = pull.get("number") if pull else None
    return Draft(
        state=state,
        branch=proposal.branch if proposal.files else "",
        base=proposal.base,
        commit=commit,
        files=list(proposal.files),
        diff=proposal.diff(),
        by_hand=sorted(set(proposal.by_hand)),
        pull=number if isinstance(number, int) else None,
        url=str(pull.get("html_url", "")) if pull else "",
    )


def _span(text: str) -> str:
    plain = text.replace("`", "'").replace("|", "\\|")
    return f"`{plain}`" if plain else ""
