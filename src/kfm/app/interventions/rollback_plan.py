"""Plans a rollback: which refs go back together in one commit.

With `cascade`, what was made of the versions that are taken back goes back, too, each dataset to its latest public
version that was made of none of them. Hotfixes stay: they correct every version that says what they expect. With
`hotfixes` they go back as well, to those that were applied when the version was public last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.authority.review_rules import is_guarded
from kfm.clock import parse_instant
from kfm.delivery.public_runs import entry_of
from kfm.errors import BadInput, Refused
from kfm.model import refs
from kfm.model.lineage_edges import used_by, version_named
from kfm.model.records import RefMove
from kfm.operations.move_updater import ALSO, NOTHING, also
from kfm.parsing.characters import printable
from kfm.projections.live_versions import withdrawn_versions

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import RefEntry

Version = tuple[str, str]  # dataset and digest


class Dependent(NamedTuple):
    """A published dataset that was made of a version that is taken back."""

    dataset: str
    version: str  # its published one
    target: str  # its latest public version that was made of none of them; empty: it has none


class RollbackPlan(NamedTuple):
    """The moves of a rollback, and the published datasets that it leaves as they are."""

    first: RefMove
    more: list[RefMove]
    left: list[Dependent]  # made of what is taken back, and not taken along

    def params(self, given: dict[str, str]) -> dict[str, str]:
        """Return the parameters of the operation that makes these moves."""
        return {**given, **({ALSO: also(self.more)} if self.more else {})}


def plan_rollback(
    session: Session, dataset: str, params: dict[str, str], *, cascade: bool = False, hotfixes: bool = False
) -> RollbackPlan:
    """Return the plan of a rollback of the published ref with these parameters. Refused if something must be decided by
    itself first."""
    ref = refs.published(dataset)
    history = list(session.state.refs.history(ref))
    here = session.state.refs.at(ref)
    target = params.get("to") or (history[-1].before if history and history[-1].op != "rollback" else "")
    if cascade and here and not target and history and history[-1].op == "rollback":
        left = [each.dataset for each in _dependents(session, dataset, _taken_back(history, here), closes=False)]
        if left:
            raise Refused(
                f"{ref} was rolled back already, and {', '.join(left)} stayed public",
                hint=f"take along what was made of it: `kfm rollback {dataset} --to {here[:23]} --cascade --reason …`",
            )
    if not history or not target:
        return RollbackPlan(RefMove(ref=ref, before=here, after=here), [], [])
    closes = target == NOTHING
    first = RefMove(ref=ref, before=here, after="" if closes else target)
    more = list(_hotfixes(session, dataset, history, target)) if hotfixes and not closes else []
    gone = _taken_back(history, first.after)
    if closes:  # also those that were never public: other datasets may have read them
        made = session.state.refs.history(refs.processed(dataset))
        gone |= {version for entry in made for version in (entry.before, entry.after) if version}
    found = list(_dependents(session, dataset, gone, closes=closes))
    if not cascade:
        return RollbackPlan(first, more, found)
    for each in found:
        more += _along(session, each, closes=closes, hotfixes=hotfixes)
    return RollbackPlan(first, more, [])


def _taken_back(history: list[RefEntry], target: str) -> set[str]:
    """Return the versions that are no longer right after a rollback to `target`: those that it takes back, and those
    that were taken back before."""
    last = history[-1]
    then = msgspec.structs.replace(last, n=last.n + 1, before=last.after, after=target, op="rollback")
    return set(withdrawn_versions([*history, then] if last.after != target else history))


def _hotfixes(session: Session, dataset: str, history: list[RefEntry], target: str) -> list[RefMove]:
    """Return the move of the hotfixes of a dataset to what they were when `target` was public last."""
    ref = refs.hotfix(dataset)
    moves = list(session.state.refs.history(ref))
    left = max((entry for entry in history if entry.before == target), key=lambda entry: entry.n, default=None)
    if not moves or left is None:
        return []
    number = entry_of(session.state, left.run_id).index
    then = ""
    for move in moves:
        if entry_of(session.state, move.run_id).index <= number:
            then = move.before if move.run_id == left.run_id else move.after  # it left together with the version
    here = session.state.refs.at(ref)
    return [RefMove(ref=ref, before=here, after=then)] if here != then else []


def _along(session: Session, each: Dependent, *, closes: bool, hotfixes: bool) -> Iterator[RefMove]:
    """Yield the moves of a dependent dataset. Refused if it has no version to go back to, or if it is protected: its
    custodians decide about it by itself."""
    name, ref = each.dataset, refs.published(each.dataset)
    if closes:
        yield RefMove(ref=ref, before=each.version, after="")
        return
    by_itself = f"decide about it by itself first: `kfm rollback {name} --to nothing --reason …` withdraws it"
    if not each.target:
        raise Refused(
            f"{name} has no other public version: each was taken back, or was made of what is taken back",
            hint=f"{by_itself}, and --to VERSION names another one",
        )
    move = RefMove(ref=ref, before=each.version, after=each.target)
    if is_guarded(session, name, move):
        raise Refused(f"{name} is protected, and its custodians decide about its versions", hint=by_itself)
    yield move
    if hotfixes:
        yield from _hotfixes(session, name, list(session.state.refs.history(ref)), each.target)


def _dependents(session: Session, dataset: str, gone: set[str], *, closes: bool) -> Iterator[Dependent]:
    """Yield every other published dataset whose version was made of one of these versions, directly or through others,
    by name."""
    wrong = {(dataset, version) for version in gone}
    above: dict[Version, bool] = {}
    for ref, version in sorted(session.state.refs.all(refs.PUBLISHED)):
        name = refs.parse(ref).dataset
        if name == dataset or not _is_made_of(session, (name, version), wrong, above, closes=closes):
            continue
        history = list(session.state.refs.history(ref))
        withdrawn = withdrawn_versions(history)
        before = dict.fromkeys(entry.after for entry in reversed(history) if entry.after)
        good = (
            one
            for one in before
            if one not in withdrawn and not _is_made_of(session, (name, one), wrong, above, closes=closes)
        )
        yield Dependent(name, version, next(good, ""))


def _is_made_of(
    session: Session, version: Version, wrong: set[Version], known: dict[Version, bool], *, closes: bool
) -> bool:
    """Return whether a version is among these, or was made of one of them. The same bytes may come of several runs: if
    one of these read nothing wrong, the version is right, unless everything is to be withdrawn that was made of them.
    Each version is looked at once."""
    if version in wrong:
        return True
    runs: dict[Version, list[list[Version]]] = {}
    stack = [version]
    while stack:
        one = stack.pop()
        if one not in runs and one not in known and one not in wrong:
            runs[one] = list(_reads(session, one))
            stack.extend(read for reads in runs[one] for read in reads)
    right = {one for one, is_wrong in known.items() if not is_wrong}
    enough = all if closes else any
    found = True
    while found:
        found = False
        for one in reversed(runs):  # what was read comes mostly before what was made of it
            if one not in right and (not runs[one] or enough(right.issuperset(reads) for reads in runs[one])):
                right.add(one)
                found = True
    known.update((one, one not in right) for one in runs)
    return known[version]


def _reads(session: Session, version: Version) -> Iterator[list[Version]]:
    """Yield, for each run that made this version and whose receipt is there, the versions that it read."""
    for run_id in session.state.lineage.makers(*version):
        receipt = session.state.ledger.receipt(run_id)
        if receipt is not None and receipt.status == "SUCCESS":
            read = (version_named(address, checksum) for address, checksum in used_by(receipt) if checksum)
            yield [each for each in read if each is not None and each != version]


# -- the version that a person means


def version_at(session: Session, ref: str, instant: str) -> str:
    """Return the version that a ref was at at this time, or `nothing`. BadInput unless it is a time since its first
    move."""
    try:
        wanted = parse_instant(instant, "--at")
    except BadInput as problem:
        raise BadInput(f"--at {printable(instant, 60)} is no time", hint=problem.hint) from None
    found = None
    for entry in session.state.refs.history(ref):
        if parse_instant(entry.ts, "a move") <= wanted:
            found = entry
    if found is None:
        raise BadInput(f"{ref} had no version at {printable(instant, 60)}", hint=f"see `kfm refs history {ref}`")
    return found.after or NOTHING


def version_by(session: Session, ref: str, run_id: str) -> str:
    """Return the version of a ref that a run made, or that it moved the ref to. BadInput if the ref was never there."""
    receipt = session.state.ledger.receipt(run_id)
    made = [item.checksum for item in receipt.outputs if item.kind == "dataset"] if receipt is not None else []
    moved = [move.after or NOTHING for move in receipt.moves if move.ref == ref] if receipt is not None else []
    known = {entry.after for entry in session.state.refs.history(ref)}
    for version in (*moved, *made):
        if version == NOTHING or version in known:
            return version
    raise BadInput(
        f"run {run_id[:80]} left no version at {ref}", hint=f"see `kfm refs history {ref}` and `kfm runs list`"
    )
