"""What the catalog says of each dataset, read from where it stands: nothing but what is public, and nothing that a
rollback would leave behind.

All of it is a function of the versions that stand and of the runs that made them; not of who put them there, how often
or in which order. So a catalog that is built anew is the catalog that grew, to the byte.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence, Set
from itertools import islice
from typing import Any

import msgspec

from kfm.delivery.catalog_proofs import Proofs
from kfm.delivery.public_files import listed
from kfm.delivery.public_runs import public_run
from kfm.errors import Corrupt
from kfm.model import manifests
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.ports import Objects, State
from kfm.model.public_run import Places, PublicArtifact, PublicRun, PublicVersion
from kfm.model.records import DatasetVersion, LedgerEntry, Record, RefEntry
from kfm.projections import dataset_pages, dcat, openlineage, prov, stac
from kfm.projections.artifacts import published_path
from kfm.projections.live_versions import live_versions

Key = tuple[str, ...]
Documents = Iterator[tuple[str, bytes]]
Changes = Iterator[tuple[str, bytes | None]]


class Catalogued(Record, frozen=True):
    """What the catalog says of a dataset, as far as the next change has to know it."""

    standing: tuple[str, ...]  # the versions that were told of, the current one last
    whole: bool  # every entry of the current one has an item
    title: str
    dcat: dict[str, Any]  # its entry in catalog.jsonld
    places: str  # digest of where everything was then
    covered: int  # entries of the ledger that a signed head covered then


class Cataloguing:
    """Of one dataset, at the moves of its published ref."""

    def __init__(
        self,
        state: State,
        objects: Objects,
        places: Places,
        dataset: str,
        moves: Sequence[RefEntry],
        keep: int,
        proofs: Proofs | None = None,
    ) -> None:
        self._state = state
        self._objects = objects
        self._places = places
        self.dataset = dataset
        self.standing = tuple(live_versions(moves, keep))
        self._first_moves = {move.after: move for move in reversed(moves)}
        self._entries = _Entries(state, dataset)
        self._proofs = proofs or Proofs(state)
        self._count = -1  # items that the collection links to
        self._told: dict[str, PublicRun] = {}
        self._described: PublicVersion | None = None

    # -- the whole of it

    def documents(self) -> Documents:
        """Every file below the dataset's folder, by its path below the catalog's; what is linked before what links."""
        if not self.standing:
            return
        keys: list[Key] = []
        for path, body, key in self._items():
            keys.append(key)
            yield path, body
        self._count = len(keys)
        yield from self._runs()
        for version in self.standing[:-1]:
            yield self._superseded(version)
        yield self.collection(sorted(keys))
        yield self.page()

    def catalogued(self) -> Catalogued:
        """For the note of it, once all of it was told; empty if nothing stands."""
        where = digest(canonical(self._places))
        if not self.standing:
            return Catalogued(standing=(), whole=False, title="", dcat={}, places=where, covered=0)
        current = self._current()
        return Catalogued(
            standing=self.standing,
            whole=self._count == current.entries,
            title=str((current.metadata or current.made.metadata).get("title") or ""),
            dcat=dcat.dataset(current, self._places),
            places=where,
            covered=self._proofs.covered,
        )

    # -- what a change comes to

    def since(self, known: Catalogued) -> Changes | None:
        """What is other than what was told, None of a file that goes. No answer where that cannot be told apart:
        versions were dropped or withdrawn, or a place has moved. Then all of it is said again."""
        if not (known.whole and known.standing and self.standing) or known.places != digest(canonical(self._places)):
            return None
        before, current = known.standing[-1], self.standing[-1]
        if self.standing[:-1] == known.standing:
            runs = self._until(current, before)
            return None if runs is None else self._gone_on(before, runs)
        if self.standing == known.standing[: len(self.standing)]:
            runs = self._until(before, current)
            return None if runs is None else self._gone_back(known.standing, runs)
        return None

    def _gone_on(self, before: str, runs: Sequence[PublicRun]) -> Changes:
        """To a version that was made of the one that was current."""
        gone = yield from self._touched(before, runs)
        for run in runs:
            yield from self._about(run)
        yield self._history()
        for version in self.standing[-3:-1]:  # the one before it led to the current one, where this one was then
            yield self._superseded(version)
        yield self._collected()
        yield self.page()
        yield from gone

    def _gone_back(self, known: Sequence[str], runs: Sequence[PublicRun]) -> Changes:
        """To a version from which the one that was current was made."""
        gone = yield from self._touched(known[-1], runs)
        if runs:
            for version in self.standing[-2:-1]:
                yield self._superseded(version)
            yield self._history()
            yield self._collected()
            yield self.page()
        yield from gone
        kept = {record.run_id for version in self.standing for record in self._records(version)}
        for run in runs:
            if run.run_id not in kept:
                yield from ((path, None) for path in run_paths(self.dataset, run.run_id))
        for version in known[len(self.standing) - 1 : -1]:
            yield stac.version_path(self.dataset, version), None

    def _until(self, version: str, before: str) -> list[PublicRun] | None:
        """The runs that led from one version to another; None if they did not."""
        found: list[PublicRun] = []
        for record in self._records(version):
            if record.digest == before:
                return found
            found.append(self._run(record))
        return None

    def _touched(
        self, before: str, runs: Sequence[PublicRun]
    ) -> Generator[tuple[str, bytes | None], None, list[tuple[str, None]]]:
        """The items of all that these runs made, as the current version has them; returned are those it has not."""
        current = self.standing[-1]
        touched = {artifact.key for run in runs for artifact in run.artifacts}
        touched.update(change.key for change in manifests.changes(self._objects, before, current))
        there = {key for key in touched if manifests.find(self._objects, current, key) is not None}
        for path, body, _ in self._items(there):
            yield path, body
        return [(stac.item_path(self.dataset, key), None) for key in sorted(touched - there)]

    def _collected(self) -> tuple[str, bytes]:
        """The collection of a current version whose every entry has an item."""
        keys = [entry.key for entry in manifests.entries(self._objects, self.standing[-1])]
        self._count = len(keys)
        return self.collection(keys)

    def versions(self) -> Documents:
        """What stands, as collections, the current one first."""
        yield self._collected()
        for version in reversed(self.standing[:-1]):
            yield self._superseded(version)

    def items(self) -> Iterator[bytes]:
        """What the current version consists of, in the order in which it was made."""
        return (body for _, body, _ in self._items())

    def collection(self, keys: Sequence[Key]) -> tuple[str, bytes]:
        body = canonical(stac.collection(self._current(), keys, self._places))
        return stac.collection_path(self.dataset), body

    def page(self, *, in_public: bool = False) -> tuple[str, bytes]:
        """The same for people. Files are named where their names are for everybody."""
        current, files = self._current(), []
        if current.made.labels is None:
            entries = list(islice(manifests.entries(self._objects, current.digest), dataset_pages.MOST))
            home = self._homes({entry.key for entry in entries})
            for entry in entries:
                path = published_path(self.dataset, home.get(entry.key, self.standing[0]), entry)
                files.append(dataset_pages.PageFile(entry.key, path, entry.size, entry.digest))
        stood = [(each, self._record(each)) for each in self.standing]
        standing = [
            dataset_pages.LiveVersion(each, self._published_at(each), record.entries, record.size)
            for each, record in stood
        ]
        body = dataset_pages.dataset_page(current, files, standing, self._places, in_public=in_public)
        return dataset_pages.page_path(self.dataset), body

    def _superseded(self, version: str) -> tuple[str, bytes]:
        body = canonical(stac.collection(self._version(version), (), self._places))
        return stac.version_path(self.dataset, version), body

    def _items(self, only: Set[Key] | None = None) -> Iterator[tuple[str, bytes, Key]]:
        """Of what the current version consists of, each with the run that made it; all, or those of some keys."""
        home = self._homes(only)
        seen: set[str] = set()
        left = -1 if only is None else len(only)
        for record in self._records(self.standing[-1]):
            if not left:
                return
            run = self._run(record)
            items = stac.Items(run, self._places)
            for artifact in run.artifacts:
                if artifact.id not in seen and (only is None or artifact.key in only):
                    seen.add(artifact.id)
                    left -= 1
                    placed = self._placed(artifact, home.get(artifact.key, self.standing[0]))
                    path = stac.item_path(self.dataset, artifact.key)
                    yield path, items.item_bytes(placed), artifact.key
            seen.update(run.removed)

    def _placed(self, artifact: PublicArtifact, home: str) -> PublicArtifact:
        """With the path under which it is public: in the oldest version that stands and has it."""
        inside = artifact.path.split("/", 2)[2]
        return msgspec.structs.replace(artifact, path=f"versions/{home[7:23]}/{inside}")

    def _homes(self, only: Set[Key] | None) -> dict[Key, str]:
        """Of each key that changed since the oldest version that stands: that in which it became what it is."""
        found: dict[Key, str] = {}
        for before, after in zip(self.standing[-2::-1], self.standing[:0:-1], strict=True):
            if only is not None and only <= found.keys():
                break
            for change in manifests.changes(self._objects, before, after):
                found.setdefault(change.key, after)
        return found

    def _runs(self) -> Documents:
        """What is said of each run that a version which stands came from."""
        for record in self._makers():
            yield from self._about(self._run(record))
        yield self._history()

    def _about(self, run: PublicRun) -> Documents:
        """A run in the grammars that speak of runs, and what proves it."""
        proof, bundle, events = run_paths(self.dataset, run.run_id)
        yield proof, self._proofs.of(run)
        yield bundle, prov.to_bytes(prov.prov_json(run))
        yield events, canonical(openlineage.events(run))

    def _history(self) -> tuple[str, bytes]:
        """The runs that led to what stands, the newest first, each with what is said of it."""
        rels = ("receipt", "provenance", "lineage")
        said = [
            {
                "run_id": record.run_id,
                "version": record.digest,
                "links": [
                    {"rel": rel, "href": f"./{path.rpartition('/')[2]}", "type": "application/json"}
                    for rel, path in zip(rels, run_paths(self.dataset, record.run_id), strict=True)
                ],
            }
            for record in self._makers()
        ]
        return f"{self.dataset}/{stac.RUNS}", canonical({"dataset": f"kfm://dataset/{self.dataset}", "runs": said})

    def proved_since(self, covered: int) -> Documents:
        """What proves the runs that a signed head covers now, and did not then."""
        led_here = {record.run_id for record in self._makers()}
        for entry in self._state.ledger.entries_of(self.dataset):
            if entry.index <= covered:
                return
            if entry.run_id in led_here and entry.index <= self._proofs.covered:
                run = public_run(self._state, self._objects, entry, parts=False)
                yield run_paths(self.dataset, run.run_id)[0], self._proofs.of(run)

    def _makers(self) -> Iterator[DatasetVersion]:
        seen: set[str] = set()
        for version in reversed(self.standing):
            for record in self._records(version):
                if record.digest in seen:
                    break
                seen.add(record.digest)
                yield record

    def _record(self, version: str) -> DatasetVersion:
        record = self._state.ledger.version(self.dataset, version)
        if record is None:
            raise Corrupt(f"version {version} of {self.dataset} has no record", hint="see `kfm doctor --deep`")
        return record

    def _records(self, version: str) -> Iterator[DatasetVersion]:
        """A version and those it came from, the newest first."""
        while version:
            record = self._record(version)
            yield record
            version = record.supersedes

    def _run(self, version: DatasetVersion) -> PublicRun:
        found = self._told.get(version.run_id)
        if found is None:
            found = public_run(self._state, self._objects, self._entries.of(version.run_id))
            self._told = {version.run_id: found}  # the last one: it may hold as many artifacts as there are
        return found

    def _current(self) -> PublicVersion:
        if self._described is None:
            self._described = self._version(self.standing[-1])
        return self._described

    def _version(self, version: str) -> PublicVersion:
        record, at = self._record(version), self.standing.index(version)
        box, interval = around(self._objects, version)
        listing, size = listed(self._objects, version)
        made = public_run(self._state, self._objects, self._entries.of(record.run_id), parts=False)
        return PublicVersion(
            dataset=self.dataset,
            digest=version,
            made=made,
            entries=record.entries,
            size=record.size,
            published_at=self._published_at(version),
            previous=self.standing[at - 1] if at else "",
            next=self.standing[at + 1] if at + 1 < len(self.standing) else "",
            latest=self.standing[-1],
            bbox=box,
            interval=interval,
            metadata={} if made.metadata else self._published_metadata(version),
            listing=listing,
            listing_size=size,
        )

    def _published_at(self, version: str) -> str:
        """Return when a version was first published; "" if it never was."""
        move = self._first_moves.get(version)
        return move.ts if move is not None else ""

    def _published_metadata(self, version: str) -> dict[str, Any]:
        """Return what the run that first published a version says about it. The run that made a masked version says
        nothing: the leak scan reads title, licence and so on only when it is published."""
        move = self._first_moves.get(version)
        if move is None or self._state.ledger.receipt(move.run_id) is None:  # a gate looks before it is published
            return {}
        return public_run(self._state, self._objects, self._entries.of(move.run_id), parts=False).metadata


class _Entries:
    """Entries of the ledger by run; the newest are found first, and those before them are read only if need be."""

    def __init__(self, state: State, dataset: str) -> None:
        self._left = state.ledger.entries_of(dataset)
        self._known: dict[str, LedgerEntry] = {}

    def of(self, run_id: str) -> LedgerEntry:
        while run_id not in self._known:
            entry = next(self._left, None)
            if entry is None:
                raise Corrupt(f"run {run_id} has no entry in the ledger", hint="see `kfm audit verify`")
            self._known[entry.run_id] = entry
        return self._known[run_id]


def run_paths(dataset: str, run_id: str) -> tuple[str, str, str]:
    """What proves a run, and what is said of it as PROV and as OpenLineage."""
    about = f"{dataset}/runs/{run_id}"
    return f"{about}.proof.json", f"{about}.prov.json", f"{about}.openlineage.json"


def around(objects: Objects, version: str) -> tuple[tuple[float, ...], tuple[str, str]]:
    """All that the outputs say of where and when they are of."""
    boxes, times = [], []
    for entry in manifests.entries(objects, version):
        if entry.bbox:
            half = len(entry.bbox) // 2
            boxes.append((entry.bbox[0], entry.bbox[1], entry.bbox[half], entry.bbox[half + 1]))
        if entry.datetime:
            start, _, end = entry.datetime.partition("/")
            times.append((start, end or start))
    box: tuple[float, ...] = ()
    if boxes:
        west, south, east, north = zip(*boxes, strict=True)
        over = any(w > e for w, e in zip(west, east, strict=True))  # one goes over the antimeridian
        box = (-180.0 if over else min(west), min(south), 180.0 if over else max(east), max(north))
    if not times or any(".." in pair for pair in times):
        starts = [start for start, _ in times]
        return box, ("" if not starts or ".." in starts else min(starts), "")
    return box, (min(start for start, _ in times), max(end for _, end in times))


def roots(told: Sequence[tuple[str, Catalogued]], places: Places) -> Documents:
    """catalog.jsonld and catalog.json, of the datasets that have something published."""
    stand = [(name, each) for name, each in told if each.standing]
    document = dcat.catalog((), places)
    document["dataset"] = [each.dcat for _, each in sorted(stand, key=lambda pair: pair[0])]
    yield dcat.PATH, dcat.to_bytes(document)
    yield stac.ROOT, canonical(stac.catalog([(name, each.title) for name, each in stand], places))
    yield (
        dataset_pages.PAGE,
        dataset_pages.front_page([(name, each.dcat) for name, each in sorted(stand, key=lambda pair: pair[0])], places),
    )
