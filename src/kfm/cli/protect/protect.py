"""kfm protect: from a table with places to a masked dataset that stewards sign."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from kfm import config
from kfm.app.stewards.mask_proposal import cells_by_resolution, uniqueness
from kfm.app.stewards.protection_setup import (
    Wish,
    find_target,
    known_custodian,
    prepare_setup,
    table_of,
    write_setup,
)
from kfm.app.stewards.protection_steps import Step, steps
from kfm.cli.render import Screen
from kfm.cli.session import opened, settings
from kfm.errors import BadInput
from kfm.model.masks import SMALLEST_K

if TYPE_CHECKING:
    import argparse

    from kfm.app.stewards.mask_proposal import CellCount, Uniqueness
    from kfm.app.stewards.protection_setup import Setup
    from kfm.cli.parser import Parser
    from kfm.config import Resolved

MORE = """\
It looks at the columns, proposes a mask, a label and a key, shows cells and how many records stand out, and
writes the files. It shows no coordinate and no value. Called again, it says what is done and who acts next.
e.g.  kfm protect data/sites.csv --custodian society"""


def arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a table (csv, tsv, ndjson, geojson), or a dataset of kfm.yml")
    parser.add_argument("--dataset", default="", metavar="NAME", help="the dataset to make (default: as the file)")
    parser.add_argument("--title", default="", metavar="TEXT", help="what readers see")
    parser.add_argument("--license", default="", metavar="ID", help="of the cells: an SPDX id, such as CC-BY-4.0")
    parser.add_argument("--custodian", default="", metavar="NAME", help="whose data it is; a key is made for it")
    parser.add_argument("--authority", default="", metavar="TEXT", help="who decides about it (default: the custodian)")
    parser.add_argument("--care", default="", metavar="WORD", help="open or community (default: open)")
    parser.add_argument("--community-label", action="append", default=[], metavar="CODE", help="TK CS, …; repeatable")
    parser.add_argument(
        "--resolution", type=int, choices=range(16), metavar="N", help="of H3, 0 to 15 (default: 6, about 7 km)"
    )
    parser.add_argument("--k", type=int, default=SMALLEST_K, metavar="N", help="fewest records alike (default: 5)")
    parser.add_argument("--expires", default="", metavar="DAY", help="the last day of the consent: 2031-12-31")
    parser.add_argument("--latitude", default="", metavar="COLUMN", help="if it is not found")
    parser.add_argument("--longitude", default="", metavar="COLUMN", help="if it is not found")
    parser.add_argument("--record-id", default="", metavar="COLUMN", help="what identifies a record; not published")
    parser.add_argument(
        "--accuracy", default="", metavar="METRES", help="of the places, or COLUMN:VALUE=METRES,VALUE=METRES"
    )
    parser.add_argument("--safe", default="", metavar="DIR", help="where a new key is kept (default: ../safe)")
    parser.add_argument("--yes", action="store_true", help="ask nothing, take what is proposed")
    parser.add_argument("--dry-run", action="store_true", help="show everything, write nothing")
    parser.set_defaults(handler=protect, reports=True)


def protect(options: argparse.Namespace, screen: Screen) -> int:
    target = find_target(_installation(options), os.getcwd(), _wish(options))
    table, wish = table_of(target), _wish(options)
    asks = not (options.yes or screen.json or screen.quiet) and sys.stdin.isatty() and sys.stderr.isatty()
    if asks and not known_custodian(target, wish):
        named = _asked(screen, "whose data is it? a short name for the custodian, such as society")
        wish = msgspec.structs.replace(wish, custodian=named)
    setup = prepare_setup(target, table, wish, os.environ)
    if not screen.json:
        _show(screen, setup, cells_by_resolution(table, setup.policy))
    is_new = any(file.body is not None for file in setup.files)
    if asks and is_new:
        setup = prepare_setup(target, table, _answers(screen, setup, wish), os.environ)
    single = uniqueness(table, setup.policy)
    if not screen.json:
        _tell(screen, single)
    if asks and is_new and not options.dry_run and not _agreed(screen, setup):
        screen.say("nothing was written")
        return 0
    if not options.dry_run:
        write_setup(setup)
    found = [] if options.dry_run else _steps(options, screen, setup)
    if screen.json:
        screen.data(_report(options, setup, cells_by_resolution(table, setup.policy), single, found))
        return 0
    for file in setup.files:
        if file.body is not None:
            screen.line(f"{'would write' if options.dry_run else 'wrote'} {_shown(file.path)}")
    if not is_new:
        screen.line("every file is there; nothing was written")
    _next(screen, found)
    if is_new and found:
        screen.say(f"look at it, you alone: kfm mask preview {_shown(target.file)} --mask {_shown(setup.mask)}")
    return 0


def _wish(options: argparse.Namespace) -> Wish:
    return Wish(
        source=options.source, dataset=options.dataset, title=options.title, license=options.license,
        custodian=options.custodian, authority=options.authority, care=options.care,
        community_labels=tuple(options.community_label), resolution=options.resolution, expires=options.expires,
        safe=options.safe, latitude=options.latitude, longitude=options.longitude, record_id=options.record_id,
        accuracy=options.accuracy, k=options.k,
    )  # fmt: skip


def _report(
    options: argparse.Namespace, setup: Setup, cells: list[CellCount], single: Uniqueness, found: list[Step]
) -> dict[str, Any]:
    return {
        "dataset": setup.target.dataset,
        "source": setup.target.name,
        "custodian": setup.custodian,
        "resolution": setup.policy.resolution,
        "columns": [
            {"column": one.name, "holds": one.holds, "published": _published(setup, one.name)}
            for one in setup.survey.columns
        ],
        "cells": cells,
        "uniqueness": single,
        "files": [{"path": _shown(file.path), "written": file.body is not None} for file in setup.files],
        "dry_run": options.dry_run,
        "steps": found,
    }


# -- questions


def _asked(screen: Screen, question: str, proposed: str = "") -> str:
    """Return the answer of the person at the terminal; an empty one accepts what is proposed."""
    screen.say(f"{question} ({proposed})" if proposed else question)
    return sys.stdin.readline().strip() or proposed


def _answers(screen: Screen, setup: Setup, wish: Wish) -> Wish:
    """Return the wish with the answers to what the flags leave open."""
    found: dict[str, Any] = {}
    new = {file.path for file in setup.files if file.body is not None}
    if wish.resolution is None and setup.mask in new:
        answer = _asked(screen, "which resolution? the cells get larger with a smaller number", "6")
        if not answer.isdecimal() or int(answer) > 15:
            raise BadInput("that is no resolution", hint="nothing was written; H3 has 0 to 15")
        found["resolution"] = int(answer)
    if not wish.care:
        found["care"] = _asked(screen, "does a community decide about it, too? open or community", "open")
    if not wish.expires:
        found["expires"] = _asked(screen, "the last day of the consent, such as 2031-12-31; empty: it has no end")
    if not wish.title and setup.target.declared is None:
        found["title"] = _asked(screen, "its title for readers; empty: one made from its name")
    if not wish.license and setup.target.declared is None:
        found["license"] = _asked(screen, "its licence, such as CC-BY-4.0; empty: decided later")
    return msgspec.structs.replace(wish, **found)


def _agreed(screen: Screen, setup: Setup) -> bool:
    paths = ", ".join(_shown(file.path) for file in setup.files if file.body is not None)
    screen.say(f"write {paths}? yes or no (yes)")
    answer = sys.stdin.readline()
    return bool(answer) and answer.strip().lower() in ("", "y", "yes")


# -- what is shown


def _installation(options: argparse.Namespace) -> Resolved | None:
    """Return the installation; None if there is no kfm.yml here or above, and none is named."""
    if not options.config and not os.environ.get("KFM_CONFIG"):
        try:
            config.config_loader.named(None, os.environ)
        except BadInput:
            if not any(os.path.lexists(name) for name in config.config_loader.FILE_NAMES):
                return None
            raise
    return settings(options)


def _steps(options: argparse.Namespace, screen: Screen, setup: Setup) -> list[Step]:
    options.config = setup.target.config
    with opened(options, screen, "read") as session:
        return steps(session, setup.target.dataset, setup.target.name, setup.custodian)


def _shown(path: str) -> str:
    return os.path.relpath(path)


def _show(screen: Screen, setup: Setup, cells: list[CellCount]) -> None:
    policy = setup.policy
    screen.table(
        ("column", "holds", "published"),
        [(one.name, one.holds, _published(setup, one.name)) for one in setup.survey.columns],
    )
    screen.line()
    screen.table(
        ("resolution", "across", "cells", "alone", "bare"),
        [
            (
                f"{one.resolution}{' *' * (one.resolution == policy.resolution)}",
                f"{one.kilometres:g} km",
                one.cells,
                one.alone,
                one.bare,
            )
            for one in cells
        ],
    )
    screen.line()


def _tell(screen: Screen, single: Uniqueness) -> None:
    by, k = ", ".join(("cell", *single.columns)), single.k
    screen.line(f"{single.unique} of {single.records} records are unique by {by}; {single.below_k} in groups below {k}")
    if single.published_below_k:
        screen.line(f"{single.published_below_k} stay so: name these columns in the masking policy, quasi_identifiers")
    elif single.below_k:
        screen.line(f"their columns become coarser, or are withheld, until no group is below {k}")


def _published(setup: Setup, name: str) -> str:
    policy = setup.policy
    rule = policy.columns.get(name)
    if name == policy.record_id:
        return "as a public id"
    if name in (policy.location.latitude, policy.location.longitude, "geometry"):
        return "as one cell"
    if name == policy.location.accuracy.column:
        return "in words"
    if rule is None:
        return "no"
    if rule.kind == "code":
        return f"{len(rule.values)} value{'s' * (len(rule.values) > 1)}"
    return {"date": f"as {rule.to}", "number": f"in steps of {rule.step or 1:g}"}.get(rule.kind, "if reviewed")


def _next(screen: Screen, found: list[Step]) -> None:
    if not found:
        return
    screen.line()
    screen.table(("step", "state", "who"), [(one.step, one.state, one.who) for one in found])
    for one in found:
        if one.state == "next" and one.next:
            screen.say(f"next: {one.next}")
