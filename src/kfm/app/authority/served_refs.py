"""The refs for readers that move with a published version, in the same transaction: search aliases and cache epochs.

`search/ALIAS` leads to the published version of an index. `cache/DATASET` counts up whenever what is public of an index
or of map tiles changes, or of a dataset that they are made of: a cache that has the count in its keys serves nothing
that was withdrawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kfm.config.upstream_datasets import above, upstreams
from kfm.engine.stage_results import ServedRef
from kfm.errors import Corrupt
from kfm.model import manifests, refs
from kfm.model.jobs.job_settings import INDEX, TILES
from kfm.model.jobs.search_segment import MANIFEST, SearchManifest

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import RefMove

SERVED = (INDEX, TILES)  # types of jobs whose versions are served to readers


def served_with(session: Session, moves: list[RefMove]) -> list[ServedRef]:
    """Return the refs for readers that these moves of published refs move, too."""
    found: dict[str, ServedRef] = {}
    for move in moves:
        name = refs.parse(move.ref)
        if name.zone not in ("published", "hotfix") or move.before == move.after:
            continue
        if name.zone == "hotfix":
            aliases: list[ServedRef] = []
        else:
            aliases = list(_aliases(session, name.dataset, move))
        for served in (*aliases, *_epochs(session, name.dataset)):
            found.setdefault(served.ref, served)
    return list(found.values())


def _aliases(session: Session, dataset: str, move: RefMove) -> list[ServedRef]:
    was, will = (alias_of_version(session, dataset, version) for version in (move.before, move.after))
    found = [ServedRef(refs.search_alias(will), move.after)] if will else []
    if was and was != will:
        found.append(ServedRef(refs.search_alias(was), "", only_from=move.before))
    return found


def alias_of_version(session: Session, dataset: str, version: str) -> str:
    """Return the search alias that a version of an index names; empty if the version is no index."""
    manifest = manifest_of(session, dataset, version)
    return manifest.alias if manifest is not None else ""


def manifest_of(session: Session, dataset: str, version: str) -> SearchManifest | None:
    """Return the manifest of a version of an index; None if it is no index. Corrupt if it cannot be read."""
    known = session.state.ledger.version(dataset, version) if version else None
    receipt = session.state.ledger.receipt(known.run_id) if known is not None else None
    if receipt is None or receipt.job_type != INDEX:
        return None
    entry = manifests.find(session.objects, version, (MANIFEST,))
    if entry is None:
        raise Corrupt(f"the index {dataset} {version[:19]} has no manifest", hint="see `kfm doctor --deep`")
    return msgspec.json.decode(session.objects.read(entry.digest), type=SearchManifest)


def _epochs(session: Session, dataset: str) -> list[ServedRef]:
    declared = session.config.datasets
    upstream = upstreams(declared)
    served = {name for name, said in declared.items() if said.job in SERVED}
    named = {name for name in served if name == dataset or dataset in above(upstream, name)}
    if session.state.refs.at(refs.cache_epoch(dataset)):  # it has left kfm.yml, or is made in another way now
        named.add(dataset)
    return [ServedRef(refs.cache_epoch(name), None) for name in sorted(named)]
