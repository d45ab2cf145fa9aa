"""kfm rollback: move a ref back to an earlier version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.named_versions import version_of_ref
from kfm.app.interventions.rollback_plan import Dependent, plan_rollback, version_at, version_by
from kfm.app.interventions.rollback_reports import check_report, write_report
from kfm.app.runs.queries import find_run
from kfm.cli.operation import operate
from kfm.cli.render import Screen
from kfm.cli.session import known_dataset, opened, settings
from kfm.errors import BadInput, KfmError
from kfm.model import refs
from kfm.model.names import check_ref, dataset_id, is_digest

if TYPE_CHECKING:
    import argparse

    from kfm.app.session.session import Session
    from kfm.cli.parser import Parser


MORE = """\
Once: the same command again changes nothing. Any other move names its version with --to, --at or --run.
--cascade takes along what was made of the versions that are taken back, in the same commit. Hotfixes stay, and
correct every version that says what they expect; --hotfixes takes them back, too."""


def arguments(parser: Parser) -> None:
    parser.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    parser.add_argument("--dry-run", action="store_true", help="only show what would move")
    parser.add_person(wants_reason=True)
    parser.add_signing()
    parser.add_wait()
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--to",
        default=None,
        metavar="DIGEST",
        help="the version, or the start of its digest (default: the one before); `nothing` withdraws it",
    )
    which.add_argument("--at", default=None, metavar="TIME", help="the version that was there at this time")
    which.add_argument("--run", default=None, metavar="RUN", help="the version that this run made or moved the ref to")
    parser.add_argument(
        "--cascade",
        action="store_true",
        help="take along every published dataset that was made of what is taken back, to its latest other version",
    )
    parser.add_argument(
        "--hotfixes", action="store_true", help="take the hotfixes back, too, to those of when the version was public"
    )
    parser.add_argument(
        "--from",
        dest="leaves",
        default=None,
        metavar="DIGEST",
        help="only if the ref is at this version now, or at `nothing`",
    )
    parser.add_argument("--ref", default=None, metavar="REF", help="the ref (default: published/DATASET)")
    parser.add_argument(
        "--report",
        default=None,
        metavar="FILE",
        help="with --dry-run: write what it would do, and what policy says today, as .md, .html or .json",
    )
    parser.set_defaults(handler=rollback, reports=True)


def rollback(options: argparse.Namespace, screen: Screen) -> int:
    params: dict[str, str] = {}
    if options.report is not None:
        check_report(options.report, dry=options.dry_run)
    options.closes = options.to == "nothing"
    if options.ref is not None:
        params["ref"] = check_ref(options.ref)
    if options.to is not None:
        params["to"] = _version_meant(options, screen, options.to)
    elif options.at is not None or options.run is not None:
        params["to"] = _version_then(options, screen)
        options.closes = params["to"] == "nothing"
    if options.leaves is not None:
        params["before"] = _version_meant(options, screen, options.leaves)
    together = options.cascade or options.hotfixes
    if together and params.get("ref", refs.PUBLISHED).startswith(refs.PROCESSED):
        raise BadInput("--cascade and --hotfixes are about published refs", hint="leave them out, or leave out --ref")
    name = known_dataset(options, screen, settings(options), options.dataset)

    left: list[Dependent] = []

    def planned(session: Session) -> dict[str, str]:
        if not params.get("ref", refs.PUBLISHED).startswith(refs.PUBLISHED):
            return params
        try:
            plan = plan_rollback(session, name, params, cascade=options.cascade, hotfixes=options.hotfixes)
        except KfmError:
            if together or not options.closes:
                raise
            return params  # a withdrawal does not wait until everything else can be read
        left.extend(plan.left)
        for each in plan.left:
            screen.say(
                f"{each.dataset} stays public, and was made of what is taken back: --cascade takes it along; once "
                f"{name} is corrected and has run, `kfm run {each.dataset}` makes it again"
            )
        return plan.params(params)

    if options.report is None:
        return operate(options, screen, "rollback", name, planned)
    return operate(
        options, screen, "rollback", name, planned, then=lambda done: write_report(options.report, done, left)
    )


def _version_then(options: argparse.Namespace, screen: Screen) -> str:
    """Return the version that --at or --run means."""
    name = known_dataset(options, screen, settings(options), options.dataset)
    with opened(options, screen, "read") as session:
        ref = options.ref or refs.published(name)
        if options.at is not None:
            return version_at(session, ref, options.at)
        return version_by(session, ref, find_run(session, options.run))


def _version_meant(options: argparse.Namespace, screen: Screen, text: str) -> str:
    if text == "nothing" or is_digest(text):
        return text  # without a look at the state: what only closes works while kfm.yml has a mistake
    with opened(options, screen, "read") as session:
        return version_of_ref(session, options.ref or refs.published(dataset_id(options.dataset)), text)
