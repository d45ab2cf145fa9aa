"""kfm reconcile: compare storage, refs, public files, catalog and graphs, and repair what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.maintenance.maintenance_records import EVERYTHING, record_repair
from kfm.app.maintenance.reconcile import Drift, drifts, repair
from kfm.app.runs.execution import Request, work
from kfm.app.stewards.public_repair import check_all, published_datasets, repair_all
from kfm.cli.session import Tally, known_dataset, opened, person, settings
from kfm.errors import EXIT_CODES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from kfm.app.session.session import Session
    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen
    from kfm.errors import KfmError
    from kfm.model.records import Difference


MORE = """\
Exit 3 if something differs; with --repair KFM repairs what it can. No ref moves. Public files that are
missing, altered or foreign are named; a withdrawn file is foreign, too."""


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "dataset", nargs="*", metavar="DATASET", help="only the public files of these (default: everything)"
    )
    parser.add_argument("--public", action="store_true", help="only the public files, of all datasets")
    parser.add_argument("--repair", action="store_true", help="make everything outside what the refs say")
    parser.add_person(reason="what differs from the refs is repaired")
    parser.set_defaults(handler=reconcile)


def reconcile(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    named = [known_dataset(options, screen, resolved, name) for name in options.dataset]
    tally, who = Tally(screen), person(options)
    with opened(options, screen, "write" if options.repair else "read", resolved) as session:
        if named or options.public:
            found, left, problems = _public_files(session, tally, named, who, repair=options.repair)
        elif options.repair:
            found, left, problems = repair(session, **who)
        else:
            found, problems = drifts(session)
            left = found
    for name, problem in problems:
        tally.failed(name, problem)
    if screen.json:
        screen.data({"drift": found, "left": left, "errors": tally.errors})
    elif found:
        screen.table(("place", "dataset", "what", "about"), [(d.place, d.dataset, d.what, d.about) for d in found])
    if not found and not problems:
        screen.say("no difference: everything is as the refs say")
    elif options.repair and found:
        screen.say(f"{len(found) - len(left)} of {len(found)} repaired")
    return tally.code or (EXIT_CODES["refused"] if left else EXIT_CODES["done"])


def _public_files(
    session: Session, tally: Tally, named: list[str], who: dict[str, str], *, repair: bool
) -> tuple[list[Drift], list[Drift], list[tuple[str, KfmError]]]:
    """Compare only public files. Returns what differed, what still differs, and what could not be compared."""
    names = named or published_datasets(session)
    if repair:
        wrong = check_all(session, names)[0]
        work(session, _repair_requests(wrong, named, who), tally, all_are_ours=True)
        different, _, problems = repair_all(session, names)
    else:
        different, problems = check_all(session, names)
    found = [Drift(place="public", dataset=each.dataset, what=each.kind, about=each.path) for each in different]
    return found, [] if repair and not problems else found, problems


def _repair_requests(wrong: list[Difference], named: list[str], who: dict[str, str]) -> Iterator[Request]:
    """Yield the request to record a repair, unless nothing differs."""
    if wrong:
        about = named[0] if len(named) == 1 else EVERYTHING
        rows = [("public", each.dataset, each.kind, each.path) for each in wrong]
        yield Request(about, lambda session, _tell: [record_repair(session, rows, dataset=about, **who)])
