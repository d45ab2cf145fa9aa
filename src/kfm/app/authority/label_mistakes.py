"""Mistakes of a steward in labels, custodians and keys that the file format does not exclude.

Each of them would close data without saying why, leave a table unprotected, or keep everyone from signing. Each error
names the line to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kfm.app.authority.keyring import in_force, now
from kfm.app.authority.label_change import opened_targets
from kfm.app.authority.label_file import File
from kfm.app.authority.labels_in_force import signed_labels
from kfm.errors import BadInput, Corrupt, KfmError
from kfm.model.labels import (
    COMMUNITY,
    VOCABULARIES,
    Label,
    Labels,
    LabelTarget,
    label_classification,
)
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest

if TYPE_CHECKING:
    from kfm.app.session.session import Session


def label_mistakes(session: Session, written: Labels, holding: Labels) -> Iterator[BadInput]:
    """Yield the mistakes of the label file, `written`, by itself and in comparison with kfm.yml, the key list and the
    labels in force, `holding`."""
    for label in written.labels:
        yield from _words(session, label)
        yield from _incomplete(session, label)
    yield from _contradictions(session, written)
    yield from _custodians(session, written, holding)


def unsigned_openings(session: Session, written: Labels) -> Iterator[BadInput]:
    """Yield a label that was signed and that the label file does not have, or has with less protection. The signed
    label still holds; a person who reads the file would believe otherwise."""
    signed = signed_labels(session)
    if signed is None or signed == written:
        return
    from kfm.parsing.yaml_edit import flow  # every run loads this module, and only an error needs that one

    file = session.resolved.config.labels
    for kind, value in opened_targets(signed, written, now(session)[:10]):
        label = next(one for one in signed.labels if one.of.given().get(kind) == value)
        line = flow(_as_written(label))
        if not file:
            yield BadInput(
                f"kfm.yml names no file of labels, and the label on {kind} {value} is in force",
                hint=f"write `labels: labels.yml` into kfm.yml again, and into that file under `labels:` - {line}",
            )
            return
        yield BadInput(
            f"{file} says less about {kind} {value} than the label in force, which only signatures can lower",
            hint=f"put it back under `labels:` - {line}; then request the change: `kfm labels set {kind}:{value} …`",
        )


def _as_written(label: Label) -> dict[str, Any]:
    default = Label(of=LabelTarget(), sensitivity="", care="")
    fields = {name: getattr(label, name) for name in Label.__struct_fields__[1:]}
    given = {name: value for name, value in fields.items() if value != getattr(default, name)}
    return {"of": label.of.given(), **given}


def place_of(session: Session, label: Label, field: str = "of") -> str:
    """Return the place of a label, or of one of its fields, in the label file; the name of the file if the label is not
    in it."""
    name = session.resolved.config.labels or "the file of labels"
    try:
        file = File(session.resolved)
    except (BadInput, Corrupt):
        return name
    at: Iterable[int] = (n for n, one in enumerate(file.labels.labels) if one == label)
    return next((file.document.place(("labels", n, field)) for n in at), name)


def target_of(label: Label) -> str:
    ((kind, value),) = label.of.given().items()
    return f"{kind} {value}"


# -- words


def _words(session: Session, label: Label) -> Iterator[BadInput]:
    """Yield the words that no vocabulary has. They close the data, and are a slip."""
    for field, words in VOCABULARIES.items():
        said = getattr(label, field)
        if said not in words:
            yield _unknown(place_of(session, label, field), field, said, list(words))
    for code in label.community_labels:
        if code not in COMMUNITY:
            yield _unknown(place_of(session, label, "community_labels"), "community_labels", code, list(COMMUNITY))


def _unknown(place: str, field: str, said: str, words: list[str]) -> BadInput:
    meant = _meant(said, words)
    written = f"[{meant}]" if field == "community_labels" else meant
    return BadInput(
        f"{place}: {printable(said, 40)} is no word for {field}, so the data is closed",
        hint=f"did you mean {meant}? write there: {field}: {written}" if meant else f"use one of {', '.join(words)}",
    )


def _meant(said: str, words: list[str]) -> str:
    plain = {word.casefold().replace(" ", ""): word for word in words}
    bare = "".join(letter for letter in said.casefold() if letter.isalpha())
    return plain.get(bare) or plain.get(nearest(bare, list(plain)), "")


# -- one label


def _incomplete(session: Session, label: Label) -> Iterator[BadInput]:
    """Yield a label that promises cells and lacks what makes them: it would restrict the data instead."""
    if label.sensitivity != "generalised":
        return
    custodians = sorted(session.resolved.config.custodians)
    needed = {"custodian": custodians[0] if len(custodians) == 1 else "NAME", "public_resolution": "6"}
    for field, example in needed.items():
        if getattr(label, field) in ("", None):
            yield BadInput(
                f"{place_of(session, label)}: the label on {target_of(label)} says generalised and has no {field}, so "
                "nothing of it can be published",
                hint=f"write there: {field}: {example}, or: sensitivity: restricted",
            )


def _contradictions(session: Session, written: Labels) -> Iterator[BadInput]:
    """Yield a second label on the same target that says something else."""
    seen: dict[tuple[tuple[str, str], ...], Label] = {}
    for label in written.labels:
        of = tuple(label.of.given().items())
        first = seen.setdefault(of, label)
        if first != label:
            yield BadInput(
                f"{place_of(session, label)}: a second label on {target_of(label)} says something else than the one at "
                f"{place_of(session, first)}",
                hint="keep one of them",
            )


# -- custodians


def _custodians(session: Session, written: Labels, holding: Labels) -> Iterator[BadInput]:
    named = session.resolved.config.custodians
    today = now(session)[:10]
    protecting = [one for one in written.labels if label_classification(one, today).level != "public"]
    by_name = {label.custodian: label for label in reversed(protecting) if label.custodian}
    for name, label in sorted(by_name.items()):
        if name not in named:
            meant = nearest(name, list(named))
            yield BadInput(
                f"{place_of(session, label, 'custodian')}: kfm.yml names no custodian {printable(name)}",
                hint=f"did you mean {meant}? write there: custodian: {meant}"
                if meant
                else f'name its key in kfm.yml: custodians: {{{name}: {{key: "file:PATH"}}}}',
            )
    yield from _idle(session, holding)


def without_stewards(session: Session, custodians: Iterable[str]) -> Iterator[BadInput]:
    """Yield the custodians for whom no person of the key list could sign. Their data can be run and not published."""
    for name in custodians:
        if not _has_steward(session, name):
            yield BadInput(
                f"the key list has no steward of the custodian {name}, so no person can sign for its data",
                hint=f"`kfm keys new --person NAME --role steward --custodian {name} --key FILE`, twice",
            )


def _has_steward(session: Session, custodian: str) -> bool:
    """Return whether the key list has a steward of this custodian. Without a key list, or with one that cannot be read,
    the run itself says what is missing."""
    try:
        keys = in_force(session)
    except KfmError:
        return True
    return keys is None or any(keys.is_steward(person, custodian) for person in keys.people)


def _idle(session: Session, holding: Labels) -> Iterator[BadInput]:
    """Yield the custodians of kfm.yml that no label names, while nothing was ever encrypted for anyone: a table was
    meant to be protected, and is not."""
    names = session.resolved.config.custodians
    if not names or not session.state.protected.is_empty():
        return
    guarded = {label.custodian for label in holding.labels}
    for name in sorted(set(names) - guarded):
        file = session.resolved.config.labels
        into = f"write into {file}" if file else "write `labels: labels.yml` into kfm.yml, and into that file"
        yield BadInput(
            f"no label names the custodian {name}, so its key protects nothing",
            hint=f"{into} the label of its data, with custodian: {name}; or take {name} out of `custodians:`",
        )
