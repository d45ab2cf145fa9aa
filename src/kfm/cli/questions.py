"""What can be asked about a thing: how it came about, why it is not otherwise, and whether it can be made again."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kfm.cli.governing import Make

COMMANDS = ("reproduce",)
THING = "a dataset, a version (its digest or the start of it), a public file, a ref, an object or a run"


def add(commands: Any, make: Make) -> None:
    reproduce = make(
        commands,
        "reproduce",
        "explaining:reproduce",
        "Do a run again from what was recorded of it, and compare the bytes; changes nothing",
        "Done in a scratch house. Data under a key need that key; what is told is names and digests, never a value.\n"
        "exit: 0 byte-identical, 3 other bytes, with the first thing that differs, 4 a key is not at hand,\n"
        "65 bytes that were recorded are missing or altered",
    )
    reproduce.add_argument("thing", metavar="VERSION", help="a version, the run that made it, or a dataset")
