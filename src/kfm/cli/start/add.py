"""kfm add: declare a file, an address or a folder as a dataset, and show what would be published."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from kfm import config
from kfm.app.declarations.config_change import (
    config_lock,
    difference,
    replace_config,
    resolved_with,
    with_dataset,
)
from kfm.app.declarations.dataset_proposal import LICENCE_LINE, Proposal, Wish, propose
from kfm.app.declarations.source_look import LARGEST, Access
from kfm.cli.render import Screen, size
from kfm.cli.session import opened, settings
from kfm.cli.start.init import head
from kfm.cli.start.init_templates import IGNORED
from kfm.clock import from_environment
from kfm.errors import BadInput

if TYPE_CHECKING:
    import argparse

    from kfm.app.declarations.predicted_publication import Predicted
    from kfm.cli.parser import Parser
    from kfm.config import Resolved

MORE = """\
It looks at the data, proposes a contract, writes the dataset into kfm.yml with comments, and shows what would be
published. Where it sees places of sites or names of people, the dataset is closed until a person decides.
e.g.  kfm add data/wells.csv --license CC0-1.0
      kfm add https://example.org/stations.geojson --name stations --license CC-BY-4.0
      kfm add data/rain --title "Rain of a week" --dry-run"""


def arguments(parser: Parser) -> None:
    parser.add_argument("what", metavar="FILE", help="a file, an address (https://…), or a folder of files")
    parser.add_argument("--name", default="", metavar="NAME", help="of the dataset (default: as the file)")
    parser.add_argument("--title", default="", metavar="TEXT", help="what readers see (default: from the name)")
    parser.add_argument("--description", default="", metavar="TEXT", help="what readers see below the title")
    parser.add_argument("--license", default="", metavar="ID", help="an SPDX id, such as CC-BY-4.0")
    parser.add_argument("--format", default="", metavar="FORMAT", help="if it is not recognised: csv, json, …")
    parser.add_argument("--member", default="", metavar="PATH", help="the file to read in an archive")
    parser.add_argument("--copy", action="store_true", help="copy the file into data/ first, from any folder")
    parser.add_argument("--public", action="store_true", help="you have looked: it may be public as it is")
    parser.add_argument("--yes", action="store_true", help="ask nothing, write what is proposed")
    parser.add_argument("--dry-run", action="store_true", help="show everything, write nothing")
    parser.set_defaults(handler=add, reports=True)


class _Base(NamedTuple):
    """The installation to which something is added, with the text of its kfm.yml; the file is not there yet in a new
    one."""

    resolved: Resolved
    body: bytes
    is_new: bool

    @property
    def name(self) -> str:
        return os.path.basename(self.resolved.path)


def add(options: argparse.Namespace, screen: Screen) -> int:
    base = _base(options)
    if not options.copy:
        return _add(options, screen, base, options.what) or 0
    if options.dry_run:
        raise BadInput("--copy writes a file, and --dry-run writes none", hint="leave one of the two out")
    from kfm.app.declarations.file_copy import copied_file, remove_copy

    with config_lock(base.resolved.root, from_environment()):
        path, is_new = copied_file(base.resolved, options.what, os.getcwd())
    code = None
    try:
        code = _add(options, screen, base, path)
    finally:
        if is_new and code is None:
            remove_copy(path)
    return code or 0


def _add(options: argparse.Namespace, screen: Screen, base: _Base, what: str) -> int | None:
    """Add a file, an address or a folder, and return the exit code; None if the user does not want what is proposed."""
    clock = from_environment()
    wish = Wish(
        what=what, name=options.name, title=options.title, description=options.description,
        license=options.license, format=options.format, member=options.member, public=options.public,
    )  # fmt: skip
    found = propose(Access(base.resolved, clock, os.getcwd()), wish)
    body = with_dataset(base.body, base.name, found.dataset, found.block)
    candidate = resolved_with(body, base.resolved.path, os.environ)
    predicted = _predicted(options, screen, candidate, found)
    if not screen.json:
        _show(screen, found)
    if options.dry_run:
        return _report(screen, found, predicted, [], difference(b"" if base.is_new else base.body, body, base.name))
    if not _agreed(options, screen, found, base.name):
        screen.say("nothing was written")
        return None
    with config_lock(base.resolved.root, clock):
        now = _base(options)
        replace_config(now.resolved.path, with_dataset(now.body, now.name, found.dataset, found.block), _around(now))
    return _report(screen, found, predicted, [os.path.relpath(base.resolved.path)], "")


def _base(options: argparse.Namespace) -> _Base:
    """Return the installation that is named or found; a new one here if there is none."""
    if not options.config and not os.environ.get("KFM_CONFIG"):
        try:
            config.config_loader.named(None, os.environ)
        except BadInput:
            if any(os.path.lexists(name) for name in config.config_loader.FILE_NAMES):
                raise
            body = head().encode() + b"datasets: {}\n"
            return _Base(resolved_with(body, os.path.abspath("kfm.yml"), os.environ), body, True)
    resolved = settings(options)
    return _Base(resolved, config.config_loader.read_file(resolved.path, os.path.basename(resolved.path)), False)


def _around(base: _Base) -> dict[str, bytes]:
    """Return the files that `kfm init` writes next to kfm.yml and that are not there."""
    if not base.is_new:
        return {}
    import json

    files = {
        ".gitignore": IGNORED.encode(),
        "kfm.schema.json": (json.dumps(config.json_schema(), indent=1) + "\n").encode(),
    }
    paths = {os.path.join(base.resolved.root, name): text for name, text in files.items()}
    return {path: text for path, text in paths.items() if not os.path.lexists(path)}


def _predicted(options: argparse.Namespace, screen: Screen, candidate: Resolved, found: Proposal) -> Predicted | None:
    """Return what a run would make; None if the dataset is closed, or too large to be run in memory."""
    if found.closed or sum(look.file.size for look in found.looks) > LARGEST:
        return None
    from kfm.app.declarations.predicted_publication import predict

    with opened(options, screen, "dry", candidate) as session:
        return predict(session, found.dataset)


def _agreed(options: argparse.Namespace, screen: Screen, found: Proposal, name: str) -> bool:
    if options.yes or screen.json or screen.quiet or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    screen.say(f"write dataset {found.dataset} into {name}? yes or no (yes)")
    answer = sys.stdin.readline()
    return bool(answer) and answer.strip().lower() in ("", "y", "yes")


# -- what is shown


def _show(screen: Screen, found: Proposal) -> None:
    for look in found.looks:
        parts = [look.format, size(look.file.size)]
        parts += [f"{look.rows:,} row{'s' * (look.rows != 1)}"] if look.rows else []
        screen.line(f"{look.file.name}: {', '.join(parts)}")
    first = found.looks[0]
    rows = []
    for one in _columns(found):
        rules = [word for word in ("required", "unique") if one.get(word)]
        if "maximum" in one:
            rules.append(f"{one['minimum']:g} to {one['maximum']:g}")
        rows.append((one["name"], one.get("type", one.get("dtype", "text")), ", ".join(rules), _unit(first, one)))
    if rows:
        screen.line()
        screen.table(("column", "type", "rules", "unit"), rows)
        screen.line()


def _columns(found: Proposal) -> list[dict[str, Any]]:
    """Return the columns or variables of the first source, as kfm.yml has them."""
    source = next(iter(found.block["sources"].values()))
    columns: list[dict[str, Any]] = source.get("contract", {}).get("columns", [])
    return columns or source.get("expect", {}).get("variables", [])


def _unit(look: Any, column: dict[str, Any]) -> str:
    known = {one.name: one.unit for one in look.profiles}
    return str(column.get("units") or known.get(column["name"], ""))


def _next(found: Proposal) -> list[str]:
    name = found.dataset
    if found.closed:
        sites = any(one.kind == "site" for one in found.signs)
        protect = [f"kfm protect {name} --custodian NAME"] if sites and len(found.looks) == 1 else []
        return [*protect, f"write `sensitivity: public` under datasets.{name} in kfm.yml"]
    if not found.license:
        return [f"write `{LICENCE_LINE}` (its own licence) under datasets.{name} in kfm.yml", f"kfm run {name}"]
    return [f"kfm run {name}", f'kfm promote {name} --reason "first edition"']


def _report(screen: Screen, found: Proposal, predicted: Predicted | None, written: list[str], diff: str) -> int:
    if screen.json:
        screen.data(_plain(found, predicted, written, diff))
        return 0
    screen.text(diff)
    for path in written:
        screen.line(f"wrote dataset {found.dataset} into {path}")
    for note in found.notes:
        screen.say(note)
    if found.closed:
        _tell_closed(screen, found)
    elif predicted is None:
        screen.say(f"too large for a dry run; `kfm run {found.dataset}` reads all of it")
    else:
        _tell_predicted(screen, predicted)
    if diff:
        screen.say("dry run: nothing was written")
    elif not found.closed:
        if not found.license:
            screen.say(f"no licence is stated, and nothing is published without one: {_next(found)[0]}")
        screen.say(f"next: {' && '.join(one for one in _next(found) if one.startswith('kfm '))}")
    return 0


def _tell_predicted(screen: Screen, predicted: Predicted) -> None:
    for problem in predicted.problems:
        screen.say(f"a run would fail: {problem}")
    if not predicted.files:
        return
    names = ", ".join(f"{one['file']} ({size(one['bytes'])})" for one in predicted.files[:5])
    more = f" and {len(predicted.files) - 5} more" if len(predicted.files) > 5 else ""
    rows = f"{predicted.rows - predicted.quarantined:,} of {predicted.rows:,} rows, " if predicted.rows else ""
    page = f"; page: {predicted.page}" if predicted.page else ""
    screen.line(f"would publish {rows}{names}{more}{page}")


def _tell_closed(screen: Screen, found: Proposal) -> None:
    for one in found.signs:
        screen.say(one.why)
    screen.say(f"so {found.dataset} is closed: nothing of it is used or published until a person decides:")
    for line in _next(found):
        what = "to publish cells instead of places" if line.startswith("kfm protect") else "to publish it as it is"
        screen.say(f"{what}: {line}")


def _plain(found: Proposal, predicted: Predicted | None, written: list[str], diff: str) -> dict[str, Any]:
    return {
        "dataset": found.dataset,
        "title": found.block["title"],
        "license": found.license,
        "sensitivity": found.block["sensitivity"],
        "sources": [
            {
                "name": name,
                "uri": look.file.uri,
                "format": look.format,
                "bytes": look.file.size,
                "rows": look.rows,
                "read_whole": look.whole,
                "columns": list(block.get("contract", {}).get("columns", [])),
                "variables": list(block.get("expect", {}).get("variables", [])),
            }
            for (name, block), look in zip(found.block["sources"].items(), found.looks, strict=True)
        ],
        "signs": [one._asdict() for one in found.signs],
        "would_publish": predicted and predicted._asdict(),
        "notes": found.notes,
        "written": written,
        "diff": diff,
        "next": _next(found),
    }
