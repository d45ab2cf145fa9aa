"""The git repository that an installation is declared in: branches, what they changed, and whether they were merged.

Nothing here writes to the repository, its index or its working tree: a branch is laid out in a folder of its own.
"""

from __future__ import annotations

import os
import subprocess

from kfm.documents.characters import printable
from kfm.errors import BadInput, Refused

# A hook that calls us speaks of its own index; we speak of the repository around the installation.
_NOT_OURS = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"})


class Repository:
    """The repository around a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        try:
            self.top = self._git("rev-parse", "--show-toplevel")
        except BadInput:
            raise BadInput(
                "the installation lies in no git repository", hint="previews are of branches: `git init`, and commit it"
            ) from None
        self.below = os.path.relpath(os.path.realpath(folder), os.path.realpath(self.top))

    def commit_of(self, branch: str) -> str:
        """Of a branch that is here, or else of the one that was last fetched."""
        if branch.startswith("-") or not _ok(self._call("check-ref-format", "--branch", branch)):
            raise BadInput(f"{printable(branch, 80)} is no name of a branch", hint="see `git branch --all`")
        for ref in (f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"):
            found = self._call("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
            if _ok(found):
                return found.stdout.strip()
        raise BadInput(f"there is no branch {printable(branch, 80)}", hint="`git fetch` it; see `git branch --all`")

    def has(self, branch: str) -> bool:
        try:
            return bool(self.commit_of(branch))
        except BadInput:
            return False

    def head(self) -> str:
        return self._git("rev-parse", "--verify", "HEAD^{commit}")

    def is_merged(self, commit: str) -> bool:
        """Is this commit part of what is checked out here?"""
        return _ok(self._call("merge-base", "--is-ancestor", commit, "HEAD"))

    def changed(self, commit: str) -> list[str]:
        """Files of the installation that the branch changed since it left what is checked out here."""
        listed = self._git("diff", "--name-only", "-z", "--no-renames", f"HEAD...{commit}", strip=False)
        below = "" if self.below == "." else self.below + "/"
        return [name.removeprefix(below) for name in listed.split("\0") if name and name.startswith(below)]

    def lay_out(self, commit: str, folder: str) -> str:
        """The files of a commit, in an empty folder; returns where the installation is in it."""
        index = {"GIT_INDEX_FILE": os.path.join(folder, ".kfm-index")}
        self._git("read-tree", commit, more=index, top=True)
        self._git("checkout-index", "--all", "--force", f"--prefix={folder}/", more=index, top=True)
        return os.path.normpath(os.path.join(folder, self.below))

    def _git(self, *words: str, more: dict[str, str] | None = None, top: bool = False, strip: bool = True) -> str:
        done = self._call(*words, more=more, top=top)
        if not _ok(done):
            what = (done.stderr.strip().splitlines() or ["it says nothing"])[0]
            raise BadInput(f"git {words[0]} fails: {printable(what, 200)[1:-1]}", hint="look at the repository")
        return done.stdout.strip() if strip else done.stdout

    def _call(
        self, *words: str, more: dict[str, str] | None = None, top: bool = False
    ) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
        env |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", **(more or {})}
        command = ["git", "-C", self.top if top else self._folder, *words]
        try:
            return subprocess.run(
                command, env=env, capture_output=True, encoding="utf-8", errors="surrogateescape", check=False
            )
        except OSError:
            raise Refused("git is not installed here", hint="previews are of branches: install git") from None


def _ok(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode == 0
