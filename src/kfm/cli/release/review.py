"""kfm review: work that is pending review by a person, and that person's decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.effective_levels import shown_levels
from kfm.app.authority.keyring import signer_at
from kfm.app.runs.change_requests import find, sign
from kfm.app.runs.execution import Request, work
from kfm.app.runs.review_queue import IN_TABLES, items
from kfm.cli.render import Screen
from kfm.cli.run_report import show_runs, tell_moves
from kfm.cli.session import Tally, opened, person
from kfm.errors import BadInput

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from kfm.app.runs.execution import Tell
    from kfm.app.session.session import Session
    from kfm.cli.parser import Parser
    from kfm.model.records import Receipt


def arguments(parser: Parser) -> None:
    listed = parser.command("list", listing, "List work that is pending review, oldest first")
    listed.add_argument("--all", action="store_true", help="decided and expired work, too")
    shown = parser.command("show", show, "Show one item, with its evidence")
    shown.add_argument("id", metavar="ID", help="its id, or the start of it")
    approved = parser.command(
        "approve",
        approve,
        "Sign a change request, exactly as it was made",
        "The last missing signature carries it out, at once.",
    )
    rejected = parser.command(
        "reject",
        reject,
        "Reject a change request, for good",
        "One person is enough: a steward of that custodian, or of its community.",
    )
    deployed = parser.command(
        "deploy",
        deploy_rules,
        "Sign what `review:` in kfm.yml says today",
        "A lower word than before opens: two stewards who did not request it must approve.",
    )
    deployed.add_person(wants_reason=True)
    deployed.add_signing()
    for one in (approved, rejected):
        one.add_argument("id", metavar="ID", help="the change request's id, or the start of it")
        one.add_key()
    approved.add_person("who; proves nothing, the signatures do", reason="approved as requested")
    rejected.add_person("who; proves nothing, the signatures do", wants_reason=True)


def deploy_rules(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.cli.operation import deploy
    from kfm.cli.session import settings
    from kfm.model import refs

    return deploy(options, screen, settings(options), "review", "review", refs.REVIEW)


def listing(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        found = items(session, everything=options.all)
    if screen.json:
        screen.data([_plain(item) for item in found])
    elif not found:
        screen.say("nothing is pending review")
    else:
        screen.table(
            ("id", "kind", "dataset", "what", "state", "asked by", "until", "missing"),
            [(i.id, i.kind, i.dataset, i.what, i.state, i.asked_by, i.until[:16], ", ".join(i.missing)) for i in found],
        )
    return 0


def show(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.review_queue import item

    with opened(options, screen, "read") as session:
        found = item(session, options.id)
    if screen.json:
        screen.data({**_plain(found), "more": found.more})
        return 0
    plain = [(name, str(value)) for name, value in _plain(found).items() if value and name != "missing"]
    screen.fields([*plain, *(("missing", rule) for rule in found.missing)])
    more = {**found.more, "params": _without_tables(found.more.get("params"))}  # levels and moves have their own
    screen.fields([(name, str(value)) for name, value in more.items() if value and not isinstance(value, list)])
    for name, rows in found.more.items():
        if isinstance(rows, list) and rows:
            screen.line()
            columns = ("line" if column == "rows" else column for column in rows[0])
            screen.table(tuple(columns), [tuple(row.values()) for row in rows])
            screen.say(f"{len(rows)} {name}")
    return 0


def _without_tables(params: dict[str, str] | None) -> dict[str, str]:
    return {name: value for name, value in (params or {}).items() if name not in IN_TABLES}


def _plain(item: object) -> dict[str, object]:
    import msgspec

    plain: dict[str, object] = msgspec.to_builtins(item)
    plain.pop("more")
    return plain


def approve(options: argparse.Namespace, screen: Screen) -> int:
    return _sign(options, screen)


def reject(options: argparse.Namespace, screen: Screen) -> int:
    return _sign(options, screen)


def _sign(options: argparse.Namespace, screen: Screen) -> int:
    said = person(options)
    if len(options.key) != 1:
        raise BadInput("a person signs with one key", hint="name your private key with --key FILE")
    signer = signer_at(options.key[0])

    def do(session: Session, _tell: Tell) -> Iterable[Receipt]:
        for line in shown_levels(find(session, options.id).request.params):
            screen.say(f"signed with this request: {line}")
        return sign(session, options.subcommand, options.id, signer, **said)

    with opened(options, screen, "write") as session:
        tally = Tally(screen)
        outcome = work(session, [Request(options.id, do)], tally)
        show_runs(session, screen, tally, outcome)
        if not screen.json:
            for receipt in outcome.receipts:
                tell_moves(session, screen, receipt)
        return tally.code
