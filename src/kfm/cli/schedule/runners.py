"""kfm runners: files with which another runner starts this installation, and whether they are current."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.app.backfills import external_runners
from kfm.app.runs.run_exports import github_workflow
from kfm.cli.render import Screen
from kfm.cli.session import settings
from kfm.errors import EXIT_CODES

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen


KINDS = ("github", "github-pulls", "kubernetes", "tekton", "argo", "systemd", "cron")


def arguments(parser: Parser) -> None:
    written = parser.command(
        "write",
        write,
        "Write the files with which another runner starts `kfm up --once`",
        "KFM derives them from kfm.yml and its schedules: write them again when these change. A secret appears in\n"
        "them only by name. GitHub's files go to .github/workflows, the others to pipelines/runners. `github-pulls`\n"
        "previews and reports each pull request that is opened or updated, and publishes it once it is merged.",
    )
    written.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    written.add_argument("--stdout", action="store_true", help="to stdout, and write nothing")
    checked = parser.command(
        "check",
        check,
        "Check whether the files of other runners are current, and hold no secret",
        "For pull requests: exit 3 if one is not. Nothing is written.",
    )
    checked.add_argument("kind", nargs="*", choices=(*KINDS, []), metavar="KIND", help="(default: all that have files)")
    workflow = parser.command(
        "workflow",
        workflow_github,
        "Write a GitHub workflow to stdout that runs by cron, by an event and by hand",
        "e.g.  kfm runners workflow > .github/workflows/updater.yml",
    )
    workflow.add_argument("--cron", default="17 * * * *", metavar="CRON", help='when (default: "17 * * * *")')


def write(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    for note in external_runners.notes(resolved, options.kind):
        screen.say(note)
    if options.stdout:
        screen.text("".join(external_runners.texts(resolved, options.kind).values()))
        return 0
    found = external_runners.write(resolved, options.kind)
    if screen.json:
        screen.data([_plain(each) for each in found])
    else:
        for each in found:
            screen.line(f"{each.file}: {each.state}")
    return 0


def check(options: argparse.Namespace, screen: Screen) -> int:

    found = external_runners.check(settings(options), options.kind, os.environ)
    if screen.json:
        screen.data([_plain(each) for each in found])
    else:
        for each in found:
            screen.line(f"{each.file}: {each.state}{f'; {each.about}' if each.about else ''}")
        if not found:
            screen.say("there are no files of other runners here; `kfm runners write` makes them")
    return 0 if all(each.state == "current" for each in found) else EXIT_CODES["refused"]


def _plain(each: Any) -> dict[str, str]:
    return {"kind": each.kind, "file": each.file, "state": each.state, "about": each.about}


def workflow_github(options: argparse.Namespace, screen: Screen) -> int:
    screen.text(github_workflow(settings(options), options.cron))
    return 0
