"""kfm discover: what is new at a catalog of somebody else."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from kfm.app.previews.draft_pull_request import Draft
    from kfm.cli.governing import Make
    from kfm.cli.render import Screen
    from kfm.config import Resolved
    from kfm.model.reports.discovered_datasets import Discovery

COMMANDS = ("discover",)
KINDS = ("stac", "stac-api", "dcat", "listing")
PAGES = 500


def add(commands: Any, make: Make) -> None:
    parser = make(
        commands,
        "discover",
        "discovering:discover",
        "Look at a catalog of somebody else, and tell what is new there",
        "SOURCE is the address of a STAC catalog or API, of a DCAT catalog or of a listing of a folder.\n"
        "Of the files it speaks of none is fetched. With --draft-pr what is new is proposed: a branch with the\n"
        "declarations and what catalogs would say of them, and a draft pull request that no gate has passed yet.",
    )
    parser.add_argument("source", metavar="SOURCE", help="a URL, or a path below the folder of kfm.yml")
    parser.add_argument("--kind", choices=KINDS, default=None, help="of the catalog (default: as it says itself)")
    parser.add_argument(
        "--pages", type=int, default=PAGES, metavar="N", help=f"how many documents may be read (default: {PAGES})"
    )
    parser.add_argument("--all", action="store_true", help="tell also what is known")
    parser.add_argument("--draft-pr", action="store_true", help="propose what is new, by a branch and a draft")
    parser.add_argument("--dry-run", action="store_true", help="with --draft-pr: show the difference, change nothing")
    parser.add_argument("--base", default="", metavar="BRANCH", help="where it is to go (default: what is checked out)")
    parser.add_argument("--remote", default="origin", metavar="NAME", help="where the branch is sent (default: origin)")
    parser.add_argument("--exit-code", action="store_true", help="exit with 10 if nothing is new")


def discover(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.previews.catalog_discovery import discover as look
    from kfm.cli.opening import opened, settings
    from kfm.errors import EXIT_CODES, BadInput

    if not 1 <= options.pages <= 100_000:
        raise BadInput("--pages must be a number from 1 to 100000", hint="leave it out for the usual bound")
    if (options.dry_run or options.base) and not options.draft_pr:
        raise BadInput("--dry-run and --base go with --draft-pr", hint="without it nothing is changed")
    resolved = settings(options)
    with opened(options, screen, "read", resolved) as session:
        found = look(session, options.source, options.kind, options.pages)
    draft = _drafted(options, resolved, found) if options.draft_pr else None
    if screen.json:
        screen.data({**_plain(found), "draft": draft})
    else:
        _tell(screen, found, all_of_it=options.all)
        if draft is not None:
            _tell_draft(screen, draft)
    nothing = all(finding.status == "known" for finding in found.findings)
    return EXIT_CODES["noop" if options.exit_code and nothing else "done"]


def _drafted(options: argparse.Namespace, resolved: Resolved, found: Discovery) -> Draft:
    from kfm.app.previews.draft_pull_request import foretold, propose

    if options.dry_run:
        return foretold(resolved, found, options.base)
    return propose(resolved, found, options.base, options.remote)


def _plain(found: Discovery) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}


def _tell_draft(screen: Screen, draft: Draft) -> None:
    for name in draft.by_hand:
        screen.say(f"{name}: its updater is code: add what is new to it by hand")
    if draft.state == "nothing":
        screen.say("nothing to propose")
    elif draft.state == "diff":
        screen.text(draft.diff)
        screen.say(f"dry run: this would be {draft.branch}, to {draft.base}")
    elif draft.state == "closed":
        screen.say(f"#{draft.pull} proposed this before, and was closed: {draft.url}")
    else:
        screen.line(draft.url)
        screen.say(f"#{draft.pull} is a draft from {draft.branch} to {draft.base}; no gate has been asked yet")


def _tell(screen: Screen, found: Discovery, *, all_of_it: bool) -> None:
    rows = [
        (finding.dataset or finding.id, finding.status, offer.name, offer.status, offer.media_type, offer.uri)
        for finding in found.findings
        for offer in finding.offers
        if all_of_it or offer.status != "known"
    ]
    if rows:
        screen.table(("dataset", "is", "file", "is", "type", "address"), rows)
    files = sum(len(finding.offers) for finding in found.findings)
    new = sum(1 for finding in found.findings for offer in finding.offers if offer.status == "new")
    changed = sum(1 for finding in found.findings for offer in finding.offers if offer.status == "changed")
    screen.say(
        f"{found.kind}: {len(found.findings)} datasets, {files} files: {new} new, {changed} changed; "
        f"{len(found.pages)} documents read"
    )
    for reason, times in found.skipped.items():
        screen.say(f"{times} links passed over: {reason}")
