"""kfm verify: check a version, a public file or a file of attestations, without a network."""

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

    from kfm.app.session.session import Session
    from kfm.cli.parser import Parser


MORE = """\
For a version: every object, every signed statement about it, and its entry in the ledger.
exit: 0 verified, 65 something was altered, 67 badly signed, 68 not attested or not covered"""


VERSION = "its digest, the start of it, `processed` or `published` (default: published, else processed)"


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "what", metavar="DATASET", help="its name in kfm.yml, a file that was published, or a file of envelopes"
    )
    parser.add_argument("--key", default="", metavar="HEX", help="the public key to trust, instead of our own")
    parser.add_argument("--version", dest="of", default="", metavar="VERSION", help=VERSION)
    parser.set_defaults(handler=verify)


def verify(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.provenance.attestation import is_bundle, verify, verify_bundle, verify_file, worst

    resolved = None if options.key else settings(options)
    if os.path.isfile(options.what) and not is_bundle(options.what):
        about = options.what
        with opened(options, screen, "read", resolved or settings(options)) as session:
            keys = given(options.key) if options.key else trust_of(session).believed("attest")
            checks = verify_file(session, about, keys)
    elif os.path.isfile(options.what):
        with open(options.what, "rb") as file:
            lines = file.readlines()
        if resolved is None:
            keys = given(options.key)
        else:
            with opened(options, screen, "read", resolved) as session:
                keys = trust_of(session).believed("attest")
        checks, about = verify_bundle(lines, keys), options.what
    else:
        resolved = resolved or settings(options)
        about = known_dataset(options, screen, resolved, options.what)
        with opened(options, screen, "read", resolved) as session:
            keys = given(options.key) if options.key else trust_of(session).believed("attest")
            checks = verify(session, about, _version(session, about, options.of), keys)
    code = worst(checks)
    if screen.json:
        screen.data({"about": about, "ok": not code, "vouched": keys.vouched, "checks": checks})
        return code
    screen.table(("checked", "verdict", "found"), [(each.what, each.state, each.found) for each in checks])
    if keys.public and not keys.vouched:
        screen.say("no key list vouches for the key: only the settings, or what you typed, say that it is ours")
    screen.say("verified" if not code else f"{sum(each.state != 'ok' for each in checks)} of {len(checks)} are not so")
    return code


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
