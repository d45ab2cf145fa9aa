"""kfm preview: build what a branch would change, report on it, and publish it once it is merged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kfm.app.previews.branch_previews import build_requests, find, previews, proposed, store_preview
from kfm.app.runs.execution import work
from kfm.app.runs.run_exports import write_artifacts
from kfm.app.runs.settlement import settle_session
from kfm.cli.operation import signer_of
from kfm.cli.render import Screen, short
from kfm.cli.run_report import show_runs, tell_moves
from kfm.cli.session import Tally, opened, person, settings, together
from kfm.errors import EXIT_CODES, BadInput, Denied, Moved

if TYPE_CHECKING:
    import argparse

    from kfm.app.previews.merged_promotion import Difference
    from kfm.app.session.session import Session
    from kfm.cli.parser import Parser


BRANCH = "a branch of the repository that kfm.yml lies in"


def arguments(parser: Parser) -> None:
    built = parser.command(
        "build",
        preview,
        "Build what a branch would change, next to the current data",
        "Runs the datasets that the branch changes in this installation, as the branch declares them, and stores them\n"
        "under preview/<branch>/. Nothing is published. The code of the branch is run: do this only with branches of\n"
        "people whom you would let run code here. exit: as `kfm run`; a preview is recorded even if a dataset failed.",
    )
    built.add_argument("branch", metavar="BRANCH", help=BRANCH)
    built.add_argument(
        "--dataset", action="append", default=[], metavar="DATASET", help="only this one; may be repeated"
    )
    built.add_argument("--all", action="store_true", help="every dataset, also those that the branch does not change")
    built.add_person()
    parser.command("list", listing, "List previews: branch, commit, and the digest to approve")
    reported = parser.command(
        "report",
        report,
        "Report to a reviewer what a preview would change, and what every gate decides",
        "Markdown on stdout, without protected data. exit: 0 every gate allows it, 4 or 7 one denies it,\n"
        "6 the branch moved since it was previewed",
    )
    reported.add_argument("branch", metavar="BRANCH", help=BRANCH)
    reported.add_argument(
        "--out", default="", metavar="DIR", help="write report.md, junit.xml, checks.json and pictures there"
    )
    reported.add_argument(
        "--pull", type=int, default=0, metavar="N", help="also notify this pull request on GitHub: comment and checks"
    )
    promoted = parser.command(
        "publish",
        promote,
        "Publish exactly what was previewed and approved, or nothing",
        "The branch must be merged into what is checked out here, and nothing may have moved since: neither sources,\n"
        "declarations, code, refs nor the built bytes. exit: 0 published, 4 not approved or not merged,\n"
        "6 something moved: build the preview again, and have it approved",
    )
    promoted.add_argument("branch", metavar="BRANCH", help=BRANCH)
    promoted.add_argument("--approved", default="", metavar="DIGEST", help="of the preview, as the report names it")
    promoted.add_argument(
        "--pull", type=int, default=0, metavar="N", help="ask GitHub what was merged and approved in this pull request"
    )
    promoted.add_argument("--dry-run", action="store_true", help="only show what prevents it")
    promoted.add_person()
    promoted.add_signing()
    swept = parser.command(
        "sweep",
        sweep,
        "Remove previews of deleted branches, and old ones",
        "Their refs are removed; receipts stay, and so does what the receipts name.",
    )
    swept.add_argument("--days", type=int, default=14, metavar="N", help="how old a preview may become (default: 14)")
    swept.add_argument("--dry-run", action="store_true", help="only list them")
    swept.add_person()


def preview(options: argparse.Namespace, screen: Screen) -> int:
    resolved, who = settings(options), person(options)
    if options.all and options.dataset:
        raise BadInput("--all and --dataset say different things", hint="give one of them")
    with (
        proposed(resolved, options.branch, options.dataset, every=options.all) as proposal,
        opened(options, screen, "write", proposal.resolved) as session,
    ):
        tally = Tally(screen)
        outcome = work(session, build_requests(proposal, **who), tally)
        if len(outcome.receipts) < len(proposal.datasets):
            return tally.code or EXIT_CODES["failed"]  # one dataset left no receipt, so no preview is recorded
        found, at, receipt = store_preview(session, proposal, outcome.receipts, actor=who["actor"])
        settle_session(session)
        if receipt.status == "FAILED" or receipt.outcome == "frozen":
            tally.ended(receipt)
            return tally.code
        if screen.json:
            screen.data({"preview": at, **_told(found), "receipts": outcome.receipts, "errors": tally.errors})
            return tally.code
        show_runs(session, screen, tally, outcome, {each.dataset: each.version for each in found.datasets})
        screen.line(at)
        screen.say(
            f"preview of {found.branch} at {found.commit[:12]}: `kfm preview report {found.branch}` shows its changes"
        )
        return tally.code


def _told(found: Any) -> dict[str, Any]:
    return {
        "branch": found.branch,
        "commit": found.commit,
        "datasets": {each.dataset: each.version for each in found.datasets},
        "removed": found.removed,
    }


def listing(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        found = list(previews(session))
        if screen.json:
            screen.data([{"preview": at, **_told(each), "built_at": built} for _, each, at, built in found])
            return 0
        rows = [
            (each.branch, each.commit[:12], len(each.datasets), built[:16] + "Z", at) for _, each, at, built in found
        ]
        screen.table(("branch", "commit", "datasets", "built", "preview"), rows)
        if not found:
            screen.say("no branch is previewed")
    return 0


def report(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.previews.preview_report import report_files
    from kfm.app.previews.pull_request_checks import post_report, pull_of

    resolved = settings(options)
    with opened(options, screen, "read", resolved) as session:
        found, at = find(session, options.branch)
    names = [each.dataset for each in found.datasets]
    with proposed(resolved, options.branch, names) as proposal:
        if proposal.commit != found.commit:
            raise Moved(
                f"{found.branch} is at {proposal.commit[:12]}, and its preview is of {found.commit[:12]}",
                hint=f"build it again: `kfm preview build {found.branch}`",
            )
        with opened(options, screen, "read", proposal.resolved) as session:
            said, files = report_files(session, resolved, proposal, found, at)
    if options.out:
        write_artifacts(os.path.abspath(options.out), files)
    if options.pull:
        post_report(pull_of(resolved, options.pull), said, files["report.md"].decode())
    if screen.json:
        screen.data(said)
    elif not options.out:
        screen.text(files["report.md"].decode())
    else:
        screen.line(os.path.join(options.out, "report.md"))
    return said.exit_code


def promote(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.previews.merged_promotion import differences, promotion_requests, remove_promoted
    from kfm.app.previews.pull_request_checks import approved_in, pull_of

    resolved, who = settings(options), person(options)
    signer = signer_of(options, who["reason"])
    if not options.approved and not options.pull:
        raise BadInput(
            "the command does not say what was approved", hint="give --approved DIGEST, as in the report, or --pull N"
        )
    with opened(options, screen, "dry" if options.dry_run else "write", resolved) as session:
        found, at = find(session, options.branch)
        approved, merged = options.approved or at, None
        against: list[Difference] = []
        if options.pull:
            merged, against = approved_in(pull_of(resolved, options.pull), session, found, at)
        against += differences(session, found, at, approved, merged=merged)
        if against or options.dry_run:
            _refuse(screen, at, against)
            return _code(against)
        tally = Tally(screen)
        outcome = work(session, promotion_requests(found, signer=signer, days=options.days, **who), tally)
        swept = remove_promoted(session, found, actor=who["actor"])
        settle_session(session)
        if screen.json:
            refused: list[Difference] = []
            data = {"preview": at, "refused": refused, "receipts": outcome.receipts, "errors": tally.errors}
            screen.data({**data, "effects": outcome.effects})
        else:
            show_runs(session, screen, tally, outcome)
            for receipt in outcome.receipts:
                tell_moves(session, screen, receipt)
        if any(receipt.job_type == "operation.request" for receipt in outcome.receipts):
            return tally.code or EXIT_CODES["denied"]
        if swept is not None:
            screen.say(f"published: {found.branch}, as it was approved")
        return tally.code


def _refuse(screen: Screen, at: str, against: list[Difference]) -> None:
    if screen.json:
        screen.data({"preview": at, "refused": against, "receipts": [], "errors": [], "effects": []})
        return
    rows = [(each.rule, each.dataset, short(each.approved), short(each.found), each.message) for each in against]
    screen.table(("refused", "dataset", "approved", "found", "why"), rows)
    if any(each.denies for each in against):
        screen.fail("nothing was published: have the preview approved as it is, and merge the branch")
    elif against:
        screen.fail("nothing was published: build the preview again, and have it approved")
    else:
        screen.say(f"nothing prevents the publication of {at}")


def _code(against: list[Difference]) -> int:
    if not against:
        return EXIT_CODES["done"]
    return Denied.exit_code if any(each.denies for each in against) else Moved.exit_code


def sweep(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.previews.preview_expiry import expired_previews

    resolved, who = settings(options), person(options)
    if options.days < 0:
        raise BadInput("--days is less than 0", hint="0 removes every preview")
    with opened(options, screen, "dry" if options.dry_run else "write", resolved) as session:
        found = expired_previews(session, options.days)
        codes = _sweep(session, screen, found, who) if not options.dry_run else []
        if screen.json:
            screen.data([{"branch": each.branch, "preview": each.preview, "why": each.why} for each in found])
        else:
            screen.table(("branch", "preview", "why"), [(each.branch, each.preview, each.why) for each in found])
            screen.say("would be removed" if options.dry_run else f"{len(found)} removed")
    return together(codes)


def _sweep(session: Session, screen: Screen, found: list[Any], who: dict[str, str]) -> list[int]:
    from kfm.app.previews.preview_expiry import remove_expired

    tally = Tally(screen)
    for each in found:
        tally.ended(remove_expired(session, each, reason=who["reason"], actor=who["actor"]))
    settle_session(session)
    return [tally.code]
