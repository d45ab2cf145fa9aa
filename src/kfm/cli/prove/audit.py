"""kfm audit: verify and export the ledger, and prove single entries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.app.provenance.audit import EXPORT, consistency, export, export_key, prove, sign_head
from kfm.app.runs.run_exports import write_file
from kfm.cli.render import Screen
from kfm.cli.session import opened, settings

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


def arguments(parser: Parser) -> None:
    verified = parser.command(
        "verify",
        audit_verify,
        "Verify the whole ledger: chain, tree, receipts, signed checkpoints",
        "exit: 0 intact, 65 tampered, 66 cut off or forked, 67 badly signed, 68 not covered by a checkpoint",
    )
    verified.add_argument("file", nargs="?", default="", metavar="FILE", help="an export (default: the ledger itself)")
    verified.add_argument(
        "--checkpoint", action="append", default=[], metavar="FILE", help="one that was kept elsewhere; may be repeated"
    )
    verified.add_argument("--key", default="", metavar="KEY", help="name+hint+key to trust, instead of our own")
    proved = parser.command("prove", audit_prove, "Write a proof to stdout that an entry is in the ledger")
    proved.add_argument("entry", metavar="RUN", help="the run's id, the start of it, `last`, or the entry's number")
    proved.add_argument(
        "--open", action="store_true", help="also what the entry only commits to, if the custodian's key is at hand"
    )
    growth = parser.command(
        "consistency",
        audit_consistency,
        "Write a proof to stdout that an older ledger is the beginning of a newer one",
    )
    growth.add_argument("old", metavar="OLD", help="how many entries it had, or a file with its checkpoint")
    growth.add_argument("new", nargs="?", default="", metavar="NEW", help="the same (default: the last checkpoint)")
    exported = parser.command(
        "export",
        audit_export,
        "Write the ledger to docs/reports/audit/data_provenance_ledger.json next to kfm.yml",
        "Its lines are the entries byte for byte. It signs a checkpoint first, if ledger.sign_with is set.",
    )
    exported.add_argument("--out", default="", metavar="FILE", help="into this file instead")
    exported.add_argument("--stdout", action="store_true", help="to stdout instead; signs nothing")


def audit_verify(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.provenance.audit import audit, audit_export, given_key, read_note, verifiers

    held = [read_note(path) for path in options.checkpoint]
    if options.file and options.key:
        found = audit_export(options.file, *given_key(options.key), held)
    else:
        with opened(options, screen, "read") as session:
            if options.file:
                found = audit_export(options.file, *verifiers(session, ""), held)
            else:
                found = audit(session, options.key, held)
    if screen.json:
        screen.data(found)
        return found.exit_code
    screen.fields(
        (
            ("verdict", found.verdict),
            ("why", found.why),
            ("entries", found.entries),
            ("covered", f"{found.covered} by {found.checkpoints} signed checkpoints"),
            ("root", found.root),
            ("first bad", found.first_bad or ""),
            *(("key", key) for key in found.keys),
        )
    )
    if found.passed_over:
        screen.say(f"{found.passed_over} checkpoints were passed over: only a revoked key signed them")
    if found.keys and not found.vouched:
        screen.say("no key list vouches for this key: give auditors its text by another way than the ledger")
    if found.verdict == "unverifiable" and not found.checkpoints:
        screen.say("set ledger.sign_with in kfm.yml, so that a ledger that was cut or rewritten can be detected")
    return found.exit_code


def audit_prove(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        screen.data(prove(session, options.entry, openings=options.open))
    return 0


def audit_consistency(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        screen.data(consistency(session, options.old, options.new))
    return 0


def audit_export(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    signs = bool(resolved.config.ledger.sign_with) and not options.stdout
    with opened(options, screen, "write" if signs else "read", resolved) as session:
        if signs:
            sign_head(session)
        with session.state.reading():
            if options.stdout:
                screen.raw(export(session))
                return 0
            path = options.out or EXPORT
            size = write_file(resolved.at(path) if not options.out else os.path.abspath(path), export(session))
        key = export_key(session)
    if screen.json:
        screen.data({"written": path, "bytes": size, "key": key})
    else:
        screen.line(path)
        if key:
            screen.say(f"verify it with: python tools/verify_ledger.py {path} --key {key}")
    return 0
