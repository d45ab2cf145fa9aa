"""What can be typed about keys and orders."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any, command: Any, group: Any) -> None:
    keys = group(commands, "keys", "Who is who, and by which keys that is known")
    new = command(
        keys,
        "new",
        "keys:new",
        "Make a key for a person, and the next key list with it",
        "The first key is an admin's and makes the list. From then on the admins sign the next one, with --key; and\n"
        "whatever lets more people decide about a custodian's data is also signed by its community, or its stewards.",
    )
    new.add_argument("--person", default="", metavar="NAME", help="whose it is; none for checkpoint and attest")
    new.add_argument(
        "--role",
        action="append",
        default=[],
        choices=("viewer", "operator", "steward", "admin"),
        metavar="ROLE",
        help="viewer, operator, steward or admin; may be repeated",
    )
    new.add_argument(
        "--custodian", action="append", default=[], metavar="NAME", help="whose data it is about; may be repeated"
    )
    new.add_argument(
        "--purpose",
        default="act",
        choices=("act", "community", "checkpoint", "attest"),
        metavar="PURPOSE",
        help="act (default), community, checkpoint or attest: one for each key",
    )
    new.add_argument("--days", type=_days, default=365, metavar="N", help="how long it is valid (default: 365)")
    new.add_argument("--threshold", type=_few, default=0, metavar="N", help="people of the community that it takes")
    new.add_argument("--admins", type=_few, default=0, metavar="N", help="admins who sign the next list from now on")
    new.add_argument("--out", default="", metavar="FILE", help="for the private half (default: in ~/.config/kfm/keys)")
    new.add_argument("--public", default="", metavar="HEX", help="the public half of a key that was made elsewhere")
    add_key(new)
    _add_person(new)
    command(keys, "list", "keys:listing", "List keys, whose they are and what each is for")
    revoke = command(keys, "revoke", "keys:revoke", "Let a key count for nothing any more")
    revoke.add_argument("id", metavar="ID", help="the key's id, or 8 digits or more of its start")
    add_key(revoke)
    _add_person(revoke)

    _add_review(commands, command, group)


def _add_review(commands: Any, command: Any, group: Any) -> None:
    review = group(commands, "review", "What waits for a person")
    listing = command(review, "list", "reviewing:listing", "List what waits, oldest first")
    listing.add_argument("--all", action="store_true", help="what is over too")
    show = command(review, "show", "reviewing:show", "Show one item, with its evidence")
    show.add_argument("id", metavar="ID", help="its id, or the start of it")
    for name, summary, more in (
        (
            "approve",
            "Sign an order: what was asked for, exactly as it was asked for",
            "The last signature that was missing lets it be done, at once.",
        ),
        ("reject", "Reject an order, for good", "One is enough: a steward of that custodian, or of its community."),
    ):
        one = command(review, name, f"reviewing:{name}", summary, more)
        one.add_argument("id", metavar="ID", help="the order's id, or the start of it")
        add_key(one)
        _add_person(one)


def add_days(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--days", type=_week, default=7, metavar="N", help="if others must agree: for how long (default: 7, the most)"
    )


def add_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="FILE",
        help="private key to sign with, in a file of mode 600; may be repeated",
    )


def _add_person(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; goes into the ledger")
    parser.add_argument("--actor", default=None, metavar="NAME", help="who; proves nothing, the signatures do")


def _few(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= 100):
        raise argparse.ArgumentTypeError("must be a number from 1 to 100")
    return int(text)


def _week(text: str) -> int:
    if text not in ("1", "2", "3", "4", "5", "6", "7"):
        raise argparse.ArgumentTypeError("must be a number of days, from 1 to 7")
    return int(text)


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 3650):
        raise argparse.ArgumentTypeError("must be a number of days, from 1 to 3650")
    return int(text)
