"""kfm doctor: check the configuration, the store and the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.maintenance.doctor import diagnose
from kfm.cli.render import Screen
from kfm.cli.session import settings
from kfm.errors import EXIT_CODES

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


def arguments(parser: Parser) -> None:
    parser.add_argument("--deep", action="store_true", help="read every object and compare it with its digest")
    parser.add_argument("--i-accept", action="store_true", help="weak storage is no failure, as if accepted in kfm.yml")
    parser.set_defaults(handler=doctor, closes=True)


def doctor(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    verdicts = diagnose(resolved, deep=options.deep)
    accepted = options.i_accept or resolved.config.accept_weak_storage
    bad = [v for v in verdicts if not v.ok and not (accepted and v.check.endswith(".filesystem"))]
    if screen.json:
        screen.data({"ok": not bad, "checks": verdicts})
    else:
        rows = [(v.check, "ok" if v.ok else "bad" if v in bad else "accepted", v.found, v.why) for v in verdicts]
        screen.table(("check", "verdict", "found", "why"), rows)
        screen.say("all is well" if not bad else f"{len(bad)} of {len(verdicts)} checks failed")
    return EXIT_CODES["refused"] if bad else EXIT_CODES["done"]
