"""kfm rollback: move a ref back to an earlier version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.named_versions import version_of_ref
from kfm.cli.operation import operate_on_dataset
from kfm.cli.render import Screen
from kfm.cli.session import opened
from kfm.model import refs
from kfm.model.names import check_ref, dataset_id, is_digest

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


MORE = """\
Once: the same command again changes nothing. Any other move names its version with --to."""


def arguments(parser: Parser) -> None:
    parser.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    parser.add_argument("--dry-run", action="store_true", help="only show what would move")
    parser.add_person(wants_reason=True)
    parser.add_signing()
    parser.add_wait()
    parser.add_argument(
        "--to",
        default=None,
        metavar="DIGEST",
        help="the version, or the start of its digest (default: the one before); `nothing` withdraws it",
    )
    parser.add_argument(
        "--from",
        dest="leaves",
        default=None,
        metavar="DIGEST",
        help="only if the ref is at this version now, or at `nothing`",
    )
    parser.add_argument("--ref", default=None, metavar="REF", help="the ref (default: published/DATASET)")
    parser.set_defaults(handler=rollback, reports=True)


def rollback(options: argparse.Namespace, screen: Screen) -> int:
    params = {}
    options.closes = options.to == "nothing"
    if options.ref is not None:
        params["ref"] = check_ref(options.ref)
    if options.to is not None:
        params["to"] = _version_meant(options, screen, options.to)
    if options.leaves is not None:
        params["before"] = _version_meant(options, screen, options.leaves)
    return operate_on_dataset(options, screen, "rollback", params)


def _version_meant(options: argparse.Namespace, screen: Screen, text: str) -> str:
    if text == "nothing" or is_digest(text):
        return text  # without a look at the state: what only closes works while kfm.yml has a mistake
    with opened(options, screen, "read") as session:
        return version_of_ref(session, options.ref or refs.published(dataset_id(options.dataset)), text)
