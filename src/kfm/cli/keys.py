"""kfm keys: who is who, and by which keys that is known."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from kfm.cli.opening import code_of, opened, person
from kfm.cli.render import Screen
from kfm.errors import BadInput

if TYPE_CHECKING:
    from kfm.app.core.keyring import Made


def new(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.core.keyring import Wanted, new_key, signer_at

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
    wanted = Wanted(
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
    from kfm.app.core import keyring

    said = person(options)
    if not said["reason"].strip():
        raise BadInput("a key is revoked for a reason", hint="give it with --reason")
    signers = [keyring.signer_at(path) for path in options.key]
    with opened(options, screen, "write") as session:
        made = keyring.revoke(session, options.id, signers, **said)
    return _told(screen, made)


def _told(screen: Screen, made: Made) -> int:
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
    from kfm.app.core.keyring import in_force, now

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
