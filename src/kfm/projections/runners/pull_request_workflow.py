"""The GitHub workflow for pull requests: a preview and its report when one is opened or updated, publication once it is
merged. Pure.

A preview runs the code of the branch, so it runs only for branches of the repository itself, never for forks. The job
after the merge builds the same preview again from the state of the main branch: its digest is the approved one, or
nothing is published. So no state passes from the job of a branch to the main branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kfm.projections.runners.github_workflow import CHECKOUT, PYTHON, RESTORE, SAVE, UPLOAD
from kfm.projections.yaml_dump import Pinned, yaml

_PREVIEW = """\
git branch --force "pull-$NUMBER" "$HEAD"
code=0
kfm preview build "pull-$NUMBER" || code=$?
kfm preview report "pull-$NUMBER" --out report --pull "$NUMBER" || code=$?
exit "$code"
"""
# The preview compares the branch with what is checked out: first with main before the merge, then with the merge.
_PUBLISH = """\
git branch --force "pull-$NUMBER" "$HEAD"
git checkout --quiet --detach "$MERGED^1"
kfm preview build "pull-$NUMBER"
git checkout --quiet --detach "$MERGED"
kfm preview publish "pull-$NUMBER" --pull "$NUMBER" --reason "pull request $NUMBER was merged"
"""
_PULL = "github.event.pull_request"
_MAIN = f"{_PULL}.base.ref == github.event.repository.default_branch"
_KEY = "kfm-${{ github.run_id }}-${{ github.run_attempt }}"


def pull_request_workflow(
    package: str, secrets: Sequence[str], folders: Sequence[str], *, writes_releases: bool
) -> str:
    """Return the workflow as YAML. `secrets` are names of variables, `folders` hold the state that the scheduled
    workflow keeps."""
    document: dict[str, Any] = {
        "name": "kfm pull requests",
        "on": {
            "pull_request": {"types": ["opened", "synchronize", "reopened"]},
            "pull_request_target": {"types": ["closed"]},  # it runs on the main branch, whose state it may keep
        },
        "permissions": {},
        "jobs": {
            "preview": {
                "if": f"github.event_name == 'pull_request' && {_MAIN}"
                f" && {_PULL}.head.repo.full_name == github.repository",
                "concurrency": {"group": f"kfm-pull-${{{{ {_PULL}.number }}}}", "cancel-in-progress": True},
                **_job(),
                "permissions": {
                    "contents": "read",
                    "checks": "write",
                    "pull-requests": "write",
                    "statuses": "write",
                },
                "steps": [
                    *_prepared(f"${{{{ {_PULL}.base.sha }}}}", package, folders),
                    {"name": "Preview and report", "env": _env(secrets), "run": _PREVIEW},
                    {
                        "name": "Keep the report",
                        "if": "always()",
                        "uses": Pinned(*UPLOAD),
                        "with": {"name": "report", "path": "report", "if-no-files-found": "ignore"},
                    },
                ],
            },
            "publish": {
                "if": f"github.event_name == 'pull_request_target' && {_MAIN} && {_PULL}.merged == true",
                "concurrency": {"group": "kfm", "cancel-in-progress": False},  # that of the scheduled workflow
                **_job(),
                "permissions": {
                    "contents": "write" if writes_releases else "read",
                    "checks": "read",
                    "pull-requests": "write",
                    "statuses": "write",
                },
                "steps": [
                    *_prepared(f"${{{{ {_PULL}.merge_commit_sha }}}}", package, folders),
                    {"name": "Publish what was approved", "env": _env(secrets), "run": _PUBLISH},
                    {
                        "name": "Keep the state",
                        "if": "always()",
                        "uses": Pinned(*SAVE),
                        "with": {"path": "\n".join(folders), "key": _KEY},
                    },
                ],
            },
        },
    }
    said = "# Written by `kfm runners write github-pulls`; `kfm runners check` says whether it is current.\n"
    return said + yaml(document)


def _job() -> dict[str, Any]:
    return {"runs-on": "ubuntu-24.04", "timeout-minutes": 60}


def _env(secrets: Sequence[str]) -> dict[str, str]:
    """Return the variables of a job. Only a number and digests of commits come from the pull request."""
    return {
        "NUMBER": f"${{{{ {_PULL}.number }}}}",
        "HEAD": f"${{{{ {_PULL}.head.sha }}}}",
        "MERGED": f"${{{{ {_PULL}.merge_commit_sha }}}}",
        **{name: f"${{{{ secrets.{name} }}}}" for name in secrets},
        "GITHUB_TOKEN": "${{ github.token }}",
    }


def _prepared(commit: str, package: str, folders: Sequence[str]) -> list[dict[str, Any]]:
    """Return the steps that check out a commit with every branch, and bring back the state of the main branch."""
    return [
        {"uses": Pinned(*CHECKOUT), "with": {"ref": commit, "fetch-depth": 0, "persist-credentials": False}},
        {"uses": Pinned(*PYTHON), "with": {"python-version": "3.12"}},
        {
            "name": "Bring back the state",
            "uses": Pinned(*RESTORE),
            "with": {"path": "\n".join(folders), "key": _KEY, "restore-keys": "kfm-"},
        },
        {"name": "Install", "env": {"PACKAGE": package}, "run": 'python -m pip install "$PACKAGE"'},
    ]
