"""kfm reproduce: repeat a run from its records, and compare the bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.provenance.reproduce import reproduce as do
from kfm.cli.render import Screen, short
from kfm.cli.session import settings
from kfm.errors import EXIT_CODES

if TYPE_CHECKING:
    import argparse

    from kfm.app.provenance.reproduce import Divergence, Reproduced
    from kfm.cli.parser import Parser


MORE = """\
It works in a temporary installation and changes nothing. It uses the settings that the dataset had when
the version was made, which KFM stores, and today's code, labels and masks. Encrypted data needs its key; the report has
names and digests, never a value. exit: 0 byte-identical, 3 other bytes, with the first difference, 4 a key
is not at hand, 65 recorded bytes are missing or altered"""


SETTINGS = {"recorded": "of the run", "today": "of kfm.yml"}


def arguments(parser: Parser) -> None:
    parser.add_argument("thing", metavar="VERSION", help="a version, the run that made it, or a dataset")
    parser.add_argument("--today", action="store_true", help="use the settings of kfm.yml, not those of the run")
    parser.set_defaults(handler=reproduce)


def reproduce(options: argparse.Namespace, screen: Screen) -> int:
    done = do(settings(options), options.thing, today=options.today)
    if screen.json:
        screen.data(done)
    else:
        _tell_reproduced(screen, done)
    if done.first is None:
        return EXIT_CODES["done"]
    return EXIT_CODES["corrupt" if done.first.what in ("input", "object") else "refused"]


def _tell_reproduced(screen: Screen, done: Reproduced) -> None:
    screen.fields(
        [
            ("run", done.run_id),
            ("dataset", done.dataset),
            ("version", done.version),
            ("settings", ", ".join(filter(None, (SETTINGS[done.configuration], short(done.config_hash))))),
            ("again", "byte-identical" if done.identical else done.made or "nothing"),
            ("first", _said(done.first) if done.first is not None else ""),
        ]
    )
    label = "otherwise, without effect" if done.identical else "otherwise"
    for one in done.others:
        screen.line(f"{label}: {_said(one)}")
    count = f"read {done.inputs}, performed {done.steps}"
    screen.say(
        f"{done.dataset}: byte-identical; {count}" if done.identical else f"{done.dataset}: not the same; {count}"
    )


def _said(one: Divergence) -> str:
    sides = f" ({short(one.recorded) or 'nothing'} then, {short(one.found)} now)" if one.found else ""
    return f"{one.what}: {one.message}{sides}"
