"""Checks that the masks of kfm.yml and the labels match, before anything is fetched, moved or published.

A source with a mask but no label would count as public and be published unmasked. A label that matches nothing was
meant for something. Until such mistakes are corrected, nothing runs, is published or is opened. Operations that only
take away or close still work.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
from typing import TYPE_CHECKING, NamedTuple

from kfm.app.authority.authorization import labelled
from kfm.app.authority.keyring import now
from kfm.app.authority.label_change import weigh as weigh_labels
from kfm.app.authority.label_mistakes import label_mistakes, place_of, unsigned_openings, without_stewards
from kfm.app.authority.labels_in_force import labels_in_force, read_bytes
from kfm.app.authority.mask_change import weigh as weigh_mask
from kfm.app.authority.review_rules import problems as review_problems
from kfm.app.session.protection_files import NO_LABELS, is_configured, labels_of
from kfm.engine.protected.source_classification import as_meant, is_on
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.labels import Label, Labels, source_classification
from kfm.model.names import is_digest
from kfm.model.records import Trigger
from kfm.model.source_identity import is_part_of
from kfm.model.updater import Updater
from kfm.parsing import documents
from kfm.parsing.record_shape import nearest

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import Resolved
    from kfm.config.source_settings import SourceConfig

_KNOWN_IN = ("raw", "processed", "published")
_last_right: tuple[tuple[object, ...], tuple[str, ...]] = (), ()


class MaskedSource(NamedTuple):
    """A source with a masking policy."""

    dataset: str
    name: str
    source: SourceConfig


def check(session: Session, unready: BadInput | None, updater: Updater, trigger: Trigger) -> None:
    """Raise BadInput unless masks and labels match, or the operation only takes away or closes. `unready` is the error
    that kept the rules about protected data from being read."""
    if not updater.needs_labels or updater.takes_away(trigger):
        return
    moved = trigger.params.get("ref", "") if updater.moves_only else ""
    labels = _to_come(session, trigger) if moved == refs.LABELS else None
    if moved == refs.LABELS and labels is None:
        return
    if moved.startswith(refs.MASKS) and unready is None and _is_coarser(session, trigger):
        return
    for problem in session.resolved.mistakes:
        raise problem
    check_all(session, labels)
    if updater.moves_only:
        of = labelled(session, trigger.dataset)
        for problem in without_stewards(session, of.custodians if of is not None and of.level != "public" else ()):
            raise problem
    if unready is not None and moved != refs.LABELS:
        raise unready


def check_all(session: Session, labels: Labels | None = None) -> None:
    """Raise BadInput unless masks and labels match. `labels` replaces those in force."""
    for problem in problems(session, labels):
        raise problem


def labels_match(session: Session) -> bool:
    """Return whether masks and labels match."""
    return not any(True for _ in problems(session))


def problems(session: Session, labels: Labels | None = None) -> Iterator[BadInput]:
    """Yield every mismatch between masks and labels, each with its cure."""
    for _, problem in mistakes(session, labels):
        yield problem


def mistakes(session: Session, labels: Labels | None = None) -> Iterator[tuple[MaskedSource | None, BadInput]]:
    """Yield every mismatch between masks and labels, with the source whose mask lacks a label; None if the label is the
    mistake."""
    global _last_right
    if not is_configured(session.resolved) and not session.state.refs.at(refs.LABELS):
        return
    masked = _masked(session.resolved)
    try:
        holding = labels if labels is not None else labels_in_force(session)
        written = labels if labels is not None else _written(session)
    except BadInput as problem:
        yield None, _unreadable(masked, problem)
        return
    question = (session.resolved.config, session.resolved.tree, holding, written)
    at = (session.state.refs.at(refs.LABELS), session.state.refs.at(refs.KEY_LIST), now(session)[:10])
    if len(question) == len(_last_right[0]) and all(map(is_, question, _last_right[0])) and at == _last_right[1]:
        return
    found = False
    for one in _mistakes(session, masked, holding, written, is_file=labels is None):
        found = True
        yield one
    if not found:
        _last_right = question, at


def _mistakes(
    session: Session, masked: list[MaskedSource], holding: Labels, written: Labels, *, is_file: bool
) -> Iterator[tuple[MaskedSource | None, BadInput]]:
    today = now(session)[:10]
    for each in masked:
        if not _is_labelled(session, each, holding):
            yield each, _without_label(session, each, written)
        elif _is_public(session, each, holding, today):
            yield each, _masked_and_public(session, each, holding)
    for index in _on_nothing(session, written):
        yield None, _matches_nothing(session, written, index)
    for problem in label_mistakes(session, written, holding):
        yield None, problem
    if is_file and not session.resolved.is_proposal:
        for problem in unsigned_openings(session, written):
            yield None, problem
    for problem in review_problems(session):
        yield None, problem


def _to_come(session: Session, trigger: Trigger) -> Labels | None:
    """Return the labels that this operation brings into force, if they open anything; else None."""
    to = trigger.params.get("to", "")
    if not is_digest(to) or not session.objects.has(to):
        return None
    after = read_bytes(session.objects.read(to))
    return after if weigh_labels(session, after).action != "label.tighten" else None


def _is_coarser(session: Session, trigger: Trigger) -> bool:
    ref = trigger.params.get("ref", "")
    return weigh_mask(session, ref, session.state.refs.at(ref)).action == "mask.coarsen"


def _written(session: Session) -> Labels:
    """Return the labels in the label file. Labels that were signed before and then removed from it may match
    nothing."""
    resolved = session.resolved
    if not resolved.is_proposal:
        return labels_of(resolved)
    if not resolved.proposed:
        return NO_LABELS
    with open(resolved.proposed, "rb") as file:
        return read_bytes(file.read(documents.MAX_BYTES + 1))


def _masked(resolved: Resolved) -> list[MaskedSource]:
    datasets = resolved.config.datasets
    return [
        MaskedSource(name, said, source)
        for name in sorted(datasets)
        for said, source in sorted(datasets[name].sources.items())
        if source.mask
    ]


# -- matching


def _is_labelled(session: Session, each: MaskedSource, labels: Labels) -> bool:
    """Return whether a label is on the source: by dataset or address, or by bytes if kfm.yml fixes them."""
    uri, bytes_ = each.source.known_as, each.source.expect_hash
    return any(is_on(label, each.dataset, uri, session.resolved.tree, bytes_, each.name) for label in labels.labels)


def _is_public(session: Session, each: MaskedSource, labels: Labels, today: str) -> bool:
    """Return whether the labels call a source public although it has a mask."""
    address = each.source.known_as
    meant = as_meant(labels, address, session.resolved.tree, each.name)
    bytes_ = each.source.expect_hash
    found = source_classification(meant, dataset=each.dataset, source=address, digest=bytes_, today=today)
    return found.level == "public"


def _on_nothing(session: Session, labels: Labels) -> list[int]:
    """Return the indexes of labels on a dataset or address that neither kfm.yml nor the state knows. Labels on bytes
    and records are left out, because matching data may still arrive."""
    datasets, base = session.resolved.config.datasets, session.resolved.tree
    sources = [(name, one.known_as) for each in datasets.values() for name, one in each.sources.items()]
    exact = {one for source in sources for one in source}

    def is_named(said: str) -> bool:
        return said in exact or any(is_part_of(known_as, said, base) for _, known_as in sources)

    lost = [
        index
        for index, label in enumerate(labels.labels)
        if (label.of.dataset and label.of.dataset not in datasets)
        or (label.of.source and not is_named(label.of.source))
    ]
    return [index for index in lost if not _was_known(session, labels.labels[index])]


def _was_known(session: Session, label: Label) -> bool:
    state = session.state
    if label.of.dataset:
        return any(
            True for zone in _KNOWN_IN for _ in state.refs.history(refs.in_zone(zone, label.of.dataset), limit=1)
        )  # fmt: skip
    from kfm.engine.protected.source_classification import address, meant

    base, said = session.resolved.tree, label.of.source
    if state.inbox.checkpoint(said) is not None or state.protected.standing(f"source/{address(said, base)}"):
        return True
    inputs = (ref for run_id in state.runs.ids("") if (run := state.runs.get(run_id)) is not None for ref in run.inputs)
    return any(meant(label, ref.uri, base).of.source == ref.uri for ref in inputs)


# -- messages


def _unreadable(masked: list[MaskedSource], problem: BadInput) -> BadInput:
    if not masked:
        return problem
    each = masked[0]
    return BadInput(
        f"{problem.message}; source {each.name} of dataset {each.dataset} has a mask, and needs a label there",
        hint=f"{problem.hint}, or write into that file: {_line(each)}" if problem.hint else f"write: {_line(each)}",
    )


def _without_label(session: Session, each: MaskedSource, written: Labels) -> BadInput:
    file, address = session.resolved.config.labels, each.source.known_as
    what = f"source {each.name} of dataset {each.dataset} has a mask and no label"
    if not file:
        return BadInput(
            f"{what}: kfm.yml names no file of labels",
            hint=f"write `labels: labels.yml` into kfm.yml, and into that file under `labels:` the line: {_line(each)}",
        )
    meant = {"source": address, "dataset": each.dataset}
    for index in _on_nothing(session, written):
        ((kind, value),) = written.labels[index].of.given().items()
        if value == each.name or (kind in meant and _close(value, [meant[kind]])):
            right = "source" if value == each.name and kind == "source" else kind
            return BadInput(
                f"{what}: {place_of(session, written.labels[index])} is on {kind} {value}, which is nothing here",
                hint=f"write there: of: {{{right}: {_scalar(meant[right])}}}",
            )
    return BadInput(
        f"{what}: nothing in {file} is on source {address} or on dataset {each.dataset}",
        hint=f"write into {file} under `labels:` the line: {_line(each)}",
    )


def _masked_and_public(session: Session, each: MaskedSource, labels: Labels) -> BadInput:
    address, tree, bytes_ = each.source.known_as, session.resolved.tree, each.source.expect_hash
    on = next(one for one in labels.labels if is_on(one, each.dataset, address, tree, bytes_, each.name))
    return BadInput(
        f"source {each.name} of dataset {each.dataset} has a mask, and its label at {place_of(session, on)} calls it "
        "public: it would be published as it is",
        hint="write there: sensitivity: generalised; or take `mask:` out of kfm.yml, if everyone may see it",
    )


def _matches_nothing(session: Session, labels: Labels, index: int) -> BadInput:
    ((kind, value),) = labels.labels[index].of.given().items()
    datasets = session.resolved.config.datasets
    sources = [(name, one.known_as) for each in datasets.values() for name, one in each.sources.items()]
    named = next((known_as for name, known_as in sources if kind == "source" and name == value), "")
    known = sorted(datasets) if kind == "dataset" else sorted({known_as for _, known_as in sources})
    close = named or _close(value, known)
    return BadInput(
        f"{place_of(session, labels.labels[index])}: the label on {kind} {value} matches nothing: "
        f"kfm.yml has no such {kind}, and none was ever known here",
        hint=f"did you mean {close}? write there: of: {{{kind}: {_scalar(close)}}}"
        if close
        else f"correct it, take it out, or name the {kind} in kfm.yml",
    )


def _close(value: str, known: list[str]) -> str:
    alike = [one for one in known if one.casefold() == value.casefold()]
    return alike[0] if alike else nearest(value, known)


def _line(each: MaskedSource) -> str:
    return (
        f"- {{of: {{source: {_scalar(each.source.known_as)}}}, sensitivity: generalised, care: open, "
        "custodian: NAME, public_resolution: 6}"
    )


def _scalar(text: str) -> str:
    from kfm.parsing.yaml_edit import scalar  # every run loads this module, and only an error needs that one

    return scalar(text)
