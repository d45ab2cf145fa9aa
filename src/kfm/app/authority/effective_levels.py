"""The effective levels that a request changes: of every source and of every dataset made from it, before and after.

A label may say one word while another word holds the level. So a change request names levels, not words, and the
signatures cover them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kfm.app.authority.keyring import now
from kfm.app.authority.labels_in_force import labels_in_force
from kfm.engine.protected.source_classification import address, aged, as_meant, is_on
from kfm.model import refs
from kfm.model.labels import LEVELS, Labels, joined, source_classification
from kfm.model.operation_target import REF
from kfm.model.records import Classification, RefMove

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.engine.stage_results import Lowered
    from kfm.model.labels import Label
    from kfm.model.masks import MaskingPolicy

LEVELS_PARAM = "levels"  # the parameter of a request that names them, and that everyone signs
NOTHING = "nothing"


class LevelChange(NamedTuple):
    """The effective level of one source or dataset before and after a change, and the rules that hold it afterwards."""

    subject: str  # DATASET or DATASET/SOURCE
    before: str
    after: str
    held_by: str = ""

    def __str__(self) -> str:
        return f"{self.subject}: {self.before} → {self.after}" + (f" ({self.held_by})" if self.held_by else "")


def as_param(changes: Iterable[LevelChange]) -> dict[str, str]:
    """Return the parameter that a request carries; none if nothing protected is touched."""
    lines = "\n".join(map(str, changes))
    return {LEVELS_PARAM: lines} if lines else {}


def shown_levels(params: Mapping[str, str]) -> list[str]:
    """Return the lines about levels that a request carries; empty for public data."""
    return params.get(LEVELS_PARAM, "").splitlines()


# -- labels


def label_levels(session: Session, after: Labels, changed: list[Label], lowered: Lowered) -> list[LevelChange]:
    """Return the levels of all sources under a changed label, and of all datasets made from them, by the labels in
    force and by those in `after`, which let the state forget what `lowered` names."""
    forgotten = {name: known for name, _, known in lowered.standings}
    old = _Levels(session, labels_in_force(session), {})
    new = _Levels(session, after, forgotten)
    found = []
    for dataset in sorted(session.resolved.config.datasets):
        for name, uri in old.sources(dataset).items():
            if not uri.startswith(REF) and _is_touched(session, changed, dataset, name, uri):
                found.append(
                    _change(f"{dataset}/{name}", old.source(dataset, name, uri), new.source(dataset, name, uri))
                )
    direct = _directly_under(session, old, changed)
    for dataset in sorted(_with_derived(old, direct)):
        found.append(_change(dataset, old.dataset(dataset), new.dataset(dataset)))
    return [one for one in found if (one.before, one.after) != ("public", "public")]


def datasets_under(session: Session, labels: list[Label]) -> list[str]:
    """Return the datasets of which one of these labels says something, and all that read them."""
    levels = _Levels(session, Labels(version=1), {})
    return sorted(_with_derived(levels, _directly_under(session, levels, labels)))


def _directly_under(session: Session, levels: _Levels, labels: list[Label]) -> set[str]:
    known = session.resolved.config.datasets
    found = {label.of.dataset for label in labels if label.of.dataset in known}
    for dataset in known:
        sources = levels.sources(dataset).items()
        if any(
            not uri.startswith(REF) and _is_touched(session, labels, dataset, *one)
            for one in sources
            for uri in one[1:]
        ):
            found.add(dataset)
    return found


def _is_touched(session: Session, changed: list[Label], dataset: str, name: str, uri: str) -> bool:
    tree = session.resolved.tree
    return any(label.of.bytes_ or label.of.record or is_on(label, dataset, uri, tree, "", name) for label in changed)


def _with_derived(levels: _Levels, datasets: set[str]) -> set[str]:
    """Return these datasets, and all that read them, directly or through others."""
    found = set(datasets)
    every = levels.datasets
    while more := {name for name in every if name not in found and found & set(levels.reads(name))}:
        found |= more
    return found


class _Levels:
    """The effective levels of sources and datasets by some labels, by kfm.yml, and by what the state remembers."""

    def __init__(self, session: Session, labels: Labels, forgotten: Mapping[str, Classification | None]) -> None:
        self._session = session
        self._labels = labels
        self._forgotten = forgotten
        self._today = now(session)[:10]
        self.datasets = sorted(session.resolved.config.datasets)

    def sources(self, dataset: str) -> dict[str, str]:
        """Return the addresses of a dataset's sources by name: those of kfm.yml, and those that its last run read."""
        declared = self._session.resolved.config.datasets[dataset].sources
        found = {name: source.known_as for name, source in declared.items()}
        made = self._session.state.ledger.version(dataset, self._session.state.refs.at(refs.processed(dataset)) or "")
        run = self._session.state.runs.get(made.run_id) if made is not None else None
        for ref in run.inputs if run is not None else ():
            if ref.uri not in found.values():
                found.setdefault(ref.name or ref.uri, ref.uri)
        return found

    def reads(self, dataset: str) -> Iterator[str]:
        """Yield the datasets that a dataset reads."""
        for uri in self.sources(dataset).values():
            if uri.startswith(REF):
                yield uri.removeprefix(REF).partition("/")[2]

    def source(self, dataset: str, name: str, uri: str) -> Classification:
        base, declared = self._session.resolved.tree, self._session.resolved.config.datasets[dataset].sensitivity
        labels = as_meant(self._labels, uri, base, name)
        found = [
            source_classification(
                labels, dataset=dataset, source=uri, digest="", today=self._today, declared=declared or None
            )
        ]
        key = f"source/{address(uri, self._session.resolved.root)}"
        known = self._forgotten[key] if key in self._forgotten else self._session.state.protected.standing(key)
        return joined(found if known is None else [*found, aged(known, self._today)])

    def dataset(self, dataset: str, above: tuple[str, ...] = ()) -> Classification:
        """Return the level of what a run of the dataset would make. `above` are the datasets being followed, so that a
        cycle ends."""
        found = []
        for name, uri in self.sources(dataset).items():
            if not uri.startswith(REF):
                found.append(self.source(dataset, name, uri))
                continue
            other = uri.removeprefix(REF).partition("/")[2]
            if other not in above and other in self._session.resolved.config.datasets:
                found.append(self.dataset(other, (*above, dataset)))
                found += [self.source(dataset, name, uri)] if self._is_classified(dataset, name, uri) else []
        return joined(found) if found else self.source(dataset, "", "")

    def _is_classified(self, dataset: str, name: str, uri: str) -> bool:
        """Return whether kfm.yml or a label says anything about the dataset or this source of it."""
        base = self._session.resolved.tree
        labelled = any(is_on(label, dataset, uri, base, "", name) for label in self._labels.labels)
        return labelled or bool(self._session.resolved.config.datasets[dataset].sensitivity)


