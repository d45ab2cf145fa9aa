"""Resolves a name that a person types to a dataset, a version, a public file, a ref, an object or a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from kfm.app.runs.queries import find_run
from kfm.delivery.public_layout import Layout, shared_file
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.lineage_edges import ZONES
from kfm.model.manifests import entries
from kfm.model.names import dataset_id, is_digest
from kfm.model.operation_target import REF
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest
from kfm.projections.file_paths import shared_folder

if TYPE_CHECKING:
    from kfm.app.session.session import Session

Kind = Literal["dataset", "version", "file", "ref", "object", "run"]
_HEX = frozenset("0123456789abcdef")
LEAST = 4  # the fewest characters of a digest that are searched for


class Thing(NamedTuple):
    """The thing that a name means. For a dataset, `version` is the published one, else the processed one; empty if it
    has none."""

    kind: Kind
    name: str
    dataset: str = ""
    version: str = ""
    digest: str = ""  # of a file or an object
    path: str = ""  # of a file, below the public folder
    run_id: str = ""
    ref: str = ""


def datasets(session: Session) -> list[str]:
    """Return the names of all datasets that kfm.yml or a ref names, sorted."""
    zones = [f"{zone}/" for zone in ZONES]
    held = {refs.parse(ref).dataset for zone in zones for ref, _ in session.state.refs.all(zone)}
    return sorted({*session.config.datasets, *held})


def find_thing(session: Session, text: str) -> Thing:
    """Return the thing that this text names. BadInput if nothing has that name, or more than one."""
    if not text or len(text) > 4096:
        raise BadInput("nothing is named", hint="name a dataset, a version, a public file, a ref, an object or a run")
    for look in (_dataset, _ref, _version_of, _file, _digest):
        found = look(session, text)
        if found is not None:
            return found
    if text == "last" or (len(text) >= LEAST and set(text) <= _HEX | {"-"}):
        return _run(session, text)
    raise _unknown(session, text)


def current(session: Session, dataset: str) -> tuple[str, str]:
    """Return the ref of a dataset's current version, and that version; published before processed. Both empty if it has
    none."""
    for zone in ZONES:
        if version := session.state.refs.at(refs.in_zone(zone, dataset)):
            return refs.in_zone(zone, dataset), version
    return "", ""


def current_ref(session: Session, text: str) -> str:
    """Return the ref that a text names: for the name of a dataset the ref of its published version, else of its
    processed one; any other text as it is. BadInput if the dataset has no version, or if nothing has this name."""
    return _ref_meant(session, text, lambda name: current(session, name)[0])


def moved_ref(session: Session, text: str) -> str:
    """Return the ref that a text names, like `current_ref`. A ref that was withdrawn is one that moved, too."""

    def moved(name: str) -> str:
        both = (refs.in_zone(zone, name) for zone in ZONES)
        return next((ref for ref in both if any(True for _ in session.state.refs.history(ref))), "")

    return _ref_meant(session, text, moved)


def _ref_meant(session: Session, text: str, of_dataset: Callable[[str], str]) -> str:
    name = text.removeprefix("kfm://dataset/")
    if text.startswith("sha256:") or "/" in name or any(True for _ in session.state.refs.history(text)):
        return text.removeprefix(REF)
    if _dataset(session, text) is None:
        raise _unknown(session, text)
    if ref := of_dataset(name):
        return ref
    raise BadInput(f"{printable(name)} has no version yet", hint=f"`kfm run {name}` makes one")


def _dataset(session: Session, text: str) -> Thing | None:
    name = text.removeprefix("kfm://dataset/")
    known = name in session.config.datasets or any(session.state.refs.at(refs.in_zone(zone, name)) for zone in ZONES)
    if not known and not _ended(session, name):
        return None
    ref, version = current(session, name)
    return Thing("dataset", name, dataset=dataset_id(name), version=version, ref=ref)


def _ended(session: Session, name: str) -> bool:
    """Return whether a run of this dataset has ended."""
    return "/" not in name and any(True for _ in session.state.ledger.entries_of(name))


def _ref(session: Session, text: str) -> Thing | None:
    name = text.removeprefix(REF)
    last = next(iter(session.state.refs.history(name, reverse=True, limit=1)), None)
    if last is None:
        return None
    zone, _, dataset = name.partition("/")
    version = last.after if zone in ZONES else ""
    digest = last.after if is_digest(last.after) and not version else ""
    return Thing("ref", name, dataset if zone in ZONES else "", version, digest, run_id=last.run_id, ref=name)


def _version_of(session: Session, text: str) -> Thing | None:
    """Return the version that `DATASET@DIGEST` names; the start of the digest is enough."""
    name, at, start = text.removeprefix("kfm://dataset/").partition("@")
    if not at or not name:
        return None
    found = sorted(set(_versions(session, [name], start.removeprefix("sha256:"))))
    if len(found) == 1:
        return Thing("version", f"{name}@{found[0][1]}", dataset=name, version=found[0][1])
    many = f"{len(found)} versions of {printable(name)} begin" if found else f"no version of {printable(name)} begins"
    raise BadInput(f"{many} with {printable(start, 80)}", hint=f"see `kfm refs history processed/{name}`")


def _versions(session: Session, names: list[str], start: str) -> Iterator[tuple[str, str]]:
    """Yield the versions of these datasets whose digests begin with `start`, each with its dataset."""
    if len(start) < LEAST or len(start) > 64 or not set(start) <= _HEX:
        return
    for name in names:
        for key, _ in session.tables.scan("versions", f"{name}@sha256:{start}"):
            yield name, key.rpartition("@")[2]


def _file(session: Session, text: str) -> Thing | None:
    """Return the public file at this path, which may be relative to the public folder or any path that leads into
    it."""
    scheme, root = session.resolved.location(session.config.publish)
    for path in _below(text, root if scheme == "file" else ""):
        parts = path.split("/")
        if len(parts) < 3 or parts[0] != "datasets":
            continue
        ref, version = current(session, parts[1])
        if parts[2:] == ["current.json"] and version:
            return Thing("dataset", parts[1], dataset=parts[1], version=version, ref=ref)
        if path.startswith(f"{shared_folder(parts[1])}/"):
            version, digest = shared_file(session.state, session.objects, parts[1], path)
            if version:
                return Thing("file", path, dataset=parts[1], version=version, digest=digest, path=path)
            raise BadInput(f"{parts[1]} has no public file {printable(path, 200)}", hint="see `kfm cat`")
        if parts[2] != "versions" or len(parts) < 4:
            continue
        start = parts[3].removesuffix(".ndjson")
        found = sorted(set(_versions(session, [parts[1]], start)))
        if len(found) != 1:
            continue
        version = found[0][1]
        if len(parts) == 4:
            return Thing("version", f"{parts[1]}@{version}", dataset=parts[1], version=version)
        if digest := _entry_at(session, parts[1], version, path):
            return Thing("file", path, dataset=parts[1], version=version, digest=digest, path=path)
        raise BadInput(f"{parts[1]} {version[:19]} has no file {printable(path, 200)}", hint="see `kfm cat`")
    return None


def _below(text: str, root: str) -> Iterator[str]:
    if "/" not in text:
        return
    yield text.strip("/")
    if root:
        real, inside = os.path.realpath(text), os.path.realpath(root)
        if real.startswith(inside + os.sep):
            yield real[len(inside) + 1 :]


def _entry_at(session: Session, dataset: str, version: str, path: str) -> str:
    layout = Layout(session.state, session.objects, dataset)
    for entry in entries(session.objects, version):
        if layout.path(version, entry) == path:
            return entry.digest
    return ""


def _digest(session: Session, text: str) -> Thing | None:
    """Return the version with this digest, else the object with it."""
    start = text.removeprefix("sha256:")
    if len(start) < LEAST or len(start) > 64 or not set(start) <= _HEX:
        return None
    found = sorted(set(_versions(session, datasets(session), start)))
    if len({version for _, version in found}) > 1:
        raise BadInput(f"{len(found)} versions begin with {start}", hint="give more of the digest")
    if found:
        name, version = found[0]
        return Thing("version", f"{name}@{version}", dataset=name, version=version)
    if len(start) == 64 and session.objects.has(f"sha256:{start}"):
        return Thing("object", f"sha256:{start}", digest=f"sha256:{start}")
    if text.startswith("sha256:") or len(start) == 64:
        raise BadInput(f"there is no version and no object {printable(text, 80)}", hint="see `kfm refs list`")
    return None


def _run(session: Session, text: str) -> Thing:
    run_id = find_run(session, text)
    return Thing("run", run_id, run_id=run_id)


def _unknown(session: Session, text: str) -> BadInput:
    known = datasets(session)
    names = [
        refs.in_zone(zone, name) for zone in ZONES for name in known if session.state.refs.at(refs.in_zone(zone, name))
    ]
    close = nearest(text.removeprefix("kfm://dataset/"), known) or nearest(text, names)
    return BadInput(
        f"nothing here is called {printable(text)}",
        hint=f"did you mean {close}?"
        if close
        else "name a dataset, a version, a public file, a ref, an object or a run",
    )
