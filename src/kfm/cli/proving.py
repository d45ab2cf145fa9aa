"""kfm audit, attest, verify: what proves the rest, for us and for those outside."""

from __future__ import annotations

import argparse
import os

from kfm.cli.opening import opened, settings
from kfm.cli.render import Screen


def audit_verify(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.house.auditing import audit, audit_export, given_key, read_note, verifiers

    held = [read_note(path) for path in options.checkpoint]
    if options.file and options.key:
        found = audit_export(options.file, *given_key(options.key), held)
    else:
        with opened(options, screen, "read") as house:
            if options.file:
                found = audit_export(options.file, *verifiers(house, ""), held)
            else:
                found = audit(house, options.key, held)
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
        screen.say("set ledger.sign_with in kfm.yml, so that what was cut off or written anew can be seen")
    return found.exit_code


def audit_prove(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.house.auditing import prove

    with opened(options, screen, "read") as house:
        screen.data(prove(house, options.entry))
    return 0


def audit_consistency(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.house.auditing import consistency

    with opened(options, screen, "read") as house:
        screen.data(consistency(house, options.old, options.new))
    return 0


def audit_export(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.house.auditing import EXPORT, export, export_key, sign_head
    from kfm.house.exporting import write_file

    resolved = settings(options)
    signs = bool(resolved.config.ledger.sign_with) and not options.stdout
    with opened(options, screen, "write" if signs else "read", resolved) as house:
        if signs:
            sign_head(house)
        with house.state.reading():
            if options.stdout:
                screen.raw(export(house))
                return 0
            path = options.out or EXPORT
            size = write_file(resolved.at(path) if not options.out else os.path.abspath(path), export(house))
        key = export_key(house)
    if screen.json:
        screen.data({"written": path, "bytes": size, "key": key})
    else:
        screen.line(path)
        if key:
            screen.say(f"verify it with: python tools/verify_ledger.py {path} --key {key}")
    return 0
