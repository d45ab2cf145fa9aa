"""kfm audit, attest, verify: what proves the rest, for us and for those outside."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from kfm.cli.opening import known_dataset, opened, settings
from kfm.cli.render import Screen
from kfm.errors import BadInput
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.app.core.session import Session


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
        screen.say("set ledger.sign_with in kfm.yml, so that what was cut off or written anew can be seen")
    return found.exit_code


def audit_prove(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.provenance.audit import prove

    with opened(options, screen, "read") as session:
        screen.data(prove(session, options.entry, openings=options.open))
    return 0


def audit_consistency(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.provenance.audit import consistency

    with opened(options, screen, "read") as session:
        screen.data(consistency(session, options.old, options.new))
    return 0


def audit_export(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.provenance.audit import EXPORT, export, export_key, sign_head
    from kfm.app.runs.run_exports import write_file

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


def attest(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.provenance.attestation import attest, bundle
    from kfm.app.runs.run_exports import write_file
    from kfm.errors import Refused

    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset)
    if not resolved.config.attest.sign_with:
        raise Refused("there is no key to attest with", hint="set attest.sign_with in kfm.yml: see `kfm keys new`")
    with opened(options, screen, "write", resolved) as session:
        version = _version(session, name, options.of)
        stated = [key.partition("/")[2] for key in attest(session, name, version)]
        if options.out:
            write_file(os.path.abspath(options.out), bundle(session, name, version))
    if screen.json:
        screen.data({"dataset": name, "version": version, "statements": stated, "written": options.out})
    else:
        screen.table(("statement", "of the run"), [each.split("/", 1) for each in stated])
        screen.say(f"{len(stated)} statements about {name} {version[:19]}")
    return 0


def verify(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.core.trust import given
    from kfm.app.provenance.attestation import is_bundle, verify, verify_bundle, verify_file, worst

    resolved = None if options.key else settings(options)
    if os.path.isfile(options.what) and not is_bundle(options.what):
        about = options.what
        with opened(options, screen, "read", resolved or settings(options)) as session:
            keys = given(options.key) if options.key else session.trust.believed("attest")
            checks = verify_file(session, about, keys)
    elif os.path.isfile(options.what):
        with open(options.what, "rb") as file:
            lines = file.readlines()
        if resolved is None:
            keys = given(options.key)
        else:
            with opened(options, screen, "read", resolved) as session:
                keys = session.trust.believed("attest")
        checks, about = verify_bundle(lines, keys), options.what
    else:
        resolved = resolved or settings(options)
        about = known_dataset(options, screen, resolved, options.what)
        with opened(options, screen, "read", resolved) as session:
            keys = given(options.key) if options.key else session.trust.believed("attest")
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
    """What was asked for, or what is published, or else what is processed."""
    for ref in (f"published/{dataset}", f"processed/{dataset}"):
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
