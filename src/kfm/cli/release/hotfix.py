"""kfm hotfix: correct what the public metadata of a dataset say; its data never change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kfm.app.interventions.hotfix_file import HotfixFile, read_hotfix
from kfm.app.interventions.hotfixes import (
    applying,
    changed_documents,
    dataset_with,
    new_file,
    published,
    reverting,
    statuses,
)
from kfm.cli.operation import operate
from kfm.cli.render import Screen
from kfm.cli.session import known_dataset, opened, settings
from kfm.cli.start.init import write_all
from kfm.errors import BadInput
from kfm.model.interventions.hotfix_set import FIELDS
from kfm.model.names import check_id
from kfm.parsing.characters import printable
from kfm.parsing.documents import Document, read

if TYPE_CHECKING:
    import argparse

    from kfm.app.session.session import Session
    from kfm.cli.parser import Parser

MORE = """\
A hotfix is a file that people review: a JSON Patch or a Merge Patch of the STAC collection or the DCAT entry.
It says what it expects to find, and holds for every version that says that. Once a newer version says
something else, the hotfix changes nothing and `kfm review list` shows it."""
LARGEST = 1 << 20  # bytes of a file


def arguments(parser: Parser) -> None:
    made = parser.command(
        "new",
        new,
        "Write the file of a hotfix, with what the dataset says now as its precondition",
        "The file is hotfixes/NAME.yml next to kfm.yml. Nothing is corrected before `kfm hotfix apply`.",
    )
    made.add_argument("name", metavar="NAME", help="a name for the hotfix")
    made.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    made.add_argument(
        "--set",
        action="append",
        default=[],
        required=True,
        metavar="FIELD=TEXT",
        help=f"{', '.join(FIELDS[:3])} or {FIELDS[4]}, and its new text; may be repeated",
    )
    compared = parser.command("diff", diff, "Show which catalog documents a hotfix would change, line by line")
    applied = parser.command(
        "apply",
        apply,
        "Apply a hotfix: everything that shows the metadata shows the correction",
        "The gates judge it as they judge a promotion. It is one operation with a receipt and a ledger entry.",
        reports=True,
    )
    reverted = parser.command(
        "revert",
        revert,
        "Take a hotfix back: everything is as it was before it, byte for byte",
        reports=True,
    )
    listed = parser.command("list", listing, "List the hotfixes, and whether each holds for the published version")
    listed.add_argument("dataset", nargs="?", default="", metavar="DATASET", help="its name (default: all)")
    for one in (compared, applied):
        one.add_argument("file", metavar="FILE", help="the file of the hotfix")
    reverted.add_argument("name", metavar="NAME", help="its name, see `kfm hotfix list`")
    reverted.add_argument("--dataset", default="", metavar="DATASET", help="of which dataset, if several have it")
    for one in (applied, reverted):
        one.add_argument("--dry-run", action="store_true", help="only show what would move")
        one.add_person(wants_reason=True)
        one.add_signing()
        one.add_wait()


def new(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    check_id(options.name, "hotfix")
    dataset = known_dataset(options, screen, resolved, options.dataset)
    wanted: dict[str, str] = {}
    for text in options.set:
        field, equals, value = text.partition("=")
        if not equals or field not in FIELDS or field == "license_text":
            raise BadInput(f"--set {printable(text, 60)} is no correction", hint="such as --set title='Rain gauges'")
        if field in wanted:
            raise BadInput(f"--set names {field} twice", hint="name each field once")
        if not value.strip():
            raise BadInput(f"--set {field} has no text", hint="a file with `op: remove` removes a text")
        wanted[field] = value
    with opened(options, screen, "read", resolved) as session:
        body = new_file(session, options.name, dataset, published(session, dataset), wanted)
    name = os.path.join("hotfixes", f"{options.name}.yml")
    write_all(resolved.root, {name: body}, beside=())
    if screen.json:
        screen.data({"file": name})
    screen.say(f"{name} is written; next: `kfm hotfix diff {name}`, then `kfm hotfix apply {name} --reason …`")
    return 0


def diff(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    document, file = _read(options.file)
    known_dataset(options, screen, resolved, file.dataset)
    with opened(options, screen, "dry", resolved) as session:
        found = changed_documents(session, file.dataset, applying(session, document, file))
    if screen.json:
        screen.data([{"path": path, "before": before, "after": after} for path, (before, after) in found.items()])
        return 0
    if not found:
        screen.say("it changes nothing: it is applied already")
    for path, (before, after) in found.items():
        screen.line(path)
        for line in _differences("", before, after):
            screen.line(f"  {line}")
    return 0


def _differences(at: str, before: Any, after: Any) -> list[str]:
    """Return one line for each value that differs, by its JSON pointer."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted({*before, *after})
        return [line for key in keys for line in _differences(f"{at}/{key}", before.get(key), after.get(key))]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [line for n, (one, other) in pairs for line in _differences(f"{at}/{n}", one, other)]
    return [] if before == after else [f"{at}: {_text(before)} → {_text(after)}"]


def _text(value: Any) -> str:
    return "nothing" if value is None else printable(str(value), 200)


def apply(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    document, file = _read(options.file)
    dataset = known_dataset(options, screen, resolved, file.dataset)
    if not options.reason.strip() and file.reason.strip():
        options.reason = file.reason
    return operate(options, screen, "hotfix", dataset, lambda session: applying(session, document, file))


def revert(options: argparse.Namespace, screen: Screen) -> int:
    wanted = known_dataset(options, screen, settings(options), options.dataset) if options.dataset else ""
    with opened(options, screen, "read") as session:
        dataset = dataset_with(session, options.name, wanted)

    def params(session: Session) -> dict[str, str]:
        return reverting(session, dataset, options.name)

    return operate(options, screen, "hotfix", dataset, params)


def listing(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        name = known_dataset(options, screen, session.resolved, options.dataset) if options.dataset else ""
        found = list(statuses(session, name))
    if screen.json:
        screen.data(
            [
                {
                    "hotfix": each.name,
                    "dataset": each.dataset,
                    "state": each.state,
                    "document": each.document,
                    "changes": [
                        {"field": field, "before": before, "after": after} for field, before, after in each.changes
                    ],
                    "since": each.since,
                    "by": each.by,
                }
                for each in found
            ]
        )
    elif not found:
        screen.say("no hotfix is applied")
    else:
        rows = [
            (each.name, each.dataset, each.state, field, _text(before), _text(after), each.since[:16], each.by)
            for each in found
            for field, before, after in each.changes
        ]
        screen.table(("hotfix", "dataset", "state", "field", "before", "after", "since", "by"), rows)
    return 0


def _read(path: str) -> tuple[Document, HotfixFile]:
    """Return the hotfix in a file, with the places of its parts."""
    try:
        with open(path, "rb") as file:
            body = file.read(LARGEST + 1)
    except (OSError, ValueError) as problem:
        reason = (getattr(problem, "strerror", None) or "not a file name").lower()
        raise BadInput(f"{printable(path, 200)} cannot be read: {reason}", hint="name the file of a hotfix") from None
    if len(body) > LARGEST:
        raise BadInput(f"{printable(path, 200)} is too large for a hotfix", hint="name the file of a hotfix")
    document = read(body, printable(path, 200)[1:-1], json=path.endswith(".json"))
    return document, read_hotfix(document)
