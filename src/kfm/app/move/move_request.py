"""What `kfm move` was asked for: the address, what moves there, the record of it, and the line of kfm.yml."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kfm.app.declarations.config_change import config_lock, replace_config, resolved_with
from kfm.app.maintenance.maintenance_records import record
from kfm.app.move.state_move import state_at
from kfm.config.store_settings import SCHEMES, check_location
from kfm.errors import BadInput, Refused
from kfm.parsing.documents import Document
from kfm.parsing.yaml_edit import NotEditable, YamlEdit
from kfm.store.filesystem_check import examine

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.clock import Clock
    from kfm.config import Resolved
    from kfm.model.records import Receipt


class MoveRequest(NamedTuple):
    """What moves where. `setting` is its key in kfm.yml: `state`, `objects` or `publish`."""

    setting: str
    here: str
    to: str

    @property
    def line(self) -> str:
        return f"{self.setting}: {self.to}"

    @property
    def moves_exports(self) -> bool:
        """Whether the exported receipts go elsewhere from then on: next to the objects, where these are in a bucket."""
        return self.setting == "objects" and "s3" in (self.here.partition(":")[0], self.to.partition(":")[0])


def requested(resolved: Resolved, to: str, *, public: bool = False) -> MoveRequest:
    """Return what the address says: its scheme decides whether the state or the objects move, unless the published
    files do. BadInput for an address that cannot hold it, Refused for the present one and for a disk that may lose
    writes."""
    if public:
        return _requested_public(resolved, to)
    scheme = to.partition(":")[0]
    setting = "state" if scheme in SCHEMES["state"] else "objects" if scheme in SCHEMES["objects"] else ""
    if not setting or scheme == "memory":
        known = "sqlite:PATH, jsonl:PATH or postgresql://… for the state, file:PATH or s3://… for the objects"
        raise BadInput("--to is no place for a state or for objects", hint=f"use {known}")
    _check(setting, to, SCHEMES[setting])
    here = getattr(resolved.config, setting)
    if here == "memory":
        raise Refused("a state in memory cannot be moved: it ends with its process", hint="nothing is left to move")
    if resolved.location(here) == resolved.location(to) or _is_same_file(resolved, here, to):
        raise Refused(f"kfm.yml says `{setting}: {here}` already", hint="name another place")
    if not resolved.config.accept_weak_storage and scheme in ("sqlite", "jsonl", "file"):
        path = resolved.location(to)[1]
        for verdict in examine(path if scheme == "file" else os.path.dirname(path), setting):
            if not verdict.ok:
                raise Refused(
                    f"the new place is on {verdict.found}: {verdict.why.partition(';')[0]}",
                    hint="choose a local disk, or set accept_weak_storage: true",
                )
    return MoveRequest(setting, here, to)


def _requested_public(resolved: Resolved, to: str) -> MoveRequest:
    """Return the request to move the published files. BadInput for releases: they cannot be listed and compared."""
    _check("publish", to, tuple(scheme for scheme in SCHEMES["publish"] if scheme != "github"))
    here, place = resolved.config.publish, state_at(resolved)
    if resolved.location(here) == resolved.location(to) and not place.left:
        raise Refused(f"kfm.yml says `publish: {here}` already", hint="name another place")
    if here.startswith("github:"):
        raise Refused(
            "releases of GitHub are not moved",
            hint=f"withdraw what is published, change kfm.yml to `publish: {to}`, and publish it again",
        )
    return MoveRequest("publish", here, to)


def _check(setting: str, to: str, schemes: tuple[str, ...]) -> None:
    try:
        check_location(Document({}, "--to", lambda _path: None), setting, to, schemes)
    except BadInput as problem:
        what = problem.message.partition(": ")[2].removeprefix(setting)
        raise BadInput(f"--to{what}", hint=problem.hint) from None


def _is_same_file(resolved: Resolved, here: str, to: str) -> bool:
    """Return whether two addresses of files are one place, spelled in two ways."""
    one, other = resolved.location(here), resolved.location(to)
    if one[0] in ("postgresql", "s3") or other[0] in ("postgresql", "s3"):
        return False
    return os.path.realpath(one[1]) == os.path.realpath(other[1])


def is_done(resolved: Resolved, request: MoveRequest) -> bool:
    """Return whether the state says already that it, or its objects, moved there: only kfm.yml has to be changed."""
    place = state_at(resolved)
    if request.setting == "state":
        return place.status == "moved"
    return bool(place.objects) and resolved.location(place.objects) == resolved.location(request.to)


def record_move(session: Session, request: MoveRequest, **who: str) -> Receipt:
    """Record in the ledger that a move begins: before its first change, so that none is without a record."""
    changes = {"what": request.setting, "from": request.here, "to": request.to}
    return record(session, "move", changes, **who)


def edit_config(resolved: Resolved, request: MoveRequest, clock: Clock) -> None:
    """Let kfm.yml name the new place, and change nothing else in it. Refused, with the line to write, if the text
    cannot be changed in place or the environment sets the address."""
    cure = f"write `{request.line}` there yourself"
    moved = resolved.document.moved.get((request.setting,))
    if moved is not None:
        raise Refused(f"{request.setting} comes from {moved}, not from kfm.yml", hint=f"set it to {request.to}")
    path = resolved.path
    where = os.path.basename(path)
    if path.endswith(".json"):
        raise Refused(f"{where} is JSON, which this command does not change", hint=cure)
    with config_lock(resolved.root, clock):
        with open(path, "rb") as file:
            body = file.read()
        try:
            edit = YamlEdit(body, where)
            edit.set((request.setting,), request.to)
            body = edit.body()
        except NotEditable:
            raise Refused(f"{where} is written in a way that this command does not change", hint=cure) from None
        resolved_with(body, path, os.environ)
        replace_config(path, body)
