"""kfm publish: publish the processed version of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.named_versions import version_to_publish
from kfm.cli.operation import operate_on_dataset
from kfm.cli.render import Screen
from kfm.cli.session import known_dataset, opened, settings

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


MORE = """\
A version that was rolled back or withdrawn is published again only if --to names it and --reason says why.
`kfm promote` is the same command. `kfm reconcile` compares and repairs public files."""


def arguments(parser: Parser) -> None:
    parser.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    parser.add_argument("--dry-run", action="store_true", help="only show what would move")
    parser.add_argument(
        "--to",
        default=None,
        metavar="DIGEST",
        help="a withdrawn version, or the start of its digest (default: the processed version)",
    )
    parser.add_person(wants_reason=True)
    parser.add_signing()
    parser.add_wait()
    parser.set_defaults(handler=publish, reports=True)


def publish(options: argparse.Namespace, screen: Screen) -> int:
    params = {} if options.to is None else {"to": _version_meant(options, screen)}
    return operate_on_dataset(options, screen, "promote", params)


def _version_meant(options: argparse.Namespace, screen: Screen) -> str:
    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset)
    with opened(options, screen, "read", resolved) as session:
        return version_to_publish(session, name, options.to)
