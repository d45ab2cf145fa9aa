"""The GitHub workflow that runs an installation by schedule, by event or by hand. Pure.

The workflow is a convenience and guarantees nothing: GitHub keeps one waiting run per concurrency group, drops older
ones, and stops schedules after sixty idle days. The inbox keeps what must not be lost; leases prevent overlap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kfm.errors import BadInput
from kfm.projections.yaml_dump import Pinned, yaml

# Each action is pinned by the commit that was reviewed; a tag can be moved, a commit cannot.
CHECKOUT = ("actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683", "v4.2.2")
PYTHON = ("actions/setup-python@a26af69be951a213d495a4c3e4e4022e16d87065", "v5.6.0")
RESTORE = ("actions/cache/restore@5a3ec84eff668545956fd18022155c47e93e2684", "v4.2.3")
SAVE = ("actions/cache/save@5a3ec84eff668545956fd18022155c47e93e2684", "v4.2.3")
UPLOAD = ("actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02", "v4.6.2")

# A name from outside is checked before it becomes a word of a command.
_RUN = """case "$ONLY" in
  "") kfm {command} --artifacts artifacts ;;
  -* | *[!a-z0-9-]*) echo "that is no name of a dataset" >&2; exit 2 ;;
  *) kfm run "$ONLY" --artifacts artifacts ;;
esac
"""
_DATASET = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 6))
_TERM = re.compile(r"(?:\*|([0-9]{1,2})(?:-([0-9]{1,2}))?)(?:/([0-9]{1,2}))?\Z")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # days of each month


def workflow(datasets: Sequence[str], *, cron: str, package: str, writes_releases: bool) -> str:
    """Return a workflow that runs every dataset at one cron expression."""
    check_cron(cron)
    said = "# Written by `kfm runners workflow`. Write it anew when kfm.yml changes.\n"
    return said + _workflow("updater", datasets, [cron], package, "run", {}, [".kfm"], writes_releases=writes_releases)


def runner(
    datasets: Sequence[str],
    *,
    crons: Sequence[str],
    package: str,
    secrets: Sequence[str],
    folders: Sequence[str],
    writes_releases: bool,
) -> str:
    """Return a workflow that runs what is due by the schedules; a dataset named by hand runs in any case. `secrets` are
    names of variables, `folders` are kept between runs.
    """
    env = {name: f"${{{{ secrets.{name} }}}}" for name in secrets}
    said = "# Written by `kfm runners write github`; `kfm runners check` says whether it is current.\n"
    return said + _workflow("kfm", datasets, crons, package, "up --once", env, folders, writes_releases=writes_releases)


def _workflow(
    name: str,
    datasets: Sequence[str],
    crons: Sequence[str],
    package: str,
    command: str,
    secrets: Mapping[str, str],
    folders: Sequence[str],
    *,
    writes_releases: bool,
) -> str:
    """Return the workflow as YAML. A serializer writes it, so a dataset's name can only become text."""
    for dataset in datasets:
        if not _DATASET.match(dataset):
            raise BadInput(f"dataset {dataset} cannot be in a workflow", hint="its name may hold a-z, 0-9 and - only")
    if not datasets:
        raise BadInput("the configuration names no dataset", hint="add one under `datasets:`")
    env = {"ONLY": "${{ inputs.dataset || github.event.client_payload.dataset }}", **secrets}
    if writes_releases:
        env["GITHUB_TOKEN"] = "${{ github.token }}"  # noqa: S105 an expression of GitHub, not a token
    document: dict[str, Any] = {
        "name": name,
        "on": {
            "schedule": [{"cron": cron} for cron in crons],
            "repository_dispatch": {"types": ["kfm-update"]},
            "workflow_dispatch": {
                "inputs": {"dataset": {"description": "only this dataset", "required": False, "type": "string"}}
            },
        },
        "permissions": {},
        "concurrency": {"group": name, "cancel-in-progress": False},
        "jobs": {
            "update": {
                "runs-on": "ubuntu-24.04",
                "timeout-minutes": 60,
                "permissions": {"contents": "write" if writes_releases else "read"},
                "steps": _steps(package, env, _RUN.format(command=command), "\n".join(folders)),
            }
        },
    }
    return yaml(document)


def _steps(package: str, env: dict[str, str], run: str, kept: str) -> list[dict[str, Any]]:
    """Return the steps of one job over one state. The state is saved even after a failure, because a failure has a
    receipt too.
    """
    key = "kfm-${{ github.run_id }}-${{ github.run_attempt }}"
    return [
        {"uses": Pinned(*CHECKOUT), "with": {"persist-credentials": False}},
        {"uses": Pinned(*PYTHON), "with": {"python-version": "3.12"}},
        {
            "name": "Bring back the state",
            "uses": Pinned(*RESTORE),
            "with": {"path": kept, "key": key, "restore-keys": "kfm-"},
        },
        {"name": "Install", "env": {"PACKAGE": package}, "run": 'python -m pip install "$PACKAGE"'},
        {"name": "Update", "env": env, "run": run},
        {"name": "Keep the state", "if": "always()", "uses": Pinned(*SAVE), "with": {"path": kept, "key": key}},
        {
            "name": "Keep the artifacts",
            "if": "always()",
            "uses": Pinned(*UPLOAD),
            "with": {"name": "updater", "path": "artifacts", "if-no-files-found": "ignore"},
        },
    ]


def check_cron(cron: str) -> None:
    """Raise BadInput unless a text has five cron fields of valid numbers, ranges and steps and a day that exists."""
    said = cron.split(" ")
    if len(said) != len(_FIELDS):
        raise BadInput("--cron is not five fields", hint='minute, hour, day, month, weekday: "17 * * * *"')
    chosen = [_chosen(text, *field) for text, field in zip(said, _FIELDS, strict=True)]
    _, _, days, months, _ = chosen
    if said[4] == "*" and min(days) > max(_LONGEST[month - 1] for month in months):
        raise BadInput(
            "--cron names a day that these months do not have",
            hint="this day would never come",
        )


def _chosen(text: str, name: str, least: int, most: int) -> set[int]:
    found: set[int] = set()
    for term in text.split(","):
        parts = _TERM.match(term)
        if parts is None:
            raise BadInput(f"--cron has a {name} that cannot be read", hint="use digits and * , - /")
        first, last, step = parts.groups()
        low = least if first is None else int(first)
        high = most if first is None or (step and not last) else int(last or first)
        if not least <= low <= high <= most or step in ("0", "00"):
            raise BadInput(f"--cron has a {name} beyond {least} to {most}, or an invalid range or step")
        found.update(range(low, high + 1, int(step or 1)))
    return found
