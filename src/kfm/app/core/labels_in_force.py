"""Rules in force: where there is a key list, the file of labels holds as it was signed.

`rules/labels` is at the bytes of the file that are in force; the first run under a key list takes the file as it is.
From then on a changed file closes at once whatever it closes, and opens nothing until those who must have signed
exactly its bytes: what was in force holds on, together with what the file says.

The file and the ref change one after the other, as the key list does: the next file is written beside it first, and
takes its name when the ref has moved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.core.keyring import Installed, now
from kfm.app.core.protection_files import NO_LABELS, labels_of
from kfm.engine.stage_results import Lowered
from kfm.errors import BadInput, Denied, KfmError
from kfm.model.keys import digest
from kfm.model.labels import Label, Labels, joined, loosens, read_labels, standing_of
from kfm.model.operation_target import LABELS
from kfm.model.records import Receipt, Standing
from kfm.parsing import documents

if TYPE_CHECKING:
    from kfm.engine.protected.source_classification import WayIn

NO_FILE = digest(b"")
ACTOR = "kfm"
_signed: dict[str, Labels] = {}  # the last that was read, by its digest


def file_of(session: Installed) -> bytes:
    """The file of labels as it lies there; empty if it does not."""
    path = session.resolved.config.labels
    try:
        with open(session.resolved.at(path), "rb") as file:
            return file.read(documents.MAX_BYTES + 1)
    except FileNotFoundError:
        return b""
    except OSError as problem:
        reason = (problem.strerror or "").lower()
        raise BadInput(f"labels at {path} cannot be read: {reason}", hint="correct the path in kfm.yml") from None


def labels_in_force(session: Installed) -> Labels:
    """As the file says now, and as was signed: what only one of both says holds too, and what a branch proposes while
    it is previewed."""
    at = session.state.refs.at(LABELS)
    found = labels_of(session.resolved) if not at or session.resolved.config.labels else NO_LABELS
    if at:
        found = _and(_as_signed(session, at), found)
    if session.resolved.proposed:
        with open(session.resolved.proposed, "rb") as file:
            found = _and(found, read_bytes(file.read(documents.MAX_BYTES + 1)))
    return found


def _and(labels: Labels, others: Labels) -> Labels:
    more = tuple(label for label in others.labels if label not in labels.labels)
    return Labels(version=1, labels=(*labels.labels, *more)) if more else labels


def is_as_signed(session: Installed) -> bool:
    """Does the file say what is in force? Where nothing was ever signed, it does."""
    at = session.state.refs.at(LABELS)
    return not at or digest(file_of(session)) == at


def _as_signed(session: Installed, at: str) -> Labels:
    if at not in _signed:
        _signed.clear()
        _signed[at] = read_bytes(session.objects.read(at))
    return _signed[at]


def read_bytes(body: bytes) -> Labels:
    """A file of labels, whichever of both ways it is written in."""
    if not body:
        return NO_LABELS
    if body.lstrip()[:1] == b"{":
        try:
            return read_labels(documents.read(body, "labels", json=True))
        except KfmError:
            pass  # YAML may begin so too
    return read_labels(documents.read(body, "labels", json=False))


# -- who has to sign a change


class Weighed(NamedTuple):
    """What a change of the labels is, whose data it is about, and what the state may forget by it."""

    action: str  # label.tighten, label.lower or consent.renew
    custodians: list[str]
    looser: list[str]  # what would be seen more of
    lowered: Lowered


def weigh(session: Installed, after: Labels) -> Weighed:
    """The labels in force against those to come."""
    before, today = labels_in_force(session), now(session)[:10]
    was, will = _by_target(before), _by_target(after)
    changed = [of for of in dict.fromkeys([*was, *will]) if was.get(of) != will.get(of)]
    looser = [of for of in changed if _opens(was.get(of, []), will.get(of, []), today)]
    looser += [of for of in changed if of not in was and of not in looser and _forgets(session, of, before, after)]
    if not looser:
        named = {label.custodian for of in changed for label in will.get(of, [])} - {""}
        return Weighed("label.tighten", sorted(named), [], Lowered())
    touched = [label for of in changed for label in (*was.get(of, []), *will.get(of, []))]
    lowered, whose = _lowered(session, touched, after)
    named = {label.custodian for label in touched} - {""} | whose
    if not named or any(of[0] in ("bytes", "record") for of in looser):
        named |= {label.custodian for label in before.labels} - {""}
    only_longer = all(_without_end(was.get(of, [])) == _without_end(will.get(of, [])) for of in looser)
    action = "consent.renew" if only_longer else "label.lower"
    return Weighed(action, sorted(named), [" ".join(of) for of in looser], lowered)


def _by_target(labels: Labels) -> dict[tuple[str, str], list[Label]]:
    found: dict[tuple[str, str], list[Label]] = {}
    for label in labels.labels:
        for of in label.of.given().items():
            found.setdefault(of, []).append(label)
    return found


def _opens(was: list[Label], will: list[Label], today: str) -> bool:
    """A first label opens nothing: before, nobody had said anything. One that goes always does."""
    if not was or not will:
        return bool(was)
    before, after = (joined(standing_of(label, today) for label in labels) for labels in (was, will))
    return loosens(before, after)


def _without_end(labels: Iterable[Label]) -> list[Label]:
    return [msgspec.structs.replace(label, expires="") for label in labels]


def _forgets(session: Installed, of: tuple[str, str], before: Labels, after: Labels) -> bool:
    """A first label on what the state knows to be protected: it would be believed instead."""
    own = [label for label in after.labels if of in label.of.given().items()]
    lowered, _ = _lowered(session, own, after)
    return bool(lowered.standings) and before != after


# -- what the state has learned, and may believe otherwise by an order


class _Read(NamedTuple):
    """A sealed source that a dataset once read."""

    dataset: str
    uri: str
    content: str
    key_id: str


def _lowered(session: Installed, touched: list[Label], after: Labels) -> tuple[Lowered, set[str]]:
    """How the sources under these labels stand by the labels to come, wherever else they were read from; and whose
    they are."""
    from kfm.engine.protected.source_classification import address

    ways: dict[str, WayIn] = {}
    base = session.resolved.root
    every = list(dict.fromkeys(_reads(session)))
    hit = [one for one in every if _is_under(_way(session, ways, one.dataset, after), touched, one)]
    addresses = {address(one.uri, base) for one in hit}
    contents = {one.content for one in hit} | {one.content for one in every if address(one.uri, base) in addresses}
    protected, whose = session.state.protected, set[str]()
    found: dict[str, list[Standing]] = {f"source/{one}": [] for one in sorted(addresses)}
    keys: dict[str, str] = {}
    for one in every:
        way, at = _way(session, ways, one.dataset, after), address(one.uri, base)
        if one.content not in contents and at not in addresses:
            continue
        plain = way.plain_digest(one.content)
        says = way.labelled(one.uri, base, plain)
        if at in addresses:
            found[f"source/{at}"] += says
        elif (known := protected.standing(f"source/{at}")) is not None:
            says = [*says, known]
        names = [f"sealed/{one.content}", *way.names_of_bytes(plain)]
        for name in names if one.content in contents else ():
            found.setdefault(name, []).extend(says)
        keys[f"sealed/{one.content}"] = one.key_id
    standings: list[tuple[str, Standing, Standing | None]] = []
    prints = []
    for name, says in found.items():
        known = protected.standing(name)
        if known is None or not says:
            continue
        whose |= set(known.custodians)
        stands = joined(says)
        if name in keys and stands.level == "public":
            prints.append((keys[name], name.partition("/")[2]))
        if loosens(known, stands):
            standings.append((name, known, None if stands.level == "public" else stands))
    return Lowered(standings=standings, prints=prints), whose


def clear_copies(session: Installed, target: str) -> list[str]:
    """Objects that lie in the store in clear although what they were read from is protected now: read before it was
    labelled. They are named by their digests, and are nobody's to publish; removed they are not."""
    from kfm.engine.protected.source_classification import WayIn

    labels = labels_in_force(session)
    touched = [label for label in labels.labels if target in (f"{k} {v}" for k, v in label.of.given().items())]
    found: set[str] = set()
    for run_id in session.state.runs.ids("") if touched else ():
        run = session.state.runs.get(run_id)
        ports = session.ports(run.dataset) if run is not None else None
        if run is None or ports is None or ports.protection is None:
            continue
        way = WayIn(ports, ports.protection, run.dataset)
        for ref in run.inputs:
            if ref.sealed_with or not way.is_under(touched, ref.uri, ref.content_hash):
                continue
            says = way.labelled(ref.uri, session.resolved.root, ref.content_hash)
            if any(standing.level != "public" for standing in says):
                found |= {at for at in (ref.content_hash, ref.accepted_hash) if at and session.objects.has(at)}
    return sorted(found)


