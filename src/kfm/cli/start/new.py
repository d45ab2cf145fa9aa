"""kfm new: write a module of code with its tests, as a starting point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.cli.session import settings
from kfm.cli.start.init import write_all
from kfm.cli.start.new_templates import KINDS as WRITTEN
from kfm.errors import BadInput
from kfm.model.names import check_id

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen


KINDS = ("updater", "job", "connector")


MORE = """\
Into updaters/ and tests/ next to kfm.yml; if one of the files exists, nothing is written. The tests pass
as they are: run `pytest`. The command shows what to add to kfm.yml, and does not add it."""


def arguments(parser: Parser) -> None:
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help="updater, job or connector")
    parser.add_argument("name", metavar="NAME", help="of the dataset it builds, such as rain-gauges")
    parser.set_defaults(handler=new)


def new(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    names = _names(options.name)
    module, test, declared = (text.format(**names) for text in WRITTEN[options.kind])
    files = {names["path"]: module, f"tests/test_{names['module']}.py": test}
    written = write_all(resolved.root, files, beside=())
    if screen.json:
        screen.data({"written": written, "declare": declared})
        return 0
    for path in written:
        screen.line(path)
    screen.say(f"next: `pytest` tries it; to run it, add this to `datasets:` in {resolved.path}")
    screen.line()
    screen.text(declared)
    return 0


def _names(name: str) -> dict[str, str]:
    """Return the names of the parts: `rain-gauges` is the class RainGauges in updaters/rain_gauges.py."""
    import keyword
    import sys

    check_id(name, "dataset")
    words = name.replace("-", " ").replace("_", " ").replace(".", " ").split()
    module, kind = "_".join(words), "".join(word.capitalize() for word in words)
    if not kind.isidentifier() or keyword.iskeyword(module) or module in sys.stdlib_module_names:
        raise BadInput(f"{name} makes no name of a module", hint="begin with a letter, such as rain-gauges")
    return {
        "name": name,
        "module": module,
        "kind": kind,
        "path": f"updaters/{module}.py",
        "title": " ".join(words).capitalize(),
    }
