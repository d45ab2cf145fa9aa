"""kfm status: every dataset at a glance, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.withdrawals import withdrawn_line
from kfm.app.maintenance.status import status as look
from kfm.cli.render import clean, span
from kfm.cli.session import known_dataset, opened, settings
from kfm.errors import EXIT_CODES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from kfm.app.maintenance.status import DatasetStatus, NextStep, Status
    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen
    from kfm.model.reports.withdrawal import Withdrawal


SHOWN = 20  # how many datasets that need no attention are listed
STEPS = 10
_WAITS = {"sink": "", "thaw": "; waits for a thaw", "retry": "; the sink refused it"}
WIDTH = 80


MORE = """\
VERSION is the start of a digest, as `kfm diff` takes it; AGE is the age of that version. It is the public
version, or else the last one built; `newer built` says that the last one built is not public, `newer
withdrawn` that it was public and taken back: `kfm why-not` says how to publish it again. PUBLIC says
`withdrawn` if versions were public and none is now. Among many datasets those that need attention come
first, and the others are only counted. Protected data shows neither counts nor versions. exit: 0, or with
--check 3 if something is wrong: a dataset is late, its last run failed or was interrupted, something is
undelivered, a check fails."""


def arguments(parser: Parser) -> None:
    parser.add_argument("dataset", nargs="*", metavar="DATASET", help="its name in kfm.yml (default: all)")
    parser.add_argument("--all", action="store_true", help="list every dataset, however many there are")
    parser.add_argument("--check", action="store_true", help="exit 3 if something is wrong")
    parser.set_defaults(handler=status)


def status(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    names = list(dict.fromkeys(known_dataset(options, screen, resolved, name) for name in options.dataset))
    with opened(options, screen, "read", resolved) as session:
        found = look(session, names)
    if screen.json:
        screen.data(found)
    else:
        _tell(screen, found, everything=options.all or bool(names))
    return EXIT_CODES["refused" if options.check and _is_wrong(found) else "done"]


def _is_wrong(found: Status) -> bool:
    return not found.ok or any(
        each.freshness == "late" or each.is_failing or each.unfinished or each.dead or each.is_undelivered
        for each in found.datasets
    )


def _tell(screen: Screen, found: Status, *, everything: bool) -> None:
    listed = found.datasets if everything or len(found.datasets) <= SHOWN else _loudest(found.datasets)
    if found.datasets:
        screen.table(
            ("dataset", "version", "age", "public", "state"),
            [(each.dataset, _version(each), _age(each), _public(each), ", ".join(_words(each))) for each in listed],
            width=WIDTH,
        )
    if quiet := len(found.datasets) - len(listed):
        screen.line(f"… and {quiet} more; `kfm status --all` lists them")
    for each in listed:
        if each.withdrawal is not None:
            screen.text(_folded(_withdrawn(each.dataset, each.withdrawal)))
    for one in found.pending[:STEPS]:
        many = "1 run" if one.runs == 1 else f"{one.runs} runs"
        first = f"the first {one.run_id[:8]} of {clean(one.dataset)}"
        screen.text(_folded(f"pending: {one.sink}: {many} since {one.since}, {first}{_WAITS[one.waits_for]}"))
    screen.line()
    _tell_next(screen, found.next)
    for check in found.checks:
        if check.ok and check.check == "pages":
            screen.text(_folded(f"pages: {clean(check.found)}; {check.why}"))
    bad = [check for check in found.checks if not check.ok]
    for check in bad[:STEPS]:
        cure = f"; {clean(check.why)}" if check.why else ""
        screen.text(_folded(f"doctor: {clean(check.check)}: {clean(check.found)}{cure}"))
    if len(bad) > STEPS:
        screen.line(f"doctor: … and {len(bad) - STEPS} more")
    if not bad:
        screen.line("doctor: nothing wrong at a glance; `kfm doctor` looks closer")


def _tell_next(screen: Screen, steps: list[NextStep]) -> None:
    """Print the next commands as they are typed, a line each. The text behind # says why, and does no harm if it is
    pasted too."""
    screen.line("next:" if steps else "next: nothing to do")
    listed = _first_of_each(steps)[:STEPS]
    longest = min(max((len(each.command) for each in listed), default=0), 44)
    for each in listed:
        said = f"  {each.command:<{longest}}  # {each.why}"
        said = said if len(said) <= WIDTH else f"  {each.command}"
        screen.line(said if len(said) <= WIDTH else said.replace(" --", " \\\n      --", 1))
    if len(steps) > len(listed):
        screen.line(f"  … and {len(steps) - len(listed)} more; --json has them all")


def _first_of_each(steps: list[NextStep]) -> list[NextStep]:
    """Return a few datasets for each reason, so that a thousand of one kind do not hide one of another."""
    seen: dict[str, int] = {}
    found = []
    for each in steps:
        seen[each.why] = seen.get(each.why, 0) + 1
        if seen[each.why] <= 3:
            found.append(each)
    return found


def _withdrawn(dataset: str, one: Withdrawal) -> str:
    named = f"{dataset} {one.version.removeprefix('sha256:')[:12]}".rstrip()
    return clean(f"{named} was {withdrawn_line(one)}")


def _folded(text: str) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, WIDTH, subsequent_indent="  ")) + "\n"


def _loudest(found: list[DatasetStatus]) -> list[DatasetStatus]:
    loud = [each for each in found if not each.is_quiet]
    return (loud + [each for each in found if each.is_quiet])[:SHOWN]


def _version(each: DatasetStatus) -> str:
    shown = each.published if each.is_public else each.version
    if shown:
        return shown.removeprefix("sha256:")[:12]
    return "protected" if each.is_made else ""


def _age(each: DatasetStatus) -> str:
    return span(each.age_min)


def _public(each: DatasetStatus) -> str:
    return "yes" if each.is_public else "withdrawn" if each.is_withdrawn else "no"


def _words(each: DatasetStatus) -> Iterator[str]:
    if each.is_failing:
        yield each.last_outcome
    if each.is_public and each.is_behind:
        yield "newer built"
    if each.is_public and each.withdrawal is not None:
        yield "newer withdrawn"
    if each.late_min:
        yield f"late by {span(each.late_min)}"
    if each.is_frozen:
        yield "frozen"
    elif each.is_amber:
        yield "amber"
    if each.is_held and not (each.is_failing and each.last_outcome == "held"):
        yield f"{each.held_rows} held" if each.held_rows else "held"
    if each.unfinished:
        yield "interrupted"
    if each.at_work:
        yield "at work"
    if each.waiting:
        yield f"{each.waiting} waiting"
    if each.dead:
        yield f"{each.dead} dead"
    if each.is_undelivered:
        yield "undelivered"
    if not each.is_made and not each.is_failing:
        yield "never made"
    if each.is_quiet:
        yield "ok"