def _reads(session: Installed) -> Iterable[_Read]:
    for run_id in session.state.runs.ids(""):
        run = session.state.runs.get(run_id)
        for ref in run.inputs if run is not None else ():
            if ref.sealed_with:
                assert run is not None
                yield _Read(run.dataset, ref.uri, ref.content_hash, ref.sealed_with)


def _way(session: Installed, ways: dict[str, WayIn], dataset: str, labels: Labels) -> WayIn:
    if dataset not in ways:
        from kfm.engine.protected.source_classification import WayIn

        ports = session.ports(dataset)
        assert ports.protection is not None, "something was sealed"
        ways[dataset] = WayIn(ports, msgspec.structs.replace(ports.protection, labels=labels), dataset)
    return ways[dataset]


def _is_under(way: WayIn, touched: list[Label], one: _Read) -> bool:
    by_bytes = any(label.of.bytes_ for label in touched)
    return way.is_under(touched, one.uri, way.plain_digest(one.content) if by_bytes else "")


# -- the file


def take_first(session: Installed) -> None:
    """The labels as they are when they are first used under a key list: from here on they open by signature only."""
    from kfm.app.core.keyring import in_force
    from kfm.engine.run import run
    from kfm.engine.stage_results import Warrant
    from kfm.operations.rule_operations import Labelling
    from kfm.scheduling.triggers import operation_trigger

    if (
        not session.resolved.config.labels
        or session.state.refs.at(LABELS)
        or session.mode != "write"
        or in_force(session) is None
    ):
        return
    body = file_of(session)
    if not body:
        return
    params = {"ref": LABELS, "to": session.objects.put(body), "file": digest(body)}
    trigger = operation_trigger(
        Labelling(), "labels", params, session.clock, actor=ACTOR, reason="the labels as they are first used"
    )
    ports = msgspec.structs.replace(session.ports("labels"), authority=lambda *_about: Warrant())
    try:
        run(trigger, Labelling(), ports)
    except KfmError as problem:  # somebody else does it just now, or the next run does
        session.log.event("labels.untaken", error=problem)


