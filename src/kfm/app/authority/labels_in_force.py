"""The labels in force: under a key list, the label file counts as it was signed.

The ref `rules/labels` names the bytes in force. The first run under a key list takes the file as it is. After that, a
changed file closes data at once, but opens none until everyone who must has signed exactly its bytes: until then the
labels that were in force count together with those of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.keyring import now
from kfm.app.session.protection_files import NO_LABELS, labels_of
from kfm.errors import BadInput, Denied, KfmError
from kfm.model import refs
from kfm.model.keys import digest
from kfm.model.labels import Labels, Level, joined, read_labels, source_classification
from kfm.parsing import documents

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Classification

NO_FILE = digest(b"")
_signed: dict[str, Labels] = {}  # the last labels that were read, by digest


def file_of(session: Session) -> bytes:
    """Return the bytes of the label file; empty if there is none. BadInput if it cannot be read."""
    path = session.resolved.config.labels
    try:
        with open(session.resolved.at(path), "rb") as file:
            return file.read(documents.MAX_BYTES + 1)
    except FileNotFoundError:
        return b""
    except OSError as problem:
        reason = (problem.strerror or "").lower()
        raise BadInput(f"labels at {path} cannot be read: {reason}", hint="correct the path in kfm.yml") from None


def labels_in_force(session: Session) -> Labels:
    """Return the labels of the file together with the signed ones; in a preview also those that the branch adds. A
    label counts if only one of them has it."""
    at = session.state.refs.at(refs.LABELS)
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


def is_as_signed(session: Session) -> bool:
    """Return whether the label file is the one in force, or no label file was ever signed."""
    at = session.state.refs.at(refs.LABELS)
    return not at or digest(file_of(session)) == at


def signed_labels(session: Session) -> Labels | None:
    """Return the labels as they were signed, without those of the file; None if none ever came into force."""
    at = session.state.refs.at(refs.LABELS)
    return _as_signed(session, at) if at else None


def _as_signed(session: Session, at: str) -> Labels:
    if at not in _signed:
        _signed.clear()
        _signed[at] = read_bytes(session.objects.read(at))
    return _signed[at]


def read_bytes(body: bytes) -> Labels:
    """Return the labels of a file, written in JSON or in YAML."""
    if not body:
        return NO_LABELS
    if body.lstrip()[:1] == b"{":
        try:
            return read_labels(documents.read(body, "labels", json=True))
        except KfmError:
            pass  # YAML may begin so too
    return read_labels(documents.read(body, "labels", json=False))


def check_untouched(session: Session, signed: str) -> None:
    """Raise Denied if the label file is not the one that was signed."""
    if digest(file_of(session)) != signed:
        raise Denied(
            f"{session.resolved.config.labels or 'the file of labels'} was changed since this was signed",
            hint="look at it, and request it again",
            rule="labels.changed",
        )


def labelled(session: Session, dataset: str, *, said: Level | None = None) -> Classification | None:
    """Return the classification of a dataset and all its sources by the labels in force; None if there are no labels.
    `said` is the declared sensitivity, which counts where no label does."""
    if not session.resolved.config.labels and not session.state.refs.at(refs.LABELS):
        return None
    declared = session.resolved.config.datasets.get(dataset)
    from kfm.engine.protected.source_classification import as_meant

    sources = {} if declared is None else {name: source.known_as for name, source in declared.sources.items()}
    labels, today, base = labels_in_force(session), now(session)[:10], session.resolved.tree
    return joined(
        source_classification(
            as_meant(labels, address, base, name),
            dataset=dataset,
            source=address,
            digest="",
            today=today,
            declared=said,
        )
        for name, address in [*sources.items(), ("", "")]
    )
