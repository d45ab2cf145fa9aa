"""kfm token: with which tokens people read over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.access_tokens import tokens
from kfm.app.authority.keyring import in_force, signer_at
from kfm.app.stewards.token_changes import new_token, revoke_token
from kfm.cli.render import Screen
from kfm.cli.session import code_of, one_line, opened, person

if TYPE_CHECKING:
    import argparse

    from kfm.app.stewards.token_changes import TokenChange
    from kfm.cli.parser import Parser


def arguments(parser: Parser) -> None:
    made = parser.command(
        "new",
        new,
        "Make a token for a person, and print it once",
        "The person sends it to `kfm serve` as `Authorization: Bearer TOKEN`, and reads as the key list says. It lets\n"
        "nobody approve anything. An admin signs it, or the person whose it is.",
    )
    made.add_argument("--person", required=True, metavar="NAME", help="whose it is: a person of the key list")
    made.add_argument("--days", type=_days, default=90, metavar="N", help="how long it is valid (default: 90)")
    made.add_argument("--note", default="", metavar="TEXT", help="what it is for; shown by `kfm token list`")
    made.add_key()
    made.add_person("who; proves nothing, the signature does", reason="a new token")
    parser.command("list", listing, "List tokens, their owners and their ends; never the tokens themselves")
    revoked = parser.command("revoke", revoke, "Revoke a token: servers refuse it from their next request on")
    revoked.add_argument("id", metavar="ID", help="the token's id, or 8 digits or more of its start")
    revoked.add_key()
    revoked.add_person("who; proves nothing, the signature does", wants_reason=True)


def new(options: argparse.Namespace, screen: Screen) -> int:
    said, note = person(options), one_line("--note", options.note)
    signers = [signer_at(path) for path in options.key]
    with opened(options, screen, "write") as session:
        made = new_token(session, options.person, options.days, note, signers, **said)
    return _told(screen, made)


def revoke(options: argparse.Namespace, screen: Screen) -> int:
    said = person(options)
    signers = [signer_at(path) for path in options.key]
    with opened(options, screen, "write") as session:
        made = revoke_token(session, options.id, signers, **said)
    return _told(screen, made)


def _told(screen: Screen, made: TokenChange) -> int:
    code = code_of(made.receipt)
    if screen.json:
        screen.data(
            {
                "token": made.secret,
                "id": made.token.id,
                "person": made.token.person,
                "ends_at": made.token.ends_at,
                "receipt": made.receipt,
            }
        )
    elif not code and made.secret:
        screen.line(made.secret)
        screen.say(
            f"token {made.token.id} of {made.token.person} is valid until {made.token.ends_at}; it is shown only now"
        )
    elif not code:
        screen.line(made.token.id)
    for note in made.receipt.errors:
        screen.fail(note.message)
    return code


def listing(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        keys = in_force(session)
        kept = list(tokens(session, keys)) if keys is not None else []
    if screen.json:
        screen.data(
            [
                {
                    "id": each.token.id,
                    "person": each.token.person,
                    "note": each.token.note,
                    "state": each.state,
                    "made_at": each.token.made_at,
                    "ends_at": each.token.ends_at,
                    "revoked_at": each.token.revoked_at,
                    "signed_by": each.by,
                }
                for each in kept
            ]
        )
    elif keys is None:
        screen.say("there is no key list, so there are no tokens: one user reads over loopback; see `kfm keys new`")
    elif not kept:
        screen.say("there are no tokens: make one with `kfm token new --person NAME --key FILE`")
    else:
        screen.table(
            ("token", "person", "state", "until", "signed by", "for"),
            [
                (
                    each.token.id,
                    each.token.person,
                    each.state,
                    each.token.ends_at[:10],
                    each.by or "-",
                    each.token.note or "-",
                )
                for each in kept
            ],
        )
    return 0


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 366):
        import argparse

        raise argparse.ArgumentTypeError("must be a number of days, from 1 to 366")
    return int(text)
