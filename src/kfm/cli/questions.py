"""What can be asked about a thing: how it came about, why it is not otherwise, and whether it can be made again."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kfm.cli.governing import Make

COMMANDS = ("explain", "reproduce", "why-not")
THING = "a dataset, a version (its digest or the start of it), a public file, a ref, an object or a run"


FORMATS = ("text", "json", "html", "mermaid")


def add(commands: Any, make: Make) -> None:
    explain = make(
        commands,
        "explain",
        "explaining:explain",
        "Tell how something was produced, in sentences that each cite a digest; changes nothing",
        "Told is what everybody may know: of protected data no address, no name and no value.\n"
        "exit: 0 told, 3 nothing is called so, 65 something that is recorded is missing, altered or leads in a circle",
    )
    explain.add_argument("thing", metavar="THING", help=THING)
    explain.add_argument(
        "--format", choices=FORMATS, default="text", help="default: text; html is one page that needs no network"
    )
    explain.add_argument("--out", default="", metavar="FILE", help="into this file instead of stdout")

    why_not = make(
        commands,
        "why-not",
        "explaining:why_not",
        "Tell why something was not run, made, shown or published, and what to type about it; changes nothing",
        "Why it was a NOOP, is frozen, held, blocked, masked, late, unfinished, superseded or not delivered, or\n"
        "waits for somebody to approve it. exit: 0 told, also if nothing is in the way; 3 nothing is called so;\n"
        "with --exit-code as the first thing in the way: 10 NOOP, 5 frozen, 4 a gate, 7 an approval, 6 at work,\n"
        "3 held, 1 failed, 69 not delivered",
    )
    why_not.add_argument("thing", metavar="THING", help=THING)
    why_not.add_argument(
        "--exit-code", action="store_true", help="exit with a code of its own if something is in the way"
    )

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