def put(session: Installed, dataset: str, params: dict[str, str], *, reason: str, actor: str) -> Receipt:
    """Bring the signed file into force, and write it where people read it."""
    if session.mode == "write":
        _write(session, _beside(session, params["to"]), session.objects.read(params["to"]))
    receipt = session.operation("labels", dataset, params, reason=reason, actor=actor)
    if receipt.status == "SUCCESS":
        finish(session)
    elif session.mode == "write":
        from kfm.fsio import REAL

        REAL.unlink(_beside(session, params["to"]))
    return receipt


def finish(session: Installed) -> None:
    """What was killed between the ref and the file: the file that waits beside it takes its name, unless somebody
    has changed the one that is there."""
    at = session.state.refs.at(LABELS)
    if (
        session.mode != "write"
        or not at
        or not session.resolved.config.labels
        or not os.path.lexists(_beside(session, at))
    ):
        return
    from kfm.fsio import REAL, failing_as_storage

    last = next(iter(session.state.refs.history(LABELS, reverse=True, limit=1)))
    made = session.state.runs.get(last.run_id)
    path = os.path.realpath(session.resolved.at(session.resolved.config.labels))
    untouched = made is not None and made.trigger.params.get("file") == digest(file_of(session))
    with failing_as_storage("writing the labels"):
        if untouched:
            REAL.replace(_beside(session, at), path)
        else:
            REAL.unlink(_beside(session, at))
        REAL.sync_dir(os.path.dirname(path))


def _beside(session: Installed, at: str) -> str:
    return f"{os.path.realpath(session.resolved.at(session.resolved.config.labels))}.{at.removeprefix('sha256:')[:16]}"


def _write(session: Installed, path: str, body: bytes) -> None:
    from kfm.fsio import REAL, failing_as_storage, write_apart

    place = session.resolved.at(session.resolved.config.labels)
    mode = os.stat(place).st_mode & 0o777 if os.path.exists(place) else 0o644
    with failing_as_storage("writing the labels"):
        write_apart(REAL, path, [body], mode=mode)
        REAL.sync_dir(os.path.dirname(path))


def check_untouched(session: Installed, asked: str) -> None:
    """Is the file what it was when somebody signed?"""
    if digest(file_of(session)) != asked:
        raise Denied(
            f"{session.resolved.config.labels or 'the file of labels'} was changed since this was signed",
            hint="look at it, and ask anew",
            rule="labels.changed",
        )
