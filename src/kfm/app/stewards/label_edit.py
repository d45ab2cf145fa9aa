"""Changes one label in the label file; every comment and every other line stays as it is.

The new text is read again. A file that cannot be changed so is left alone, and the error names the lines to write.
One person may make a label stricter; a change that shows more than before needs two.
"""

from __future__ import annotations

import difflib
import json
import os
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.app.authority.label_file import File, said
from kfm.app.authority.labels_in_force import file_of
from kfm.app.stewards.label_report import classification_of
from kfm.engine.protected.source_classification import is_on
from kfm.errors import BadInput, KfmError
from kfm.fsio import Fs, failing_as_storage, write_apart
from kfm.model import refs
from kfm.model.keys import digest
from kfm.model.labels import (
    COMMUNITY,
    VOCABULARIES,
    Label,
    Labels,
    LabelTarget,
    label_classification,
    loosens,
    opens,
    read_labels,
)
from kfm.model.names import is_digest
from kfm.parsing import documents
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.dates import is_date
from kfm.parsing.record_shape import nearest
from kfm.parsing.yaml_edit import Block, NotEditable, YamlEdit, flow

if TYPE_CHECKING:
    from kfm.app.session.session import Session

EMPTY = b"version: 1\nlabels: []\n"
UNREADABLE = ".unreadable"  # what the name of a copy ends with
KINDS = ("dataset", "source", "bytes", "record")
# Fields in the order of a new label.
FIELDS = (
    "sensitivity", "care", "custodian", "authority", "community_labels", "access_rights", "public_resolution",
    "expires",
)  # fmt: skip


class Change(msgspec.Struct, frozen=True):
    """A change of the label file that is not written yet. `looser` names the targets of which readers would see more;
    if there are any, two people must sign the change."""

    target: str
    before: bytes  # the file, or the signed labels if the file is missing or unreadable
    after: bytes
    path: str
    looser: list[str]
    labels: Labels  # as they are then
    dataset: str  # that it is told of in the ledger
    lost: bytes | None  # the file on disk if it cannot be read, empty if it is missing, None if it is as it should be

    def diff(self) -> str:
        old, new = (body.decode().splitlines() for body in (self.before, self.after))
        return "\n".join(line for line in difflib.unified_diff(old, new, lineterm="", n=1) if line[:3] not in _HEADS)

    @property
    def changes(self) -> bool:
        return self.before != self.after


_HEADS = ("---", "+++", "@@ ")


def change(session: Session, target: str, fields: dict[str, Any], today: str) -> Change:
    """Return how the label file would change if the label on `target` (dataset:NAME, source:ADDRESS, bytes:DIGEST,
    record:ID) got these fields. A field that is None keeps its value; an empty field is removed. If the label file is
    missing or cannot be read, the change starts from the signed labels. BadInput if the target or a field is not
    valid."""
    file = _file(session)
    if not file.path:
        raise BadInput("kfm.yml names no file of labels", hint="write into it: labels: labels.yml")
    of = _target(session, target)
    given = {name: value for name, value in fields.items() if value is not None}
    if not given:
        raise BadInput("nothing is to be changed", hint="give e.g. --sensitivity restricted")
    _check(given)
    index = next((at for at in file.on(**of) if file.labels.labels[at].of.given() == of), None)
    label = _label(file.labels, index, of, given)
    after = _labels(file.labels, index, label)
    text = _written(file, index, label, given, after)
    looser = _looser(session, file.labels, after, label, index, today)
    return Change(
        target=said(label),
        before=file.body if file.is_there else b"",
        after=text,
        path=file.path,
        looser=looser,
        labels=after,
        dataset=_told_of(session, of),
        lost=file_of(session) if file.is_restored else None,
    )


def _file(session: Session) -> File:
    """Return the label file; the signed labels if it is missing or cannot be read. BadInput if there are none."""
    signed = session.state.refs.at(refs.LABELS)
    try:
        file = File(session.resolved)
    except BadInput as problem:
        if not signed:
            meanwhile = "meanwhile `kfm rollback DATASET --to nothing --reason …` withdraws a dataset"
            raise BadInput(problem.message, hint=f"{problem.hint}; {meanwhile}") from None
        return File(session.resolved, session.objects.read(signed))
    if signed and not file.is_there:
        return File(session.resolved, session.objects.read(signed))
    return file