def _change(subject: str, before: Classification, after: Classification) -> LevelChange:
    held_by = ", ".join(after.rules) if after.level != "public" else ""
    return LevelChange(subject, level_text(before), level_text(after), held_by)


def level_text(of: Classification, cell: int | None = None) -> str:
    """Return a level as people read it: with the cell, if there is one, and the end of the consent."""
    cells = [one for one in (of.resolution, cell) if one is not None]
    more = [f"cell {min(cells)}"] if of.level == "generalised" and cells else []
    more += [f"until {of.expires}"] if of.expires and of.level != "public" else []
    return f"{of.level}, {', '.join(more)}" if more else of.level


# -- masking policies and versions


def mask_levels(
    subject: str, of: Classification | None, old: MaskingPolicy | None, new: MaskingPolicy
) -> list[LevelChange]:
    """Return the level of a source, with its cell, before and after a change of its masking policy."""
    if of is None or of.level == "public":
        return []
    before = level_text(of, old.resolution) if old is not None else NOTHING
    return [LevelChange(subject, before, level_text(of, new.resolution))]


def version_levels(session: Session, dataset: str, move: RefMove) -> list[LevelChange]:
    """Return the level of a version that would be published, next to that of the version it replaces, or to the
    strictest level of an earlier version if that was stricter; empty for data that was always public."""
    state = session.state
    made = state.ledger.version(dataset, move.after) if move.after else None
    if made is None:
        return []
    public = state.ledger.version(dataset, move.before) if move.before else None
    earlier = [state.ledger.version(dataset, one.after) for one in state.refs.history(refs.processed(dataset))]
    known = [one.standing for one in earlier if one is not None and one.standing is not None]
    after = made.standing
    level = after.level if after is not None else "public"
    strictest = max(known, key=lambda one: LEVELS.index(one.level), default=None)
    before = level_text(public.standing) if public is not None and public.standing is not None else NOTHING
    if public is not None and public.standing is None:
        before = "public"
    if strictest is not None and LEVELS.index(strictest.level) > LEVELS.index(level):
        before = level_text(strictest)
    if level == "public" and before in ("public", NOTHING):
        return []
    return [LevelChange(dataset, before, "public" if after is None else level_text(after))]
