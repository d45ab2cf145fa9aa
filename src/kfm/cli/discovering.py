"""kfm discover: what is new at a catalog of somebody else."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from kfm.cli.governing import Make
    from kfm.cli.render import Screen
    from kfm.contract.discovery import Discovery

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
        "Of the files it speaks of none is fetched.",
    )
    parser.add_argument("source", metavar="SOURCE", help="a URL, or a path below the folder of kfm.yml")
    parser.add_argument("--kind", choices=KINDS, default=None, help="of the catalog (default: as it says itself)")
    parser.add_argument(
        "--pages", type=int, default=PAGES, metavar="N", help=f"how many documents may be read (default: {PAGES})"
    )
    parser.add_argument("--all", action="store_true", help="tell also what is known")
    parser.add_argument("--exit-code", action="store_true", help="exit with 10 if nothing is new")


def discover(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.cli.opening import opened, settings
    from kfm.errors import EXIT_CODES, BadInput
    from kfm.house.discovering import discover as look

    if not 1 <= options.pages <= 100_000:
        raise BadInput("--pages must be a number from 1 to 100000", hint="leave it out for the usual bound")
    resolved = settings(options)
    with opened(options, screen, "read", resolved) as house:
        found = look(house, options.source, options.kind, options.pages)
    if screen.json:
        screen.data(found)
    else:
        _tell(screen, found, all_of_it=options.all)
    nothing = all(finding.status == "known" for finding in found.findings)
    return EXIT_CODES["noop" if options.exit_code and nothing else "done"]


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
