"""kfm catalog: build, show and validate the catalog of published data, and discover datasets in other catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.metadata.catalog_validation import validate as check
from kfm.app.metadata.catalogs import build as build_all
from kfm.app.previews.catalog_discovery import discover as look
from kfm.cli.render import Screen, short
from kfm.cli.session import Tally, known_dataset, opened, person, settings
from kfm.errors import EXIT_CODES, BadInput, Refused

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from kfm.app.previews.draft_pull_request import Draft
    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen
    from kfm.config import Resolved
    from kfm.model.reports.discovered_datasets import Discovery


KINDS = ("stac", "stac-api", "dcat", "listing")
PAGES = 500


def arguments(parser: Parser) -> None:
    built = parser.command(
        "build",
        build,
        "Write the whole catalog and the pages from the state; files that are right are not written again",
    )
    built.add_argument(
        "--out", default="", metavar="DIR", help="into this folder (default: that of `catalog` in kfm.yml)"
    )
    built.add_person(reason="built by an operator")
    shown = parser.command("show", show, "Show the catalog's entries of all datasets, or of one")
    shown.add_argument("dataset", nargs="?", default="", metavar="DATASET", help="its name in kfm.yml")
    shown.add_argument("--items", action="store_true", help="write its STAC items instead, one a line (NDJSON)")
    validated = parser.command(
        "validate",
        validate,
        "Check a catalog, or one document, against the schemas it names; needs no network",
        "STAC 1.0 and 1.1 with extensions, DCAT-US 3, PROV-JSON, OpenLineage, CloudEvents. An unknown extension is\n"
        "reported as unchecked: with --strict it is a fault. Exit 3 if something is wrong.",
    )
    validated.add_argument("path", metavar="PATH", help="a folder, or a .json, .jsonld or .ndjson file")
    validated.add_argument("--strict", action="store_true", help="refuse what cannot be checked")
    found = parser.command(
        "discover",
        discover,
        "Read a catalog of another publisher, and report what is new there",
        "SOURCE is the address of a STAC catalog or API, of a DCAT catalog or of a listing of a folder.\n"
        "The files it names are not fetched. With --draft-pr KFM proposes what is new: a branch with the declarations\n"
        "and their catalog entries, and a draft pull request that no gate has passed yet.",
    )
    found.add_argument("source", metavar="SOURCE", help="a URL, or a path below the folder of kfm.yml")
    found.add_argument("--kind", choices=KINDS, default=None, help="of the catalog (default: what it says itself)")
    found.add_argument(
        "--pages", type=int, default=PAGES, metavar="N", help=f"how many documents may be read (default: {PAGES})"
    )
    found.add_argument("--all", action="store_true", help="report known files, too")
    found.add_argument("--draft-pr", action="store_true", help="propose what is new, by a branch and a draft")
    found.add_argument("--dry-run", action="store_true", help="with --draft-pr: show the difference, change nothing")
    found.add_argument("--base", default="", metavar="BRANCH", help="the branch to merge into (default: checked out)")
    found.add_argument("--remote", default="origin", metavar="NAME", help="where the branch is sent (default: origin)")
    found.add_argument("--exit-code", action="store_true", help="exit 10 if nothing is new")


def build(options: argparse.Namespace, screen: Screen) -> int:
    who, tally = person(options), Tally(screen)
    if options.out:
        with opened(options, screen, "read") as session:
            found = build_all(session, options.out)
    else:
        from kfm.app.maintenance.maintenance_records import build_catalog
        from kfm.app.runs.execution import Outcome, settle

        with opened(options, screen, "write") as session:
            found, receipts = build_catalog(session, **who)
            if receipts:
                settle(session, Outcome(receipts), tally)
    pages = found.pop("pages", 0)
    if screen.json:
        screen.data(found)
    else:
        screen.line(f"{found['files']} files, {found['written']} written, {found['removed']} removed")
        if pages:
            screen.say(f"{pages} pages and files next to them changed")
    return tally.code


def show(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.metadata.catalogs import items
    from kfm.app.metadata.catalogs import show as shown

    resolved = settings(options)
    if options.items and not options.dataset:
        raise BadInput("--items is of one dataset", hint="name it: `kfm catalog show DATASET --items`")
    name = known_dataset(options, screen, resolved, options.dataset) if options.dataset else ""
    with opened(options, screen, "read", resolved) as session:
        if options.items:
            screen.raw(items(session, name))
            return 0
        found = shown(session, name)
    if screen.json:
        screen.data(found)
    elif not name:
        rows = [(each["dataset"], each["title"], short(each["version"]), each["versions"]) for each in found]
        screen.table(("dataset", "title", "version", "versions"), rows)
    else:
        _show_one(screen, found)
    return 0


def _show_one(screen: Screen, found: list[Any]) -> None:
    current = found[0]
    said = [(name, current[name]) for name in ("id", "title", "description", "license", "version") if name in current]
    items = sum(1 for link in current["links"] if link["rel"] == "item")
    screen.fields([*said, ("items", items), ("run", current["kfm:run_id"])])
    screen.line()
    rows = [
        (short(each["version"]), each.get("published", ""), "superseded" if n else "current")
        for n, each in enumerate(found)
    ]
    screen.table(("version", "published", "is"), rows)


def validate(options: argparse.Namespace, screen: Screen) -> int:
    counts = {"valid": 0, "unchecked": 0, "broken": 0}
    told = []
    for each in check(options.path):
        counts[each.verdict] += 1
        if each.verdict == "valid":
            continue
        place = f"{each.path}:{each.line}" if each.line else each.path
        told.append(
            {
                "path": each.path,
                "line": each.line,
                "kind": each.kind,
                "verdict": each.verdict,
                "problems": [
                    {"place": problem.place, "reason": problem.reason, "schema": problem.schema}
                    for problem in each.problems
                ],
                "unchecked": list(each.unchecked),
            }
        )
        if not screen.json:
            for problem in each.problems:
                by = f" ({problem.schema})" if problem.schema else ""
                screen.line(f"{place}: {problem.place or '/'}: {problem.reason}{by}")
            for name in each.unchecked:
                screen.line(f"{place}: unchecked: {name}")
    if not sum(counts.values()):
        raise BadInput("there is no catalog document here", hint="name a folder with .json files, or one of them")
    if screen.json:
        screen.data({**counts, "documents": told})
    else:
        screen.line(f"{counts['valid']} valid, {counts['unchecked']} unchecked, {counts['broken']} broken")
    return Refused.exit_code if counts["broken"] or (options.strict and counts["unchecked"]) else 0


def discover(options: argparse.Namespace, screen: Screen) -> int:
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
    from kfm.app.previews.draft_pull_request import predicted_draft, propose

    if options.dry_run:
        return predicted_draft(resolved, found, options.base)
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
        screen.say(f"#{draft.pull} is a draft from {draft.branch} to {draft.base}; no gate has checked it yet")


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
