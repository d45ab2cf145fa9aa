"""kfm labels: what may be shown of which source, why, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kfm.app.authority.effective_levels import shown_levels
from kfm.app.authority.keyring import in_force
from kfm.app.authority.label_change import clear_copies
from kfm.app.authority.labels_in_force import is_as_signed
from kfm.app.runs.change_requests import find, next_signature
from kfm.app.runs.execution import operation_request, work
from kfm.app.session.input_checks import one_line
from kfm.app.session.key_list_file import key_list_of_file
from kfm.app.stewards.label_edit import UNREADABLE, make_ready, params_of
from kfm.app.stewards.public_repair import take_back
from kfm.cli.operation import signer_of
from kfm.cli.render import Screen
from kfm.cli.session import Tally, opened, person, today
from kfm.errors import EXIT_CODES, BadInput, Denied
from kfm.model import refs

if TYPE_CHECKING:
    import argparse

    from kfm.app.stewards.label_edit import Change
    from kfm.app.stewards.label_report import SourceLabels
    from kfm.cli.parser import Parser


SOON = 60  # days before a consent ends that a warning appears


def arguments(parser: Parser) -> None:
    shown = parser.command("show", show, "Show what may be seen of each source, why, until when, and by which label")
    shown.add_argument(
        "name", nargs="?", metavar="DATASET", help="a dataset, or the address of a source (default: all)"
    )
    changed = parser.command(
        "set",
        change,
        "Change one label in the file that kfm.yml names",
        "Where there is a key list, the change is signed with --key: one steward for a change that shows less; two,\n"
        "and the community where there is one, for a change that shows more. They sign with `kfm review approve`, and\n"
        "the last signature changes the file. An empty text removes a field. Comments in the file stay.",
    )
    changed.add_argument("target", metavar="TARGET", help="dataset:NAME, source:ADDRESS, bytes:sha256:… or record:ID")
    changed.add_argument("--sensitivity", metavar="WORD", help="public, generalised, restricted or closed")
    changed.add_argument("--care", metavar="WORD", help="open, community or sacred")
    changed.add_argument("--custodian", metavar="NAME", help="whose key encrypts it, as in kfm.yml")
    changed.add_argument("--authority", metavar="TEXT", help="who decides about it")
    changed.add_argument(
        "--community-label", action="append", metavar="CODE", help="TK CS, BC P, …; may be repeated, replaces all"
    )
    changed.add_argument("--access", metavar="WORD", help="open, embargoed, restricted or closed")
    changed.add_argument("--resolution", type=int, choices=range(16), metavar="N", help="of H3, 0 to 15: the finest")
    changed.add_argument("--expires", metavar="DAY", help="the last day of the consent: 2027-06-30")
    changed.add_argument("--dry-run", action="store_true", help="only show the lines that would change")
    changed.add_signing()
    changed.add_person()


def show(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.stewards.label_report import source_labels, unused

    with opened(options, screen, "read") as session:
        rows = source_labels(session, options.name or "", today())
        lost = [] if options.name else unused(session)
        as_signed = is_as_signed(session)
    if screen.json:
        screen.data(rows)
    else:
        screen.table(
            ("dataset", "source", "level", "cell", "custodian", "until", "from", "why"),
            [
                (
                    row.dataset,
                    row.source,
                    row.level,
                    row.resolution,
                    ", ".join(row.custodians),
                    row.expires,
                    ", ".join(one.at for one in row.labels),
                    ", ".join(row.rules),
                )
                for row in rows
            ],
        )
    for row in rows:
        _tell(screen, row)
    if not as_signed:
        file = session.config.labels or "the file of labels"
        screen.say(f"{file} is not what is in force: what it opens does not hold")
    for one in lost:
        screen.say(f"{one.at}: this label is on {one.on}, and nothing here is called that; is it a slip of the pen?")
    return 0


def _tell(screen: Screen, row: SourceLabels) -> None:
    named = f"{row.dataset}/{row.source}" if row.source else row.dataset
    if row.days_left is not None and row.days_left < 0:
        screen.say(f"{named}: the consent ended on {row.expires}; it is closed until the custodian renews it")
    elif row.days_left is not None and row.days_left <= SOON:
        days = "1 day" if row.days_left == 1 else f"{row.days_left} days"
        screen.say(f"{named}: the consent ends in {days}, on {row.expires}; then it is closed")
    if len(row.custodians) > 1 and row.sealed_by:
        everybody = ", ".join(row.custodians)
        screen.say(f"{named}: custodians {everybody} must all agree; the key of {row.sealed_by} encrypts it")
    published = row.made.get("published")
    if published and not row.publishable:
        screen.say(f"{named}: what is public of it goes with the next run of anything, such as `kfm resume`")
    for zone, level in row.made.items():
        if level != row.level and row.publishable:
            screen.say(f"{named}: the {zone} version was built as {level}; run it again to apply the label")


def change(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.stewards.label_edit import change, write

    said = person(options)
    fields = {
        "sensitivity": options.sensitivity,
        "care": options.care,
        "custodian": options.custodian,
        "authority": options.authority,
        "community_labels": None if options.community_label is None else tuple(filter(None, options.community_label)),
        "access_rights": options.access,
        "public_resolution": options.resolution,
        "expires": options.expires,
    }
    one_line("TARGET", options.target, 1000)
    options.closes = True  # a change that opens is refused below while kfm.yml has mistakes
    with opened(options, screen, "read") as session:
        made = change(session, options.target, fields, today())
        if made.looser:
            for problem in session.resolved.mistakes:
                raise problem
            key_list_of_file(session.resolved, session.state)  # denied if it is missing: the copy may only close
        listed = in_force(session) is not None
        if not listed and options.key:
            raise BadInput("there is no key list to sign by", hint="leave out --key, or make a list: `kfm keys new`")
        if made.looser and not listed:
            _needs_two(made)
        published = any(at for _, at in session.state.refs.all(refs.PUBLISHED))
    done = _Done(changed=made.changes and not options.dry_run)
    if done.changed and listed:
        done = _signed(options, screen, made, said)
    elif done.changed:
        write(made)
    recalled = _take_back(options, screen) if published and done.changed else []
    _tell_change(options, screen, made, done, recalled)
    if done.changed:
        _tell_copies(options, screen, made)
    return done.code or (4 if any(one["problem"] or one["remaining"] for one in recalled) else 0)


class _Done(NamedTuple):
    changed: bool
    code: int = 0
    order: str = ""  # others must sign it first
    who: str = ""  # who signs next


def _signed(options: argparse.Namespace, screen: Screen, made: Change, said: dict[str, str]) -> _Done:
    """Sign a change of the labels with the given keys. The change takes effect at once, or is stored as a change
    request if others must sign too."""
    signer = signer_of(options, said["reason"])
    with opened(options, screen, "write") as session:
        make_ready(made)
        tally = Tally(screen)
        asked = operation_request(
            "labels", made.dataset, params_of(session, made), signer=signer, days=options.days, **said
        )
        receipts = work(session, [asked], tally).receipts
    moves = [(receipt.job_type, move.ref) for receipt in receipts for move in receipt.moves]
    who = ""
    order = next((ref.partition("/")[2] for kind, ref in moves if kind == "operation.request"), "")
    done = any(kind == "operation.labels" for kind, _ in moves)
    if order:
        with opened(options, screen, "read") as session:
            for line in shown_levels(find(session, order).request.params):
                screen.say(line)
            who = next_signature(session, order)
    return _Done(done, tally.code or (EXIT_CODES["denied"] if order else 0), order, who)


def _tell_change(
    options: argparse.Namespace, screen: Screen, made: Change, done: _Done, recalled: list[dict[str, Any]]
) -> None:
    if screen.json:
        lines = made.diff().splitlines()
        told = {"target": made.target, "changed": done.changed, "diff": lines, "order": done.order}
        screen.data({**told, "recalled": recalled})
    elif made.changes:
        screen.text(made.diff() + "\n")
    if not made.changes:
        screen.say(f"the label on {made.target} says that already")
    elif options.dry_run:
        screen.say("nothing was written")
    elif done.order:
        screen.say(f"requested as change request {done.order}, nothing has moved: see `kfm review show {done.order}`")
        screen.say(done.who)
    elif done.changed:
        screen.say(f"the label on {made.target} holds from now on")
    if made.lost is not None and made.changes and not options.dry_run:
        kept = f"; what was there is in {made.path}{UNREADABLE}" if made.lost else ""
        how = "unreadable" if made.lost else "missing"
        screen.say(f"{made.path} was {how}: it was written again from the signed labels{kept}")
    for one in recalled:
        versions = "1 version" if one["versions"] == 1 else f"{one['versions']} versions"
        where = ", ".join(one["received"]) or "nobody"
        screen.say(
            f"{one['dataset']}: {one['problem']}"
            if one["problem"]
            else f"{one['dataset']}: {versions} withdrawn ({', '.join(one['rules'])}); "
            f"{one['remaining']} files remain outside; it had been published to {where}"
        )


def _tell_copies(options: argparse.Namespace, screen: Screen, made: Change) -> None:
    with opened(options, screen, "read") as session:
        copies = clear_copies(session, made.target)
    if copies:
        many = "1 object" if len(copies) == 1 else f"{len(copies)} objects"
        screen.say(f"{many} from before lie in the store in clear: see docs/threat-model.md, `What lay in clear`")
        for one in copies:
            screen.say(f"  {one}")


def _take_back(options: argparse.Namespace, screen: Screen) -> list[dict[str, Any]]:
    """Withdraw what the new label closes: the published versions, and everything that was made from the same
    sources."""
    with opened(options, screen, "write", withdraws=False) as session:
        return take_back(session)


def _needs_two(made: Change) -> None:
    raise Denied(
        f"by this label more would be seen of {made.looser[0]} than before: that takes two stewards of the custodian, "
        "and its community where there is one",
        hint="nothing was written; see docs/guides/stewards.md, 'What takes two'",
        rule="label.loosens",
    )
