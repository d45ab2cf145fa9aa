"""The page on which people act: first what an operation would do, then the question, then where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from kfm.api.console.frame import console_page
from kfm.api.console.now_page import words_of
from kfm.api.console.parts import commands, json_link, section, state, table, version_link
from kfm.projections.pages.page_style import short_digest

if TYPE_CHECKING:
    from kfm.api.console.frame import Around
    from kfm.app.maintenance.status import DatasetStatus
    from kfm.app.serving.now_answers import NowAnswer

EVERYTHING = "global"
# Each operation in words, and the command that does the same.
OPERATIONS = {
    "promote": ("Promote: publish the newest version", "kfm publish {dataset}{to} --reason TEXT --key FILE"),
    "rollback": ("Roll back to an earlier version", "kfm rollback {dataset}{to} --reason TEXT --key FILE"),
    "freeze": ("Freeze: stop what would change it", "kfm freeze {dataset}{level} --reason TEXT --key FILE"),
    "thaw": ("Thaw: let it change again", "kfm thaw {dataset}{level} --reason TEXT --key FILE"),
    "run": ("Run: fetch, check and process anew", "kfm run {dataset}"),
}
LEVELS = {"": "as the command has it", "red": "red: nothing changes", "amber": "amber: nothing risky changes"}


class Choice(NamedTuple):
    """What the address of the page says is to be done."""

    operation: str = ""
    dataset: str = ""
    to: str = ""
    level: str = ""


def operations_page(told: NowAnswer, chosen: Choice, around: Around) -> bytes:
    def inside() -> Iterator[str]:
        yield from section("What to do", _form(told, chosen))
        yield '<section id="operation" aria-label="What would happen" tabindex="-1">'
        yield from _without_script(chosen)
        yield "</section>"
        headers = ("Dataset", "Published", "Newest version", "State", "Do")
        rows = map(_dataset, told.datasets)
        yield from section("Datasets", table("Datasets", headers, rows, "There is no dataset."))
        yield json_link("/v1/now")

    lead = '<p class="lead">First you see what would happen. Nothing changes before you say so.</p>'
    return console_page("Operations", around, list(inside()), "/operations", ("operations_form.js",), lead)


def _form(told: NowAnswer, chosen: Choice) -> Iterator[str]:
    names = [each.dataset for each in told.datasets]
    datasets = {name: name for name in names} | {EVERYTHING: "everything (freeze and thaw)"}
    yield '<form class="choose" id="operation-form" method="get" action="/operations">'
    yield _select("operation", "Operation", {name: words for name, (words, _) in OPERATIONS.items()}, chosen.operation)
    yield _select("dataset", "Dataset", datasets, chosen.dataset)
    yield (
        f'<label>Version, if not the usual one <input name="to" value="{escape(chosen.to)}" maxlength="71" '
        'autocomplete="off" spellcheck="false"></label>'
    )
    yield _select("level", "Level of a freeze or thaw", LEVELS, chosen.level)
    # Without a name it is in no address: a reason is for the ledger.
    yield '<label>Reason, for the ledger <input id="reason" maxlength="500" autocomplete="off"></label>'
    yield "<button>Show what would happen</button></form>"


def _select(name: str, words: str, choices: dict[str, str], chosen: str) -> str:
    options = "".join(
        f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>{escape(said)}</option>'
        for value, said in choices.items()
    )
    return f'<label>{words} <select name="{name}">{options}</select></label>'


def _without_script(chosen: Choice) -> Iterator[str]:
    yield (
        '<p>To act here, this page needs script and, where there is a key list, a <a href="/my-key">key of this '
        "browser</a>. The same is done with:</p>"
    )
    wanted = [chosen.operation] if chosen.operation in OPERATIONS else list(OPERATIONS)
    yield from commands(_typed(name, chosen) for name in wanted)


def _typed(operation: str, chosen: Choice) -> str:
    everything = chosen.dataset == EVERYTHING and operation in ("freeze", "thaw")
    typed = OPERATIONS[operation][1].format(
        dataset="" if everything else chosen.dataset if chosen.dataset not in ("", EVERYTHING) else "DATASET",
        to=f" --to {chosen.to}" if chosen.to else "",
        level=f" --level {chosen.level}" if chosen.level else "",
    )
    return " ".join(typed.split())


def _dataset(each: DatasetStatus) -> tuple[str, ...]:
    offered = ["run", *(["promote"] if each.is_behind else []), *(["rollback"] if each.is_public else [])]
    offered.append("thaw" if each.is_frozen or each.is_amber else "freeze")
    ways = ", ".join(_way(name, each.dataset) for name in offered)
    return (
        escape(each.dataset),
        version_link(each.dataset, each.published),
        "the same" if each.version == each.published else short_digest(each.version),
        " ".join(map(state, words_of(each))),
        ways,
    )


def _way(operation: str, dataset: str) -> str:
    address = "/operations?" + urlencode({"operation": operation, "dataset": dataset})
    words = {"rollback": "roll back"}.get(operation, operation)
    return f'<a href="{escape(address)}" aria-label="{words} {escape(dataset)}">{words}</a>'
