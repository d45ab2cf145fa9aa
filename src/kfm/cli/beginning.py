"""kfm new: a module of code with its tests, to begin from."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from kfm.cli.governing import Make
    from kfm.cli.render import Screen

COMMANDS = ("new",)
KINDS = ("updater", "job", "connector")


def add(commands: Any, make: Make) -> None:
    parser = make(
        commands,
        "new",
        "beginning:new",
        "Write a module for an updater, a job or a connector, and its tests",
        "Into updaters/ and tests/ beside kfm.yml; a file that is there already stops it before anything is written.\n"
        "The tests pass as they are: run `pytest`. What to add to kfm.yml is told, and not added.",
    )
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help="updater, job or connector")
    parser.add_argument("name", metavar="NAME", help="of the dataset it makes, such as rain-gauges")


def new(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.cli.opening import settings
    from kfm.cli.skeletons import KINDS as WRITTEN
    from kfm.cli.starter import write_all

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
    """What the parts are called: `rain-gauges` is the class RainGauges in updaters/rain_gauges.py."""
    import keyword
    import sys

    from kfm.errors import BadInput
    from kfm.model.names import check_id

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