def _told_of(session: Session, of: dict[str, str]) -> str:
    for name, dataset in sorted(session.config.datasets.items()):
        if of.get("dataset") == name or any(one.known_as == of.get("source") for one in dataset.sources.values()):
            return name
    return "labels"


def params_of(session: Session, made: Change) -> dict[str, str]:
    """Store the changed file, and return the parameters of the operation that brings it into force, for an installation
    with a key list."""
    return {"ref": refs.LABELS, "to": session.objects.put(made.after), "file": digest(made.before or EMPTY)}


def make_ready(made: Change) -> None:
    """Write a label file without labels if there is none yet. Write the signed labels if it is missing or unreadable,
    and keep a copy of what could not be read."""
    if made.lost:
        write(msgspec.structs.replace(made, after=made.lost, path=made.path + UNREADABLE))
    if made.lost is not None:
        write(msgspec.structs.replace(made, after=made.before))
    elif not os.path.lexists(made.path):
        write(msgspec.structs.replace(made, after=EMPTY))


def write(made: Change) -> None:
    """Replace the label file durably, and keep its file mode."""
    fs = Fs()
    mode = os.stat(made.path).st_mode & 0o777 if os.path.exists(made.path) else 0o644
    where = os.path.realpath(made.path)
    with failing_as_storage("write the labels"):
        write_apart(fs, f"{where}.new", [made.after], mode=mode)
        fs.replace(f"{where}.new", where)
        fs.sync_dir(os.path.dirname(where))


# ---------------------------------------------------------------------------------------------- what is meant


def _target(session: Session, text: str) -> dict[str, str]:
    kind, colon, value = text.partition(":")
    if kind not in KINDS or not colon or not value or not is_printable(value):
        raise BadInput(
            f"{printable(text)} is nothing that a label can be on",
            hint="write dataset:NAME, source:ADDRESS, bytes:sha256:… or record:ID",
        )
    datasets = session.config.datasets
    known = {
        "dataset": sorted(datasets),
        "source": sorted({source.known_as for one in datasets.values() for source in one.sources.values()}),
    }.get(kind)
    if known is not None and value not in known:
        close = nearest(value, known)
        raise BadInput(
            f"kfm.yml has no {kind} {printable(value)}",
            hint=f"did you mean {close}?" if close else "`kfm labels show` lists them all",
        )
    if kind == "bytes" and not is_digest(value):
        raise BadInput(f"{printable(value)} is no digest", hint="write sha256: and 64 hex digits")
    return {kind: value}


def _check(given: dict[str, Any]) -> None:
    """Raise BadInput if a field has an unknown word or a malformed value. In a label file an unknown word closes the
    data; in a command it is a typing mistake."""
    for name, words in VOCABULARIES.items():
        word = given.get(name)
        if word and word not in words:
            raise BadInput(f"{printable(word)} is no word for {name}", hint=f"use one of {', '.join(words)}")
    for code in given.get("community_labels") or ():
        if code not in COMMUNITY:
            close = nearest(code, sorted(COMMUNITY))
            raise BadInput(
                f"{printable(code)} is no label of Local Contexts",
                hint=f"did you mean {close}?" if close else "write its code, such as TK CS",
            )
    if given.get("expires") and not is_date(given["expires"]):
        raise BadInput("the end of a consent is not a date", hint="write it as 2027-06-30")
    for name in ("custodian", "authority"):
        if not is_printable(given.get(name) or "") or len(given.get(name) or "") > 200:
            raise BadInput(f"the {name} is not one short line", hint="shorten it")


