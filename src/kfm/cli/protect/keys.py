"""kfm keys: which key belongs to which person, and for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kfm.app.authority.keyring import in_force, now, signer_at
from kfm.app.stewards import key_changes
from kfm.app.stewards.key_changes import KeyRequest, new_key
from kfm.cli.render import Screen
from kfm.cli.session import code_of, opened, person
from kfm.errors import BadInput

if TYPE_CHECKING:
    import argparse

    from kfm.app.stewards.key_changes import KeyChange
    from kfm.cli.parser import Parser


def arguments(parser: Parser) -> None:
    made = parser.command(
        "new",
        new,
        "Make a key for a person, and the next key list with it",
        "The first key is an admin's and makes the list. From then on the admins sign the next one, with --key; a\n"
        "list that lets more people decide about a custodian's data is also signed by its community, or its stewards.",
    )
    made.add_argument("--person", default="", metavar="NAME", help="its owner; none for checkpoint and attest")
    made.add_argument(
        "--role",
        action="append",
        default=[],
        choices=("viewer", "operator", "steward", "admin"),
        metavar="ROLE",
        help="viewer, operator, steward or admin; may be repeated",
    )
    made.add_argument(
        "--custodian", action="append", default=[], metavar="NAME", help="whose data it is about; may be repeated"
    )
    made.add_argument(
        "--purpose",
        default="act",
        choices=("act", "community", "checkpoint", "attest"),
        metavar="PURPOSE",
        help="act (default), community, checkpoint or attest: one for each key",
    )
    made.add_argument("--days", type=_days, default=365, metavar="N", help="how long it is valid (default: 365)")
    made.add_argument("--threshold", type=_few, default=0, metavar="N", help="how many people of the community sign")
    made.add_argument("--admins", type=_few, default=0, metavar="N", help="how many admins sign the next list")
    made.add_argument("--out", default="", metavar="FILE", help="for the private half (default: in ~/.config/kfm/keys)")
    made.add_argument("--public", default="", metavar="HEX", help="the public half of a key that was made elsewhere")
    made.add_key()
    made.add_person("who; proves nothing, the signatures do", reason="a new key")
    parser.command("list", listing, "List keys, their owners and their purposes")
    revoked = parser.command("revoke", revoke, "Revoke a key: it counts for nothing from now on")
    revoked.add_argument("id", metavar="ID", help="the key's id, or 8 digits or more of its start")
    revoked.add_key()
    revoked.add_person("who; proves nothing, the signatures do", wants_reason=True)


def new(options: argparse.Namespace, screen: Screen) -> int:
    said = person(options)
    own = options.purpose in ("checkpoint", "attest")
    if own == bool(options.person):
        raise BadInput(
            f"a key for {options.purpose} is of {'the installation' if own else 'a person'}",
            hint="leave out --person" if own else "name the person with --person",
        )
    if options.public and options.out:
        raise BadInput("--public has a private half already", hint="leave out --out")
    signers = [signer_at(path) for path in options.key]
    wanted = KeyRequest(
        person=options.person,
        roles=options.role,
        custodians=options.custodian,
        purpose=options.purpose,
        days=options.days,
        threshold=options.threshold,
        admins=options.admins,
        public=options.public,
    )
    with opened(options, screen, "write") as session:
        made = new_key(session, wanted, options.out, signers, **said)
    return _told(screen, made)


def revoke(options: argparse.Namespace, screen: Screen) -> int:
    said = person(options)
    signers = [signer_at(path) for path in options.key]
    with opened(options, screen, "write") as session:
        made = key_changes.revoke(session, options.id, signers, **said)
    return _told(screen, made)


def _told(screen: Screen, made: KeyChange) -> int:
    code = code_of(made.receipt)
    if screen.json:
        screen.data({"key": made.key, "file": made.file if not code else "", "receipt": made.receipt})
    elif not code:
        screen.line(made.key)
        if made.file:
            screen.say(f"its private half is in {made.file}: keep it, show it to nobody, and make no second copy here")
    for note in made.receipt.errors:
        screen.fail(note.message)
    return code


def listing(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        keys = in_force(session)
        at = now(session)
    rows: list[dict[str, Any]] = []
    for key in keys.listed.keys if keys is not None else ():
        owner = keys.people.get(key.person) if keys is not None else None
        state = "revoked" if key.revoked_at else "valid" if key.is_live(at) else "not valid now"
        rows.append(
            {
                "key": key.id,
                "person": key.person,
                "roles": list(owner.roles) if owner else [],
                "custodians": list(owner.steward_of) if owner else [],
                "purpose": key.purpose,
                "state": state,
                "valid_until": key.valid_until,
                "public": key.public,
            }
        )
    if screen.json:
        screen.data(rows)
    elif keys is None:
        screen.say("there is no key list: this installation is one person's, and handles public data only")
    else:
        screen.table(
            ("key", "person", "roles", "steward of", "purpose", "state", "until"),
            [
                (
                    row["key"][:16],
                    row["person"] or "-",
                    ", ".join(row["roles"]) or "-",
                    ", ".join(row["custodians"]) or "-",
                    row["purpose"],
                    row["state"],
                    row["valid_until"][:10],
                )
                for row in rows
            ],
        )
    return 0


def _few(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= 100):
        raise argparse.ArgumentTypeError("must be a number from 1 to 100")
    return int(text)


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 3650):
        raise argparse.ArgumentTypeError("must be a number of days, from 1 to 3650")
    return int(text)
