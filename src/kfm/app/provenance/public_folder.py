"""Verifies a public folder with public keys alone: without the state, the settings or a network."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from kfm.app.session.trust import Trusted
from kfm.app.stewards.evidence import Check
from kfm.crypto.checkpoints import Unsigned, Verifier, open_checkpoint
from kfm.delivery.public_layout import is_large
from kfm.errors import KfmError
from kfm.fsio import REAL, digest_at, read_whole
from kfm.model import manifests
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.names import check_id, dataset_uri
from kfm.model.records import ManifestEntry
from kfm.parsing.lazy_regex import pattern
from kfm.projections.attestations import verify_envelope
from kfm.projections.file_paths import (
    Twins,
    case_twins,
    is_page,
    part_folder,
    part_path,
    pointer_path,
    published_path,
    shared_folder,
    shared_path,
    version_path,
)
from kfm.projections.pages.checksum_list import FILES, sha256sums
from kfm.projections.pages.public_addresses import sums_path
from kfm.projections.signed_lists import LIST, SignedList, list_of, statement_in

NO_LIST = "it has no signed list: published before signed lists, or the list was removed"
_LIST = pattern(r"([0-9a-f]{16})\.list-([1-9][0-9]{0,15})\.json\Z")
_OF_VERSION = pattern(r"([0-9a-f]{16})(\.ndjson|\.SHA256SUMS)?\Z")


class PublicList(NamedTuple):
    version: str
    listed: SignedList


def is_public_folder(path: str) -> bool:
    """Return whether a folder holds published datasets."""
    return os.path.isdir(os.path.join(path, "datasets"))


def verify_folder(folder: str, keys: Trusted, ledger_keys: Sequence[str]) -> list[Check]:
    """Verify the signed lists of every version in a public folder, the files that they cover, the pointers and the
    checkpoints, and say what cannot be verified. `ledger_keys` are the keys of the ledger, as auditors write them."""
    heads = [Verifier.parsed(key) for key in ledger_keys]
    checks: list[Check] = []
    for dataset in sorted(os.listdir(os.path.join(folder, "datasets"))):
        if _is_name(dataset) and os.path.isdir(os.path.join(folder, "datasets", dataset)):
            checks += _dataset(folder, dataset, keys)
        else:
            checks.append(Check(what=f"datasets/{dataset}", state="bad", found="it does not belong there"))
    if not checks:
        checks.append(Check(what="datasets", state="missing", found="nothing is published here"))
    checks += _checkpoints(folder, heads)
    if pages := [path for path in _files(folder, "") if is_page(path)]:
        found = f"{len(pages)} pages are not signed; what they show is in the files"
        checks.append(Check(what="pages", state="unverified", found=found))
    return checks


def _is_name(text: str) -> bool:
    try:
        return check_id(text, "dataset") == text
    except KfmError:
        return False


def _dataset(folder: str, dataset: str, keys: Trusted) -> Iterator[Check]:
    versions = os.path.join(folder, "datasets", dataset, "versions")
    names = sorted(os.listdir(versions)) if os.path.isdir(versions) else []
    lists: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if (found := _LIST.match(name)) is not None:
            lists.setdefault(found[1], []).append((int(found[2]), name))
        elif (found := _OF_VERSION.match(name)) is not None:
            lists.setdefault(found[1], [])
        else:
            yield Check(what=dataset, state="bad", found=f"datasets/{dataset}/versions/{name} does not belong there")
    known: list[PublicList] = []
    shared: set[str] = set()  # the files that versions share, by path
    for start, named in lists.items():
        if not named:
            yield Check(what=f"{dataset} {start}", state="missing", found=NO_LIST)
            continue
        seq, name = max(named)
        check, one = _opened(os.path.join(versions, name), dataset, start, seq, keys)
        yield check
        if one is not None:
            known.append(one)
            yield from _content(folder, dataset, one.version, shared)
    if len(known) == len(lists):  # else a file may belong to a version that says nothing that is signed
        for path in (*_files(folder, shared_folder(dataset)), *_files(folder, part_folder(dataset))):
            if path not in shared:
                yield Check(what=dataset, state="bad", found=f"{path} does not belong there")
    yield _pointer(folder, dataset, known, lists)


def _opened(path: str, dataset: str, start: str, seq: int, keys: Trusted) -> tuple[Check, PublicList | None]:
    """Return whether a signed list is about this version and this publication, and the list if it is."""
    what = f"{dataset} {start}"
    body = read_whole(REAL, path)
    statement = statement_in(body)
    version = "sha256:" + (statement.subject[0].digest.get("sha256", "") if statement and statement.subject else "")
    if statement is None or not version.startswith(f"sha256:{start}"):
        return Check(what=what, state="bad", found="its signed list was altered or is about another version"), None
    try:
        said = verify_envelope(body, keys.public, version, LIST)
        listed = list_of(said)
    except KfmError as problem:
        return Check(what=what, state="unsigned", found=f"its signed list: {problem.message}"), None
    if [subject.name for subject in said.subject] != [dataset_uri(dataset)]:
        return Check(what=what, state="bad", found="its signed list is about another dataset"), None
    if listed.publication is None or listed.publication.seq != seq:
        return Check(what=what, state="bad", found="its signed list is of another publication"), None
    found = f"signed list of run {listed.run_id}, with {len(listed.statements)} statements"
    return Check(what=what, state="ok", found=found), PublicList(version, listed)


def _twins(folder: str, dataset: str, version: str, entries: Sequence[ManifestEntry]) -> Twins:
    """Return the names that differ only in case. The folder alone does not record whether names of a version keep their
    case, so its files decide."""
    twins = case_twins(entry.key for entry in entries)
    for entry in entries:
        before = published_path(dataset, version, entry, None)
        if before != published_path(dataset, version, entry, twins):
            return None if os.path.lexists(os.path.join(folder, before)) else twins
    return twins


def _content(folder: str, dataset: str, version: str, shared: set[str]) -> Iterator[Check]:
    """Yield whether the listing and the files of a version are those that its digest covers. Add the files that it
    shares with other versions to `shared`."""
    place, what = version_path(dataset, version), f"{dataset} {version[7:23]}"
    try:
        listing = read_whole(REAL, os.path.join(folder, f"{place}.ndjson"))
        same = digest(listing) == version or manifests.version_of(listing) == version
    except (OSError, msgspec.MsgspecError):
        same = False
    if not same:
        yield Check(what=what, state="bad", found=f"{place}.ndjson is missing or altered")
        return
    missing: list[str] = []
    entries = list(_entries(folder, dataset, listing, shared, missing))
    for path in missing:
        yield Check(what=what, state="bad", found=f"{path} is missing or altered")
    own = not is_large(len(entries), sum(entry.size for entry in entries)) or os.path.isdir(os.path.join(folder, place))
    twins = _twins(folder, dataset, version, entries) if own else None
    count, expected = 0, dict[str, str]()
    for entry in entries:
        path = published_path(dataset, version, entry, twins) if own else shared_path(dataset, entry)
        expected[path] = entry.digest
        found = digest_at(REAL, os.path.join(folder, path))
        if found != entry.digest:
            yield Check(what=what, state="bad", found=f"{path} is {'altered' if found else 'missing'}")
        else:
            count += 1
    if not own:
        shared |= expected.keys()
    for path in _files(folder, place):
        if path not in expected:
            yield Check(what=what, state="bad", found=f"{path} does not belong there")
    sums = sums_path(dataset, version)
    summed = expected if len(expected) <= FILES else {f"{place}.ndjson": digest(listing)}
    if digest_at(REAL, os.path.join(folder, sums)) not in ("", digest(sha256sums(summed.items(), sums))):
        yield Check(what=what, state="bad", found=f"{sums} is altered")
    yield Check(what=f"{what} files", state="ok", found=f"{count} files of {len(expected)}, as the signed digest says")


def _entries(
    folder: str, dataset: str, listing: bytes, shared: set[str], missing: list[str]
) -> Iterator[ManifestEntry]:
    """Yield the entries of a listing and of the parts that it names. Parts that are missing or altered are added to
    `missing`."""
    if not listing.startswith(manifests.NAMES_PARTS):
        yield from manifests.decode_entries(listing)
        return
    for part in manifests.decode_parts(listing):
        path = part_path(dataset, part.digest)
        shared.add(path)
        if digest_at(REAL, os.path.join(folder, path)) == part.digest:
            body = read_whole(REAL, os.path.join(folder, path))
            yield from _entries(folder, dataset, body, shared, missing)
        else:
            missing.append(path)


def _pointer(folder: str, dataset: str, known: Sequence[PublicList], lists: dict[str, list[tuple[int, str]]]) -> Check:
    """Return whether `current.json` names the newest publication that a list proves."""
    path = pointer_path(dataset)
    what = f"{dataset} current.json"
    try:
        body = read_whole(REAL, os.path.join(folder, path))
    except OSError:
        return Check(what=what, state="bad", found=f"{path} is missing")
    newest = max(
        known, key=lambda one: one.listed.publication.seq if one.listed.publication is not None else 0, default=None
    )
    if newest is None or newest.listed.publication is None:
        if lists:
            return Check(what=what, state="missing", found="no signed list proves it")
        found = "nothing of it is published; only the installation can verify that"
        return Check(what=what, state="unverified", found=found)
    wanted = {
        "dataset": dataset,
        "version": newest.version,
        "before": newest.listed.publication.before,
        "run_id": newest.listed.run_id,
        "seq": newest.listed.publication.seq,
    }
    if body != canonical(wanted):
        return Check(what=what, state="bad", found="it does not name the newest publication that is signed")
    return Check(what=what, state="ok", found=f"{newest.version[:19]}, as its signed list says")


def _checkpoints(folder: str, heads: Sequence[Verifier]) -> Iterator[Check]:
    place = os.path.join(folder, "ledger", "checkpoints")
    names = [name for name in sorted(os.listdir(place)) if name.isdigit()] if os.path.isdir(place) else []
    if names and not heads:
        found = f"{len(names)} checkpoints: give the key of the ledger with another --key"
        yield Check(what="checkpoints", state="unverified", found=found)
    for name in names:
        note = read_whole(REAL, os.path.join(place, name)).decode(errors="replace")
        try:
            size = open_checkpoint(note, heads, heads[0].name).size if heads else int(note.split("\n")[1])
        except Unsigned as problem:
            yield Check(what=f"checkpoint {name}", state="unsigned", found=problem.message)
        except (ValueError, IndexError):
            yield Check(what=f"checkpoint {name}", state="bad", found="it is no checkpoint")
        else:
            if size != int(name):
                yield Check(what=f"checkpoint {name}", state="bad", found=f"it is the checkpoint of {size} entries")
            elif heads:
                yield Check(what=f"checkpoint {name}", state="ok", found=f"of {size} entries")


def _files(folder: str, below: str) -> Iterator[str]:
    """Yield the paths of all files below a part of the folder, except unfinished ones."""
    for top, folders, names in os.walk(os.path.join(folder, below)):
        folders[:] = sorted(name for name in folders if name != ".publishing-many")
        for name in sorted(names):
            if name != ".publishing":
                yield os.path.relpath(os.path.join(top, name), folder).replace(os.sep, "/")