def _label(labels: Labels, index: int | None, of: dict[str, str], given: dict[str, Any]) -> Label:
    fresh = {name: value for name, value in given.items() if name not in ("sensitivity", "care") or value}
    if index is not None:
        return msgspec.structs.replace(labels.labels[index], **_values(fresh))
    lacks = [name for name in ("sensitivity", "care") if not given.get(name)]
    if lacks:
        raise BadInput(
            f"a first label says both sensitivity and care, and this one has no {lacks[0]}",
            hint=f"give --{lacks[0]}",
        )
    return Label(of=LabelTarget(**{"bytes_" if kind == "bytes" else kind: value for kind, value in of.items()}),
                 **_values(fresh))  # fmt: skip


def _values(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields as a `Label` holds them: an empty field gets its default."""
    empty = {"public_resolution": None, "access_rights": "open"}
    return {name: value if value not in ("", ()) else empty.get(name, value) for name, value in given.items()}


def _labels(labels: Labels, index: int | None, label: Label) -> Labels:
    every = list(labels.labels)
    if index is None:
        every.append(label)
    else:
        every[index] = label
    return Labels(version=labels.version, labels=tuple(every))


def _looser(session: Session, before: Labels, after: Labels, label: Label, index: int | None, today: str) -> list[str]:
    """Return the label or sources of which readers would see more after the change, or after a later one. The first
    label on a source that nothing classified before does not count: there was no label to loosen."""
    found = []
    if index is not None and (
        loosens(label_classification(before.labels[index], today), label_classification(label, today))
        or opens([before.labels[index]], [label], today)
    ):
        found.append(said(label))
    for name, dataset in sorted(session.config.datasets.items()):
        for called, source in dataset.sources.items():
            if not is_on(label, name, source.known_as, session.resolved.tree, "", called):
                continue
            was, will = (
                classification_of(session, labels, name, called, source.known_as, dataset.sensitivity or None, today)
                for labels in (before, after)
            )
            if "label.missing" not in was.rules and loosens(was, will) and said(label) not in found:
                found.append(f"{name}: {source.known_as}")
    return found


# ---------------------------------------------------------------------------------------------- how it is written


def _written(file: File, index: int | None, label: Label, given: dict[str, Any], after: Labels) -> bytes:
    """Return the new bytes of the label file. Raise BadInput, with the lines to write, if the file cannot be changed in
    place."""
    if file.name.endswith(".json"):
        return json.dumps(msgspec.to_builtins(after), indent=2, ensure_ascii=False).encode() + b"\n"
    fields = _fields(label, given, index)
    try:
        body = _edited(file, index, label, fields)
        if read_labels(documents.read(body, file.name, json=False)) != after:
            raise NotEditable
    except (NotEditable, KfmError):
        shown = {name: value for name, value in fields.items() if not _is_empty(value)}
        gone = [f"no {name}" for name in fields if name not in shown]
        raise BadInput(
            f"{file.name} is written in a way that this command does not change; write there yourself, under "
            f"{said(label)}: {'; '.join([*(f'{name}: {flow(value)}' for name, value in shown.items()), *gone])}",
            hint="or give each field of a label a line of its own",
        ) from None
    return body


def _edited(file: File, index: int | None, label: Label, fields: dict[str, Any]) -> bytes:
    edit = YamlEdit(file.body, file.name)
    if index is None:
        if not edit.value.get("labels"):
            edit.set(("labels",), [])
        edit.set(("labels", len(file.labels.labels)), Block({"of": label.of.given(), **fields}))
        return edit.body()
    before = edit.value["labels"][index]
    for name, value in fields.items():
        if not _is_empty(value):
            edit.set(("labels", index, name), value)
        elif name in before:
            edit.remove(("labels", index, name))
    return edit.body()


def _fields(label: Label, given: dict[str, Any], index: int | None) -> dict[str, Any]:
    """Return the fields to write: those that the caller gave, or for a new label all fields with a value."""
    if index is not None:
        return {name: getattr(label, name) for name in FIELDS if name in given}
    default = {"access_rights": "open"}
    values = {name: getattr(label, name) for name in FIELDS}
    return {name: value for name, value in values.items() if not _is_empty(value) and value != default.get(name)}


def _is_empty(value: Any) -> bool:
    return value in ("", (), None)
