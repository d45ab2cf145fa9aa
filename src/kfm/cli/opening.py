"""What every command does first and last: opens the house, finds what was named, and says how it ended."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from kfm import errors
from kfm.cli.render import Screen
from kfm.contract.names import dataset_id
from kfm.documents.characters import is_printable, printable
from kfm.errors import EXIT_CODES, BadInput, KfmError

if TYPE_CHECKING:
    from kfm.config import Resolved
    from kfm.contract.records import Receipt
    from kfm.house.opening import House, Mode


def settings(options: argparse.Namespace) -> Resolved:
    from kfm import config

    return config.load(options.config, os.environ)


@contextmanager
def opened(
    options: argparse.Namespace,
    screen: Screen,
    mode: Mode,
    resolved: Resolved | None = None,
    events: list[dict[str, Any]] | None = None,
) -> Iterator[House]:
    """The house of the configuration that was named or found.

    Opening it to write makes the store if there is none: whatever can be wrong with what was typed is
    checked before.
    """
    from kfm.house.opening import open_house, open_log

    resolved = resolved or settings(options)
    log = None
    loud = options.verbose and not options.quiet
    wanted = os.environ.get("KFM_LOG")
    debug = sys.stderr if wanted == "debug" else None
    if loud or events is not None or debug is not None:
        lines: Literal["human", "jsonl"] = "jsonl" if wanted == "jsonl" else "human"
        log = open_log(sys.stderr if loud else None, lines=lines, events=events, causes=debug)
    with open_house(resolved, mode=mode, log=log, progress=screen.progress) as house:
        yield house
        screen.finish()  # what was said is durable; that closing fails is another matter


def known_dataset(options: argparse.Namespace, screen: Screen, resolved: Resolved, text: str) -> str:
    """A dataset the configuration names, or one that left it and still has refs."""
    name = dataset_id(text)
    known = sorted(resolved.config.datasets)
    if name in known:
        return name
    with opened(options, screen, "read", resolved) as house:
        if any(house.state.refs.at(f"{zone}/{name}") for zone in ("processed", "published", "switch/dataset")):
            return name
    from kfm.documents.shape import nearest

    close = nearest(name, known)
    raise BadInput(
        f"there is no dataset {printable(name)}",
        hint=f"did you mean {close}?" if close else "the configuration names " + (", ".join(known[:20]) or "none"),
    )


def person(options: argparse.Namespace) -> dict[str, str]:
    """Who and why, as they go into the ledger: one line each."""
    said = {"reason": options.reason, "actor": options.actor or ""}
    for name, text in said.items():
        if not is_printable(text) or len(text) > 1000:
            raise BadInput(f"--{name} must be one line of at most 1000 characters", hint="shorten it")
    return said


def one_line(flag: str, text: str, limit: int = 200) -> str:
    if not is_printable(text) or len(text) > limit:
        raise BadInput(f"{flag} must be one line of at most {limit} characters", hint="shorten it")
    return text


def code_of(receipt: Receipt, *, tell_noop: bool = False) -> int:
    """The exit code a receipt stands for."""
    if receipt.outcome in ("noop", "unchanged"):
        return EXIT_CODES["noop"] if tell_noop else EXIT_CODES["done"]
    if receipt.outcome == "frozen":
        return EXIT_CODES["frozen"]
    if receipt.status == "SUCCESS":
        return EXIT_CODES["done"]
    return next((_exit_of(note.code) for note in receipt.errors), EXIT_CODES["failed"])


def _exit_of(code: str) -> int:
    pending: list[type[KfmError]] = [errors.KfmError]
    while pending:
        kind = pending.pop()
        if kind.code == code:
            return kind.exit_code
        pending += kind.__subclasses__()
    return EXIT_CODES["failed"]


def together(codes: list[int]) -> int:
    """One exit code for several: the first that is a failure; NOOP only if all were."""
    for code in codes:
        if code not in (EXIT_CODES["done"], EXIT_CODES["noop"]):
            return code
    return EXIT_CODES["noop"] if codes and all(code == EXIT_CODES["noop"] for code in codes) else EXIT_CODES["done"]
