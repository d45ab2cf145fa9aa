"""What can be typed about backfills; `parser` adds it to the rest."""

from __future__ import annotations

from kfm.cli import governing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kfm.cli.governing import Group, Make

COMMANDS = ("backfill",)


def add(commands: Any, make: Make, group: Group) -> None:
    backfill = group(commands, "backfill", "Make parts of a dataset: plan, start, pause, resume")
    plan = make(
        backfill,
        "plan",
        "backfilling:plan",
        "Show every partition of a backfill, and what starting it would do",
        "Nothing is written. What is shown has a digest: `kfm backfill start --plan DIGEST` starts exactly this.",
    )
    _named(plan)
    plan.add_argument("--limit", type=int, default=50, metavar="N", help="how many partitions are listed (default: 50)")
    start = make(
        backfill,
        "start",
        "backfilling:start",
        "Start a backfill, and work it off",
        "Each partition is a run with a receipt. If this is killed, `kfm backfill resume` goes on where it was.\n"
        "Others may work beside it: `kfm up`, or `kfm backfill resume` in another window.",
    )
    _named(start)
    start.add_argument("--plan", default="", metavar="DIGEST", help="start this plan or none; its beginning will do")
    resume = make(
        backfill,
        "resume",
        "backfilling:resume",
        "Go on with a backfill: open it if it was paused, and work it off",
        "If all of it had its turn, what ended badly is tried again.",
    )
    _named(resume)
    which = resume.add_mutually_exclusive_group()
    which.add_argument("--only-missing", action="store_true", help="only what was never tried")
    which.add_argument("--only-failed", action="store_true", help="only what ended badly")
    status = make(backfill, "status", "backfilling:status", "Tell how backfills stand, and what ended badly")
    status.add_argument("backfill", nargs="?", default="", metavar="BACKFILL", help="its name (default: all)")
    status.add_argument("--limit", type=int, default=50, metavar="N", help="how many bad ones are listed (default: 50)")
    pause = make(backfill, "pause", "backfilling:pause", "Let no further partition begin; those at work are finished")
    _named(pause)
    cancel = make(
        backfill,
        "cancel",
        "backfilling:cancel",
        "End a backfill: no further partition begins",
        "What it made stays. Those at work are finished; `kfm runs cancel RUN` ends one.",
    )
    _named(cancel)
    for parser in (start, resume):
        parser.add_argument("--later", action="store_true", help="leave the work to `kfm up`")
    for parser in (start, resume, pause, cancel):
        parser.add_argument("--reason", default="", metavar="TEXT", help="why; goes into the ledger")
        parser.add_argument("--actor", default=None, metavar="NAME", help="who; default KFM_ACTOR or the user's name")
    for parser in (resume, pause):
        governing.add_signing(parser)


def _named(parser: Any) -> None:
    parser.add_argument("backfill", metavar="BACKFILL", help="its name, see `kfm backfill status`")
