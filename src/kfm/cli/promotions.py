"""What can be typed about promotion by pull request: `kfm preview` and `kfm pr`; `parser` adds it to the rest."""

from __future__ import annotations

from kfm.cli import governing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kfm.cli.governing import Group, Make

COMMANDS = ("pr", "preview")
BRANCH = "a branch of the repository that kfm.yml lies in"


def add(commands: Any, make: Make, group: Group) -> None:
    preview = make(
        commands,
        "preview",
        "proposing:preview",
        "Build what a branch would make, beside what there is",
        "The datasets that the branch changes are run in this installation, as it declares them, and put under\n"
        "preview/<branch>/. Nothing is published. The code of the branch is run: do this with branches of people whom\n"
        "you would let run code here. exit: as `kfm run`; the preview is written down also if a dataset failed.",
    )
    preview.add_argument("branch", metavar="BRANCH", help=BRANCH)
    preview.add_argument(
        "--dataset", action="append", default=[], metavar="DATASET", help="only this one; may be given several times"
    )
    preview.add_argument("--all", action="store_true", help="every dataset, also those that it does not change")
    _person(preview)

    pr = group(commands, "pr", "Report on previews, and promote them once they are merged")
    make(pr, "list", "proposing:listing", "List previews: of which branch, which commit, and the digest to approve")
    report = make(
        pr,
        "report",
        "proposing:report",
        "Tell a reviewer what a preview would change, and what every gate says of it",
        "Markdown on stdout; nothing that is protected is in it. exit: 0 every gate says yes, 4 or 7 one says no,\n"
        "6 the branch went on since it was previewed",
    )
    report.add_argument("branch", metavar="BRANCH", help=BRANCH)
    report.add_argument(
        "--out", default="", metavar="DIR", help="write report.md, junit.xml, checks.json and pictures there"
    )
    _pull(report, "also tell this pull request: a comment, a check and a status, on GitHub")
    promote = make(
        pr,
        "promote",
        "proposing:promote",
        "Promote exactly what was previewed and approved, or nothing",
        "The branch must be merged into what is checked out here, and nothing may have moved since: neither sources,\n"
        "declarations, code, refs nor the bytes that were made. exit: 0 promoted, 4 not approved or not merged,\n"
        "6 something moved: build the preview anew, and let it be approved",
    )
    promote.add_argument("branch", metavar="BRANCH", help=BRANCH)
    promote.add_argument("--approved", default="", metavar="DIGEST", help="of the preview, as the report names it")
    _pull(promote, "ask GitHub what was merged and approved in this pull request")
    promote.add_argument("--dry-run", action="store_true", help="only tell what stands against it")
    _person(promote)
    governing.add_signing(promote)
    sweep = make(
        pr,
        "sweep",
        "proposing:sweep",
        "Take away previews of branches that are gone, and old ones",
        "Their refs go; receipts stay, and so does what these speak of.",
    )
    sweep.add_argument("--days", type=int, default=14, metavar="N", help="how old one may become (default: 14)")
    sweep.add_argument("--dry-run", action="store_true", help="only tell which")
    _person(sweep)


def _person(parser: Any) -> None:
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; goes into the ledger")
    parser.add_argument("--actor", default=None, metavar="NAME", help="who; default KFM_ACTOR or the user's name")


def _pull(parser: Any, what: str) -> None:
    parser.add_argument("--pull", type=int, default=0, metavar="N", help=what)
