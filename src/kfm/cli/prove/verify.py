"""kfm verify: check a version, a public folder or file, or a file of attestations, without a network."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.app.session.session import trust_of
from kfm.app.session.trust import given
from kfm.cli.render import Screen
from kfm.cli.session import known_dataset, opened, settings
from kfm.errors import BadInput
from kfm.model import refs
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kfm.app.session.session import Session
    from kfm.app.session.trust import Trusted
    from kfm.app.stewards.evidence import Check
    from kfm.cli.parser import Parser


MORE = """\
For a version: every object, receipt and signed statement about it, the signed lists that say which must be
there, its entry in the ledger, and the exported files of its dataset; `kfm doctor --deep` compares those that
datasets share, too. For a public folder: everything in it, with --key and nothing else; a second --key names
the key of the ledger, as `kfm audit verify` writes it.
exit: 0 verified, 65 something was altered or removed, 67 badly signed, 68 not attested or not covered"""


VERSION = "its digest, the start of it, `processed` or `published` (default: published, else processed)"


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "what",
        metavar="DATASET",
        help="its name in kfm.yml, a public folder, a file that was published, or a file of envelopes",
    )
    parser.add_argument(
        "--key", action="append", default=[], metavar="HEX", help="the public key to trust, instead of our own"
    )
    parser.add_argument("--version", dest="of", default="", metavar="VERSION", help=VERSION)
    parser.set_defaults(handler=verify)


def verify(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.provenance.attestation import is_bundle, verify, verify_bundle, verify_file, worst
    from kfm.app.provenance.public_folder import is_public_folder, verify_folder

    what, about = options.what, options.what
    typed = [key for key in options.key if "+" not in key]
    if typed[1:]:
        raise BadInput("--key names two keys for attestations", hint="give one, and the ledger's as NAME+HASH+KEY")
    if is_public_folder(what):
        keys = given(typed[0]) if typed else _own_keys(options, screen)
        checks = verify_folder(what, keys, [key for key in options.key if "+" in key])
    elif os.path.isfile(what) and is_bundle(what):
        with open(what, "rb") as file:
            lines = file.readlines()
        keys = given(typed[0]) if typed else _own_keys(options, screen)
        checks = verify_bundle(lines, keys)
    else:
        resolved = settings(options)
        if not os.path.isfile(what):
            about = known_dataset(options, screen, resolved, what)
        with opened(options, screen, "read", resolved) as session:
            keys = given(typed[0]) if typed else trust_of(session).believed("attest")
            if os.path.isfile(what):
                checks = verify_file(session, about, keys)
            else:
                checks = verify(session, about, _version(session, about, options.of), keys)
    code = worst(checks)
    if screen.json:
        screen.data({"about": about, "ok": not code, "vouched": keys.vouched, "checks": checks})
        return code
    screen.table(("checked", "verdict", "found"), [(each.what, each.state, each.found) for each in checks])
    if keys.public and not keys.vouched:
        screen.say("no key list vouches for the key: only the settings, or what you typed, say that it is ours")
    screen.say(_verdict(checks, code))
    return code


def _own_keys(options: argparse.Namespace, screen: Screen) -> Trusted:
    """Return the keys that the installation here trusts."""
    with opened(options, screen, "read", settings(options)) as session:
        return trust_of(session).believed("attest")


def _verdict(checks: Sequence[Check], code: int) -> str:
    """Return the last line: whether everything was verified, and what could not be."""
    from kfm.app.provenance.attestation import EXIT

    if code:
        return f"{sum(EXIT[each.state] != 0 for each in checks)} of {len(checks)} are not so"
    left = [each.what for each in checks if each.state == "unverified"]
    return f"verified, except: {', '.join(left)}" if left else "verified"


def _version(session: Session, dataset: str, text: str) -> str:
    """Return the version that was named; else the published one, else the processed one."""
    for ref in (refs.published(dataset), refs.processed(dataset)):
        if not text and session.state.refs.at(ref):
            return session.state.refs.at(ref)
    if not text:
        raise BadInput(f"{dataset} has no version yet", hint=f"`kfm run {dataset}` makes one")
    if text in ("processed", "published"):
        found = [session.state.refs.at(f"{text}/{dataset}")]
    else:
        start = text if text.startswith("sha256:") else f"sha256:{text}"
        found = [key.partition("@")[2] for key, _ in session.tables.scan("versions", f"{dataset}@{start}", limit=2)]
    if len(found) != 1 or not found[0]:
        raise BadInput(
            f"{dataset} has {'more than one' if found[1:] else 'no'} version {printable(text)}",
            hint=f"see `kfm refs history processed/{dataset}`",
        )
    return found[0]
