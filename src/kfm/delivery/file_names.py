"""The names of published files in a version: which of its keys differ only in case."""

from __future__ import annotations

from kfm.model import manifests
from kfm.model.ports import Objects, State
from kfm.projections.file_paths import Twins, case_twins, keeps_case

_KNOWN: dict[str, frozenset[tuple[str, ...]]] = {}  # by the digest of the version, which names its keys
_MOST = 64


def twins_in(state: State, objects: Objects, dataset: str, version: str) -> Twins:
    """Return the names of a version that differ only in case, as `published_path` takes them. Raise Corrupt if its
    manifest cannot be read."""
    if not keeps_case(state.ledger.version(dataset, version)):
        return None
    if version not in _KNOWN:
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        _KNOWN[version] = case_twins(entry.key for entry in manifests.entries(objects, version))
    return _KNOWN[version]
