"""The git repository of an installation: its branches, what they changed, and whether they were merged.

Nothing here writes to the index or the working tree. A branch is checked out into a folder of its own.
"""

from __future__ import annotations

import os
import subprocess

from kfm.errors import BadInput, Refused, Unavailable
from kfm.parsing.characters import printable

# A git hook sets these for its own index; KFM means the repository around the installation.
_NOT_OURS = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"})


class Repository:
    """The git repository around a folder. BadInput if there is none."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        try:
            self.top = self._git("rev-parse", "--show-toplevel")
        except BadInput:
            raise BadInput(
                "the installation is not in a git repository",
                hint="previews are of branches: `git init`, and commit it",
            ) from None
        self.below = os.path.relpath(os.path.realpath(folder), os.path.realpath(self.top))

    def commit_of(self, branch: str) -> str:
        """Return the commit of a local branch, else of the last fetched one. BadInput if there is neither."""
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
        """Return whether this commit is part of the checked-out branch."""
        return _ok(self._call("merge-base", "--is-ancestor", commit, "HEAD"))

    def is_tracked(self, path: str) -> bool:
        return _ok(self._call("ls-files", "--error-unmatch", "--", path))

    def changed(self, commit: str) -> list[str]:
        """Return the files of the installation that the branch changed since it left the checked-out branch."""
        listed = self._git("diff", "--name-only", "-z", "--no-renames", f"HEAD...{commit}", strip=False)
        below = "" if self.below == "." else self.below + "/"
        return [name.removeprefix(below) for name in listed.split("\0") if name and name.startswith(below)]

    def current(self) -> str:
        """Return the name of the checked-out branch. BadInput if none is."""
        found = self._call("symbolic-ref", "--quiet", "--short", "HEAD")
        if not _ok(found):
            raise BadInput("no branch is checked out", hint="name the target branch with --base")
        return found.stdout.strip()

    def file_in(self, commit: str, path: str) -> bytes | None:
        """Return the bytes of an installation's file in a commit; None if it has none."""
        where = os.path.normpath(os.path.join(self.below, path))
        listed = self._git("ls-tree", "-z", "--full-tree", commit, "--", where, strip=False)
        if not listed.startswith("100"):
            return None
        blob = listed.split("\t")[0].split()[-1]
        return self._call("cat-file", "blob", blob).stdout.encode("utf-8", "surrogateescape")

    def setting(self, name: str) -> str:
        return self._call("config", "--get", name).stdout.strip()

    def write(self, *words: str, more: dict[str, str] | None = None, given: bytes = b"") -> str:
        """Run a git command that writes objects or refs, and return its output."""
        return self._git(*words, more=more, top=True, given=given)

    def sent(self, remote: str, branch: str) -> str:
        """Return the commit of this branch in the remote repository; empty if it has none. Unavailable if the remote
        does not answer."""
        if remote not in self._git("remote").split():
            raise BadInput(f"there is no remote {printable(remote, 80)}", hint="see `git remote`, and --remote")
        listed = self._remote("ls-remote", "--heads", "--", remote, f"refs/heads/{branch}")
        return listed.partition("\t")[0]

    def send(self, remote: str, branch: str, commit: str) -> None:
        """Push a commit as a new branch, and create it locally. An existing remote branch is not moved."""
        self._remote("push", "--quiet", "--no-verify", "--", remote, f"{commit}:refs/heads/{branch}")
        self._git("update-ref", f"refs/heads/{branch}", commit)

    def _remote(self, *words: str) -> str:
        done = self._call(*words, more={"GIT_TERMINAL_PROMPT": "0"})
        if not _ok(done):
            raise Unavailable(
                f"git {words[0]} does not reach the other repository", hint="see `git remote -v`, then try again"
            )
        return done.stdout

    def lay_out(self, commit: str, folder: str) -> str:
        """Check out a commit into an empty folder, and return the installation's path in it."""
        index = {"GIT_INDEX_FILE": os.path.join(folder, ".kfm-index")}
        self._git("read-tree", commit, more=index, top=True)
        self._git("checkout-index", "--all", "--force", f"--prefix={folder}/", more=index, top=True)
        return os.path.normpath(os.path.join(folder, self.below))

    def _git(
        self,
        *words: str,
        more: dict[str, str] | None = None,
        top: bool = False,
        strip: bool = True,
        given: bytes | None = None,
    ) -> str:
        done = self._call(*words, more=more, top=top, given=given)
        if not _ok(done):
            what = (done.stderr.strip().splitlines() or ["it says nothing"])[0]
            raise BadInput(f"git {words[0]} fails: {printable(what, 200)[1:-1]}", hint="look at the repository")
        return done.stdout.strip() if strip else done.stdout

    def _call(
        self, *words: str, more: dict[str, str] | None = None, top: bool = False, given: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
        env |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", **(more or {})}
        command = ["git", "-C", self.top if top else self._folder, *words]
        try:
            done = subprocess.run(command, env=env, input=given, capture_output=True, check=False)
        except OSError:
            raise Refused("git is not installed here", hint="previews are of branches: install git") from None
        # Decoded here, because text mode would change line ends.
        out, err = (each.decode("utf-8", "surrogateescape") for each in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(command, done.returncode, out, err)


def _ok(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode == 0
