"""kfm runners: files with which other runners run this installation, and whether they are current."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from kfm.cli.governing import Group, Make
    from kfm.cli.render import Screen

COMMANDS = ("runners",)
KINDS = ("github", "tekton", "argo", "systemd", "cron")


def add(commands: Any, make: Make, group: Group) -> None:
    runners = group(commands, "runners", "Have other runners run this installation")
    write = make(
        runners,
        "write",
        "elsewhere:write",
        "Write the files with which another runner wakes `kfm up --once`",
        "They are made from kfm.yml and its schedules: write them anew when these change. What is secret stands in\n"
        "them by its name only. GitHub's goes to .github/workflows, the others to pipelines/runners.",
    )
    write.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    write.add_argument("--stdout", action="store_true", help="to stdout, and write nothing")
    check = make(
        runners,
        "check",
        "elsewhere:check",
        "Tell whether the files of other runners are what would be written now, and hold no secret",
        "For pull requests: exit 3 if one is not. Nothing is written.",
    )
    check.add_argument("kind", nargs="*", choices=(*KINDS, []), metavar="KIND", help="(default: all that have files)")


def write(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.backfills import external_runners
    from kfm.cli.opening import settings

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
    import os

    from kfm.app.backfills import external_runners
    from kfm.cli.opening import settings
    from kfm.errors import EXIT_CODES

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
