"""The runs that a run rests on, found by its inputs. Only the receipts upstream are read and never the whole ledger, so
a dataset ten derivations deep costs ten lookups among a hundred thousand runs.
"""

from __future__ import annotations

import re
from collections import deque

import msgspec

from kfm.delivery.public_layout import Layout, shared_file
from kfm.delivery.public_runs import entry_of, public_run
from kfm.errors import Corrupt, KfmError
from kfm.model import manifests, refs
from kfm.model.lineage_edges import ZONES
from kfm.model.names import is_digest
from kfm.model.ports import Objects, State
from kfm.model.public_run import PublicInput, PublicRun
from kfm.model.zone_requests import Correction
from kfm.projections.explanation import Explanation, ExplanationSubject, build_explanation

MOST = 500  # runs that are explained; further ones are only counted
_PUBLIC_FILE = re.compile(r"(?:^|/)(datasets/([^/]+)/(?:versions/([0-9a-f]{16})|files)/.+)$")


def public_explanation(
    state: State, objects: Objects, made: PublicRun, published_by: str, correction: Correction | None = None
) -> Explanation:
    """Return the explanation of a public version as it is published: from the public records of the run that made it,
    of the run that published it first, and of every run upstream. It changes only with the version and its hotfixes."""
    first = public_run(state, objects, entry_of(state, made.run_id))
    upstream, origins, cut = upstream_runs(state, objects, first)
    published = public_run(state, objects, entry_of(state, published_by), parts=False) if published_by else None
    subject = ExplanationSubject(thing=made.dataset, kind="dataset", dataset=made.dataset, version=made.version)
    told = build_explanation(subject, first, upstream, origins, published=published, cut=cut, correction=correction)
    # The last good run changes with every run, and a page only with its version.
    return msgspec.structs.replace(told, lines=tuple(line for line in told.lines if line.about != "last"))


def upstream_runs(
    state: State, objects: Objects, first: PublicRun
) -> tuple[list[PublicRun], dict[tuple[str, int], str], int]:
    """Return all upstream runs, which input of which run came from which, and how many runs were left out."""
    found: dict[str, PublicRun] = {}
    origins: dict[tuple[str, int], str] = {}
    waiting, cut = deque([first]), set()
    while waiting:
        run = waiting.popleft()
        for position, each in enumerate(run.inputs):
            maker = _made_by(state, objects, each)
            if not maker:
                continue
            if maker != first.run_id and maker not in found:
                if len(found) >= MOST:
                    cut.add(maker)
                    continue
                found[maker] = public_run(state, objects, entry_of(state, maker), parts=False)
                waiting.append(found[maker])
            origins[run.run_id, position] = maker
    return list(found.values()), origins, len(cut)


def _made_by(state: State, objects: Objects, each: PublicInput) -> str:
    """Return the run that made this input; empty if it came from outside."""
    if not is_digest(each.checksum):
        return ""
    dataset, version = "", each.checksum
    if each.kind in ("ref", "dataset"):
        dataset = each.id.removeprefix("kfm://dataset/").removeprefix("kfm://ref/")
        dataset = dataset.partition("/")[2] if dataset.startswith(tuple(f"{zone}/" for zone in ZONES)) else dataset
    elif (match := _PUBLIC_FILE.search(each.id)) is not None:
        dataset = match[2]
        version = _version_with(state, objects, dataset, match[3] or "", match[1], each.checksum)
    made = state.ledger.version(dataset, version) if dataset and version else None
    if made is None:
        return ""
    return first_with(state, objects, dataset, version, each.checksum) if version != each.checksum else made.run_id


def _version_with(state: State, objects: Objects, dataset: str, start: str, path: str, digest: str) -> str:
    """Return the version that has these bytes as the public file at this path; empty if there is none."""
    if not start:
        version, found = shared_file(state, objects, dataset, path)
        return version if found == digest else ""
    moves, layout = state.refs.history(refs.published(dataset)), Layout(state, objects, dataset)
    for version in dict.fromkeys(move.after for move in moves if move.after.startswith(f"sha256:{start}")):
        for entry in manifests.entries(objects, version):
            if entry.digest == digest and layout.path(version, entry) == path:
                return version
    return ""


def first_with(state: State, objects: Objects, dataset: str, version: str, digest: str) -> str:
    """Return the run that first stored these bytes under their key, going back from this version."""
    entry = next((each for each in manifests.entries(objects, version) if each.digest == digest), None)
    key = entry.key if entry is not None else ()
    seen: set[str] = set()
    while True:
        seen.add(version)
        made = state.ledger.version(dataset, version)
        if made is None:
            raise Corrupt(f"the run that made {version} is not recorded", hint="see `kfm doctor --deep`")
        before = made.supersedes
        if not before or before in seen:
            return made.run_id
        older = state.ledger.version(dataset, before)
        try:
            held = manifests.find(objects, before, key) if older is not None else None
        except KfmError:  # encrypted or gone: the search ends here
            return made.run_id
        if held is None or held.digest != digest:
            return made.run_id
        version = before
