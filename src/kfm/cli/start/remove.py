"""kfm remove: take a dataset out of kfm.yml."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kfm import config
from kfm.app.declarations.config_change import config_lock, difference, replace_config, resolved_with, without_dataset
from kfm.app.declarations.dataset_removal import removal_of
from kfm.cli.session import opened, settings
from kfm.clock import from_environment
from kfm.fsio import Fs, failing_as_storage

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen

MORE = """\
The reverse of `kfm add`: it takes out the dataset with its contract and its comments, and leaves every other line as
it is. What is public must be withdrawn before: `kfm rollback DATASET --to nothing`. The history stays readable.
e.g.  kfm remove wells --dry-run
      kfm remove wells"""


def arguments(parser: Parser) -> None:
    parser.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument("--dry-run", action="store_true", help="show the difference, change nothing")
    parser.set_defaults(handler=remove, reports=True)


def remove(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    where = os.path.basename(resolved.path)
    with opened(options, screen, "read", resolved) as session:
        found = removal_of(session, options.dataset)
    before = config.config_loader.read_file(resolved.path, where)
    after = without_dataset(before, where, found.dataset)
    resolved_with(after, resolved.path, os.environ)
    diff = difference(before, after, where)
    if not options.dry_run and not _agreed(options, screen, found.dataset, where):
        screen.say("nothing was changed")
        return 0
    if not options.dry_run:
        with config_lock(resolved.root, from_environment()):
            now = config.config_loader.read_file(resolved.path, where)
            replace_config(resolved.path, without_dataset(now, where, found.dataset))
        with failing_as_storage("remove a masking policy"):
            for path in found.masks:
                Fs().unlink(path)
    masks = [os.path.relpath(path) for path in found.masks]
    if screen.json:
        screen.data(
            {
                "dataset": found.dataset,
                "removed": [] if options.dry_run else [os.path.relpath(resolved.path), *masks],
                "kept": found.kept,
                "diff": diff,
                "dry_run": options.dry_run,
            }
        )
        return 0
    if options.dry_run:
        screen.text(diff)
    for path in masks:
        screen.line(f"{'would remove' if options.dry_run else 'removed'} {path}")
    if not options.dry_run:
        screen.line(f"took dataset {found.dataset} out of {os.path.relpath(resolved.path)}")
    for line in found.kept:
        screen.say(line)
    if options.dry_run:
        screen.say("dry run: nothing was changed")
    return 0


def _agreed(options: argparse.Namespace, screen: Screen, dataset: str, name: str) -> bool:
    if options.yes or screen.json or screen.quiet or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    screen.say(f"take dataset {dataset} out of {name}? yes or no (yes)")
    answer = sys.stdin.readline()
    return bool(answer) and answer.strip().lower() in ("", "y", "yes")
