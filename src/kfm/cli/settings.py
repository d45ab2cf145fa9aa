"""kfm config, schema, completion: what the program knows about itself."""

from __future__ import annotations

import argparse
import os

from kfm.cli.render import Screen
from kfm.errors import BadInput


def config_show(options: argparse.Namespace, screen: Screen) -> int:
    from kfm import config
    from kfm.contract.documents import dotted

    resolved = config.load(options.config, os.environ)
    origins = resolved.origins
    rows = [
        (key, value, origins[key])
        for key, value in ((dotted(path), value) for path, value in config.leaves(resolved.shown(), ()))
        if options.resolved or origins[key] != "default"
    ]
    if screen.json:
        settings = {key: {"value": value, "origin": origin} for key, value, origin in rows}
        screen.data({"path": resolved.path, "root": resolved.root, "settings": settings})
        return 0
    screen.say(f"read from {resolved.path}")
    screen.table(("setting", "from", "value"), [(key, origin, _text(value)) for key, value, origin in rows])
    return 0


def _text(value: object) -> str:
    from kfm.contract.canonical import canonical

    return value if isinstance(value, str) else canonical(value).decode()


def completion(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.cli.completion import script
    from kfm.cli.parser import build

    screen.out.write(script(options.shell, build()))
    return 0


def schema(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.contract import schemas

    raise BadInput(f"{options.name} {screen} {schemas}")
