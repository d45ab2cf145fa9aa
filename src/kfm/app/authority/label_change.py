"""Classifies a change of the labels: whether it opens or only closes, whose data it concerns, and what the state may
forget."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.authority.classification import source_classifier
from kfm.app.authority.effective_levels import LevelChange, label_levels
from kfm.app.authority.keyring import now
from kfm.app.authority.labels_in_force import labels_in_force
from kfm.engine.protected.source_classification import address
from kfm.engine.stage_results import Lowered
from kfm.model.labels import Label, Labels, joined, label_classification, loosens, opens
from kfm.model.records import Classification

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.engine.protected.source_classification import SourceClassifier


class LabelChange(NamedTuple):
    """The action that a change of the labels is, the custodians it concerns, and the classifications it lowers."""

    action: str  # label.tighten, label.lower or consent.renew
    custodians: list[str]
    looser: list[str]  # what readers would see more of, now or after a later change
    lowered: Lowered
    levels: list[LevelChange]  # of every source and derived dataset touched


def weigh(session: Session, after: Labels, before: Labels | None = None) -> LabelChange:
    """Compare the labels in force, or those in `before`, with the new ones, and return the change."""
    before = labels_in_force(session) if before is None else before
    today = now(session)[:10]
    was, will = _by_target(before), _by_target(after)
    changed = [of for of in dict.fromkeys([*was, *will]) if was.get(of) != will.get(of)]
    looser = [of for of in changed if _opens(was.get(of, []), will.get(of, []), today)]
    looser += [of for of in changed if of not in was and of not in looser and _forgets(session, of, before, after)]
    touched = [label for of in changed for label in (*was.get(of, []), *will.get(of, []))]
    if not looser:
        named = {label.custodian for of in changed for label in will.get(of, [])} - {""}
        levels = label_levels(session, after, touched, Lowered())
        return LabelChange("label.tighten", sorted(named), [], Lowered(), levels)
    lowered, whose = _lowered(session, touched, after)
    named = {label.custodian for label in touched} - {""} | whose
    if not named or any(of[0] in ("bytes", "record") for of in looser):
        named |= {label.custodian for label in before.labels} - {""}
    only_longer = all(_without_end(was.get(of, [])) == _without_end(will.get(of, [])) for of in looser)
    action = "consent.renew" if only_longer else "label.lower"
    levels = label_levels(session, after, touched, lowered)
    return LabelChange(action, sorted(named), [" ".join(of) for of in looser], lowered, levels)


def opened_targets(before: Labels, after: Labels, today: str) -> list[tuple[str, str]]:
    """Return the targets, as kind and value, that have a label in `before` and less protection, or none, in `after`."""
    was, will = _by_target(before), _by_target(after)
    return [of for of in was if was[of] != will.get(of) and _opens(was[of], will.get(of, []), today)]


def _by_target(labels: Labels) -> dict[tuple[str, str], list[Label]]:
    found: dict[tuple[str, str], list[Label]] = {}
    for label in labels.labels:
        for of in label.of.given().items():
            found.setdefault(of, []).append(label)
    return found


def _opens(was: list[Label], will: list[Label], today: str) -> bool:
    """Return whether readers would see more. A first label never opens anything; a removed one always does."""
    if not was or not will:
        return bool(was)
    before, after = (joined(label_classification(label, today) for label in labels) for labels in (was, will))
    return loosens(before, after) or opens(was, will, today)


def _without_end(labels: Iterable[Label]) -> list[Label]:
    return [msgspec.structs.replace(label, expires="") for label in labels]


def _forgets(session: Session, of: tuple[str, str], before: Labels, after: Labels) -> bool:
    """Return whether this is the first label on something that the state remembers as protected, which it would
    replace."""
    own = [label for label in after.labels if of in label.of.given().items()]
    lowered, _ = _lowered(session, own, after)
    return bool(lowered.standings) and before != after


# -- remembered classifications


class _Read(NamedTuple):
    """An encrypted source that a dataset once read."""

    dataset: str
    uri: str
    content: str
    key_id: str
    name: str


def _lowered(session: Session, touched: list[Label], after: Labels) -> tuple[Lowered, set[str]]:
    """Return the new classification of the sources under these labels, also where other datasets read them, and the
    custodians of these sources."""
    ways: dict[str, SourceClassifier] = {}
    base = session.resolved.root
    every = list(dict.fromkeys(_reads(session)))
    hit = [one for one in every if _is_under(_way(session, ways, one.dataset, after), touched, one)]
    addresses = {address(one.uri, base) for one in hit}
    contents = {one.content for one in hit} | {one.content for one in every if address(one.uri, base) in addresses}
    protected, whose = session.state.protected, set[str]()
    found: dict[str, list[Classification]] = {f"source/{one}": [] for one in sorted(addresses)}
    keys: dict[str, str] = {}
    for one in every:
        way, at = _way(session, ways, one.dataset, after), address(one.uri, base)
        if one.content not in contents and at not in addresses:
            continue
        plain = way.plain_digest(one.content)
        says = way.labelled(one.uri, base, plain, one.name)
        if at in addresses:
            found[f"source/{at}"] += says
        elif (known := protected.standing(f"source/{at}")) is not None:
            says = [*says, known]
        names = [f"sealed/{one.content}", *way.names_of_bytes(plain)]
        for name in names if one.content in contents else ():
            found.setdefault(name, []).extend(says)
        keys[f"sealed/{one.content}"] = one.key_id
    classifications: list[tuple[str, Classification, Classification | None]] = []
    prints = []
    for name, says in found.items():
        known = protected.standing(name)
        if known is None or not says:
            continue
        whose |= set(known.custodians)
        classified = joined(says)
        if name in keys and classified.level == "public":
            prints.append((keys[name], name.partition("/")[2]))
        if loosens(known, classified):
            classifications.append((name, known, None if classified.level == "public" else classified))
    return Lowered(standings=classifications, prints=prints), whose


def clear_copies(session: Session, target: str) -> list[str]:
    """Return the digests of objects that are stored unencrypted although their source is protected now, because they
    were read before it was labelled. They cannot be published. This function does not remove them."""
    labels = labels_in_force(session)
    touched = [label for label in labels.labels if target in (f"{k} {v}" for k, v in label.of.given().items())]
    found: set[str] = set()
    for run_id in session.state.runs.ids("") if touched else ():
        run = session.state.runs.get(run_id)
        way = source_classifier(session, run.dataset) if run is not None else None
        if run is None or way is None:
            continue
        for ref in run.inputs:
            if ref.sealed_with or not way.is_under(touched, ref.uri, ref.content_hash, ref.name):
                continue
            says = way.labelled(ref.uri, session.resolved.root, ref.content_hash, ref.name)
            if any(standing.level != "public" for standing in says):
                found |= {at for at in (ref.content_hash, ref.accepted_hash) if at and session.objects.has(at)}
    return sorted(found)


def _reads(session: Session) -> Iterable[_Read]:
    for run_id in session.state.runs.ids(""):
        run = session.state.runs.get(run_id)
        for ref in run.inputs if run is not None else ():
            if ref.sealed_with:
                assert run is not None
                yield _Read(run.dataset, ref.uri, ref.content_hash, ref.sealed_with, ref.name)


def _way(session: Session, ways: dict[str, SourceClassifier], dataset: str, labels: Labels) -> SourceClassifier:
    if dataset not in ways:
        way = source_classifier(session, dataset, labels)
        assert way is not None, "a source was encrypted"
        ways[dataset] = way
    return ways[dataset]


def _is_under(way: SourceClassifier, touched: list[Label], one: _Read) -> bool:
    by_bytes = any(label.of.bytes_ for label in touched)
    return way.is_under(touched, one.uri, way.plain_digest(one.content) if by_bytes else "", one.name)
