"""kfm catalog, sinks, reconcile: what is said of the data elsewhere, and whether it is true."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from kfm.cli.governing import Group, Make
    from kfm.cli.render import Screen

COMMANDS = ("catalog", "reconcile", "sinks")


def add(commands: Any, make: Make, group: Group) -> None:
    catalog = group(commands, "catalog", "What describes the published data: STAC, DCAT, lineage")
    build = make(
        catalog,
        "build",
        "cataloguing:build",
        "Write the whole catalog from the state; files that are as they should be are not written again",
    )
    build.add_argument(
        "--out", default="", metavar="DIR", help="into this folder (default: that of `catalog` in kfm.yml)"
    )
    show = make(catalog, "show", "cataloguing:show", "Show what the catalog says of all datasets, or of one")
    show.add_argument("dataset", nargs="?", default="", metavar="DATASET", help="its name in kfm.yml")
    show.add_argument("--items", action="store_true", help="write its STAC items instead, one a line (NDJSON)")

    validate = make(
        catalog,
        "validate",
        "validating:validate",
        "Check a catalog, or one document, against the schemas it names; needs no network",
        "STAC 1.0 and 1.1 with extensions, DCAT-US 3, PROV-JSON, OpenLineage, CloudEvents. An extension that is not\n"
        "known is told as unchecked: with --strict, that is a fault, too. Exit 3 if something is wrong.",
    )
    validate.add_argument("path", metavar="PATH", help="a folder, or a .json, .jsonld or .ndjson file")
    validate.add_argument("--strict", action="store_true", help="refuse what cannot be checked")

    sinks = make(
        commands,
        "sinks",
        "cataloguing:sinks",
        "Show who is told of every run: how far each sink is, what keeps it, what it refused",
        "`kfm sinks retry NAME` tells a sink now, whatever kept it, also what it refused.\n"
        "Exit 69 if one does not go on or has refused something.",
    )
    sinks.add_argument("what", nargs="?", choices=("retry",), metavar="retry", help="tell a sink now")
    sinks.add_argument("sink", nargs="?", default="", metavar="NAME", help="which, e.g. catalog")

    reconcile = make(
        commands,
        "reconcile",
        "cataloguing:reconcile",
        "Compare storage, refs, public files, catalog and graphs with each other",
        "Exit 3 if something differs; with --repair what can be put right is.",
    )
    reconcile.add_argument("--repair", action="store_true", help="make everything outside what the refs say")


def build(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.core.catalogs import build as build_all
    from kfm.cli.opening import opened

    with opened(options, screen, "read") as session:
        found = build_all(session, options.out)
        if screen.json:
            screen.data(found)
        else:
            screen.line(f"{found['files']} files, {found['written']} written, {found['removed']} removed")
    return 0


def show(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.core.catalogs import items
    from kfm.app.core.catalogs import show as shown
    from kfm.cli.opening import known_dataset, opened, settings
    from kfm.cli.render import short
    from kfm.errors import BadInput

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
    from kfm.cli.render import short

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


def sinks(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.core.ledger_sinks import how_far
    from kfm.cli.opening import opened
    from kfm.errors import EXIT_CODES

    if options.what:
        return _retry(options, screen)
    with opened(options, screen, "read") as session:
        found = how_far(session)
    if screen.json:
        screen.data(
            [
                {
                    "sink": each.name,
                    "cursor": each.cursor,
                    "newest": each.newest,
                    "lag": each.lag,
                    "waiting": each.waiting,
                    "stopped": each.stopped,
                    "dead": each.dead,
                }
                for each in found
            ]
        )
    else:
        rows = [
            (each.name, each.cursor, each.lag, len(each.dead), each.stopped.message if each.stopped else "")
            for each in found
        ]
        screen.table(("sink", "told up to", "behind", "refused", "kept by"), rows)
        for each in found:
            for letter in each.dead:
                screen.say(
                    f"{each.name}: entry {letter.index} ({letter.run_id}) since {letter.since}: {letter.message}"
                )
        if not found:
            screen.say("no sink is configured")
    bad = any(each.stopped is not None or each.dead for each in found)
    return EXIT_CODES["unavailable"] if bad else EXIT_CODES["done"]


def _retry(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.core.ledger_sinks import how_far, retry
    from kfm.cli.opening import one_line, opened
    from kfm.errors import EXIT_CODES

    name = one_line("NAME", options.sink)
    with opened(options, screen, "write") as session:
        problems = retry(session, name)
        how = next(each for each in how_far(session) if each.name == name)
    for problem in problems:
        screen.fail(str(problem))
    if screen.json:
        screen.data({"sink": name, "cursor": how.cursor, "lag": how.lag, "stopped": how.stopped, "dead": how.dead})
    else:
        screen.line(f"{name}: told up to {how.cursor}, {how.lag} behind, {len(how.dead)} refused")
    if problems:
        return problems[0].exit_code
    return EXIT_CODES["unavailable"] if how.dead else EXIT_CODES["done"]


def reconcile(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.maintenance import reconcile
    from kfm.cli.opening import opened
    from kfm.cli.running import Tally
    from kfm.errors import EXIT_CODES

    with opened(options, screen, "write" if options.repair else "read") as session:
        if options.repair:
            found, left, problems = reconcile.repair(session)
        else:
            found, problems = reconcile.drifts(session)
            left = found
    tally = Tally(screen)
    for name, problem in problems:
        tally.failed(name, problem)
    if screen.json:
        screen.data({"drift": found, "left": left, "errors": tally.errors})
    elif found:
        screen.table(("place", "dataset", "what", "about"), [(d.place, d.dataset, d.what, d.about) for d in found])
    if not found and not problems:
        screen.say("all say the same")
    elif options.repair and found:
        screen.say(f"{len(found) - len(left)} of {len(found)} put right")
    return tally.code or (EXIT_CODES["refused"] if left else EXIT_CODES["done"])
