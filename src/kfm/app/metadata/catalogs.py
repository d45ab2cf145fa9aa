"""The catalog files, for `kfm catalog` and the sink of that name: where they are, what they should be, and how to build
them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from kfm.app.metadata.archive_places import archive_places, relative
from kfm.app.session.backends import open_tree, sink_lock
from kfm.app.session.datasets import public_retention
from kfm.app.session.session import Session
from kfm.config.config_file import default_catalog
from kfm.delivery.catalog_content import Catalogued, Changes, roots
from kfm.delivery.catalog_follower import CATALOG, CatalogLetters
from kfm.delivery.followers import Follower, in_turn
from kfm.errors import BadInput, KfmError
from kfm.model import refs
from kfm.model.keys import digest
from kfm.model.outbox_messages import Letter
from kfm.model.ports import Lock
from kfm.model.public_run import Places
from kfm.model.records import Difference, Effect, RefEntry
from kfm.projections import dcat, stac
from kfm.projections.pages.file_marks import is_catalog_document
from kfm.sinks.catalog_files import CatalogFiles

AT_ONCE = 20_000  # files in one sync


def catalog_follower(session: Session) -> Follower:
    """Return the follower that keeps the catalog current. BadInput if no catalog is configured."""
    messages = _messages(session)
    return Follower(
        _sink(session),
        messages,
        sink_lock(session.resolved, session.state, CATALOG),
        AT_ONCE,
        messages.note,
        messages.forget,
    )


def _sink(session: Session, folder: str = "") -> CatalogFiles:
    """Return the catalog. Before the first report to the configured one, files in it that KFM did not write stop the
    report: the place may be another catalog of the archive."""
    sink = CatalogFiles(open_tree(session.resolved, _address(session, folder)))
    is_new = not folder and next(session.state.outbox.notes(CATALOG), None) is None
    sink.recognises = is_catalog_document if is_new else None
    return sink


def _address(session: Session, folder: str = "") -> str:
    """Return the address of the catalog, or of a folder that the operator named."""
    if folder:
        return folder_address(os.path.abspath(folder))
    said = session.resolved.config.catalog
    if not said:
        raise BadInput("no catalog is configured", hint="set `catalog: file:catalog`, or name a folder with --out")
    return said


def folder_address(folder: str) -> str:
    """Return the address of a folder, given its absolute path."""
    return f"file://{folder}"


def _messages(session: Session, folder: str = "", address: str = "") -> CatalogLetters:
    places = _places(session, address or _address(session, folder))
    return CatalogLetters(session.state, session.objects, places, partial(public_retention, session))


def catalog_messages(session: Session) -> CatalogLetters:
    """Return the builder of catalog messages, also if no catalog is configured."""
    return _messages(session, "" if session.config.catalog else session.resolved.at("."))


def _places(session: Session, address: str) -> Places:
    """Return the addresses of public files, relative to the catalog where it leads there."""
    public = relative(session.resolved, address, session.resolved.config.publish)
    return archive_places(session.resolved, "kfm://public" if public is None else public)


def datasets(session: Session) -> list[str]:
    """Return the names of the datasets that were ever published."""
    return sorted({refs.parse(entry.ref).dataset for entry in session.state.refs.histories(refs.PUBLISHED)})


def build(session: Session, folder: str = "") -> dict[str, int]:
    """Build the whole catalog from the state: write files that are missing or differ, remove those that do not belong.
    Return the counts. The configured folder is locked meanwhile."""
    if folder:
        return _build(session, folder)
    return in_turn(catalog_follower(session), session, lambda _lock: _build(session))


def _build(session: Session, folder: str = "") -> dict[str, int]:
    sink, count = _sink(session, folder), 0
    batch: list[Letter] = [] if folder else _sweeps(_unknown_datasets(session, sink))
    for path, body in _expected(session, _messages(session, folder)):
        batch.append(Letter(index=0, run_id="", dataset="", key=path, body=body))
        count += isinstance(body, bytes)
        if len(batch) == AT_ONCE:
            sink.send(batch)
            batch = []
    sink.send(batch)
    return {"files": count, "written": sink.written, "removed": sink.removed}


def _expected(session: Session, letters: CatalogLetters) -> Iterator[tuple[str, Any]]:
    """Yield every file of the catalog, then each folder with the names that belong in it."""
    entries: list[tuple[str, Catalogued]] = []
    sweeps: list[tuple[str, frozenset[str]]] = []
    for name in datasets(session):
        now, paths = letters.standing(name), set()
        for path, body in now.documents():
            paths.add(path)
            yield path, body
        sweeps.append((f"{name}/", frozenset(paths)))
        entries.append((name, now.catalogued()))
    yield from roots(entries, letters.places)
    yield from sweeps


def _unknown_datasets(session: Session, sink: CatalogFiles) -> list[str]:
    """Return the datasets in the configured catalog that the state never published: they were published after the
    backup from which the state was restored. Where nothing was published or restored, the catalog may be another
    one."""
    known = datasets(session)
    is_ours = known or session.state.refs.at(refs.maintenance("restore"))
    return sorted(set(sink.datasets(is_catalog_document)) - set(known)) if is_ours else []


def _sweeps(names: Sequence[str]) -> list[Letter]:
    return [Letter(0, "", "", f"{name}/", frozenset()) for name in names]


def remove_catalog(session: Session, effects: list[Effect]) -> KfmError | None:
    """Remove the catalog that was written into the public folder by default, before `catalog: ""`: no report would take
    a withdrawn version out of it. Append the effects; a dry run does nothing else. Return the problem that prevented
    it, or None."""
    from kfm.app.metadata.pages_sink import forget
    from kfm.app.metadata.sink_trace import traced

    address = default_catalog(session.config)
    if not address:
        return None
    tree, is_dry = open_tree(session.resolved, address), session.mode != "write"
    told = [name for name, _ in session.state.outbox.notes(CATALOG)]
    letters = [Letter(0, "", "", path, None) for path in (stac.ROOT, dcat.PATH)]
    letters += _sweeps(told)
    lock = sink_lock(session.resolved, session.state, CATALOG)
    follower = Follower(CatalogFiles(tree), _messages(session, address=address), lock, AT_ONCE)
    follower = traced(follower, effects, dry_run=is_dry)

    def remove(_lock: Lock) -> None:
        follower.sink.send(letters)
        if not is_dry:
            forget(session, CATALOG, told)

    try:
        if next(tree.digests_of([stac.ROOT])) is not None:
            in_turn(follower, session, remove)
    except KfmError as problem:
        return problem
    return None


def clear_place(session: Session) -> None:
    """Remove the catalog from the public place of this session, which is not the one in force any more."""
    if not (address := default_catalog(session.resolved.config)):
        return
    letters = [Letter(0, "", "", path, None) for path in (stac.ROOT, dcat.PATH)]
    letters += _sweeps([name for name, _ in session.state.outbox.notes(CATALOG)])
    lock = sink_lock(session.resolved, session.state, CATALOG)
    follower = Follower(CatalogFiles(open_tree(session.resolved, address)), _messages(session, address=address), lock)
    in_turn(follower, session, lambda _lock: follower.sink.send(letters))


def predicted_changes(
    session: Session, dataset: str, moves: Sequence[RefEntry], fixes: str | None = None
) -> tuple[Changes, bool]:
    """Return the changes of the catalog if the published ref had these moves and hotfixes, None for a removed file; and
    whether they are the complete catalog of the dataset, because it has none yet."""
    return _messages(session).foretold(dataset, moves, fixes)


def documents_with(session: Session, dataset: str, fixes: str) -> dict[str, Any]:
    """Return the documents about the versions of a dataset as they are with the hotfixes in the object `fixes`, by
    path: its collections, and its entry in the DCAT catalog."""
    moves = list(session.state.refs.history(refs.published(dataset)))
    content = _messages(session).at(dataset, moves, fixes=fixes)
    found = {path: msgspec.json.decode(body) for path, body in content.versions()}
    return {**found, dcat.PATH: content.catalogued().dcat}


def differences(session: Session, folder: str = "") -> list[Difference]:
    """Return the files of the catalog that differ from the state. There are none before anything was published."""
    sink, expected = CatalogFiles(open_tree(session.resolved, _address(session, folder))), dict[str, str]()
    unknown = [] if folder else _unknown_datasets(session, sink)
    if not datasets(session) and not unknown:
        return []
    for path, body in _expected(session, _messages(session, folder)):
        if isinstance(body, bytes):
            expected[path] = digest(body)
    found = []
    for name in ("", *datasets(session), *unknown):
        mine = {path: was for path, was in expected.items() if path.rpartition("/")[0].partition("/")[0] == name}
        for path, kind in sink.differences(mine, name):
            found.append(Difference(dataset=name, path=path, kind=kind))  # type: ignore[arg-type]
    return found


def differences_of(session: Session, dataset: str) -> list[Difference]:
    """Return the catalog files of one dataset that differ from the state; none if it was never published."""
    if dataset not in datasets(session):
        return []
    now = _messages(session).standing(dataset)
    expected = {path: digest(body) for path, body in now.documents() if isinstance(body, bytes)}
    sink = CatalogFiles(open_tree(session.resolved, _address(session)))
    return [
        Difference(dataset=dataset, path=path, kind=kind)  # type: ignore[arg-type]
        for path, kind in sink.differences(expected, dataset)
    ]


def items(session: Session, dataset: str) -> Iterator[bytes]:
    """Yield the STAC items of a dataset's current version as NDJSON lines. BadInput if it is not published."""
    now = catalog_messages(session).of(dataset)
    if not now.standing:
        raise BadInput(f"nothing of {dataset} is published", hint=f"`kfm publish {dataset} --reason …` publishes it")
    return (body + b"\n" for body in now.items())


def show(session: Session, dataset: str = "") -> Any:
    """Return the catalog content from the state: of all datasets, or of one with its versions."""
    messages = catalog_messages(session)
    if dataset:
        now = messages.of(dataset)
        if not now.standing:
            raise BadInput(
                f"nothing of {dataset} is published", hint=f"`kfm publish {dataset} --reason …` publishes it"
            )
        return [msgspec.json.decode(body) for path, body in now.versions()]
    found = []
    for name in datasets(session):
        now = messages.of(name)
        if now.standing:
            entry = now.catalogued()
            found.append(
                {
                    "dataset": name,
                    "title": entry.title,
                    "version": now.standing[-1],
                    "versions": len(now.standing),
                    "path": stac.collection_path(name),
                }
            )
    return found
