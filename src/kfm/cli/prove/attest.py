"""kfm attest: sign statements about a version."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.app.runs.run_exports import write_file
from kfm.cli.prove.verify import VERSION, _version
from kfm.cli.render import Screen
from kfm.cli.session import Tally, known_dataset, opened, person, settings
from kfm.errors import Refused

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


def arguments(parser: Parser) -> None:
    parser.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    parser.add_argument("--version", dest="of", default="", metavar="VERSION", help=VERSION)
    parser.add_argument("--out", default="", metavar="FILE", help="write the envelopes here too, a line each")
    parser.add_person(reason="signed by an operator")
    parser.set_defaults(handler=attest, reports=True)


def attest(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.maintenance.maintenance_records import record
    from kfm.app.provenance.attestation import attest, bundle
    from kfm.app.runs.execution import Outcome, settle

    resolved, who, tally = settings(options), person(options), Tally(screen)
    name = known_dataset(options, screen, resolved, options.dataset)
    if not resolved.config.attest.sign_with:
        raise Refused("there is no key to attest with", hint="set attest.sign_with in kfm.yml: see `kfm keys new`")
    with opened(options, screen, "write", resolved) as session:
        version = _version(session, name, options.of)
        receipts = []
        if session.state.ledger.version(name, version) is not None:
            receipts = [record(session, "attest", {"dataset": name, "version": version}, dataset=name, **who)]
        stated = [key.partition("/")[2] for key in attest(session, name, version)]
        if options.out:
            write_file(os.path.abspath(options.out), bundle(session, name, version))
        settle(session, Outcome(receipts), tally)
    if screen.json:
        screen.data({"dataset": name, "version": version, "statements": stated, "written": options.out})
    else:
        screen.table(("statement", "of the run"), [each.split("/", 1) for each in stated])
        screen.say(f"{len(stated)} statements about {name} {version[:19]}")
    return tally.code
