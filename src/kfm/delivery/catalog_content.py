"""The catalog entries of one dataset: only what is public, and nothing that a rollback would leave behind.

The entries depend on the published versions and on the runs that made them, not on who published them, how often or in
which order. So a catalog that is built again is byte for byte the catalog that grew.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence, Set
from itertools import islice
from typing import Any

import msgspec

from kfm.delivery.catalog_proofs import Proofs
from kfm.delivery.corrections import fixes_at
from kfm.delivery.file_facts import LARGEST, FileFacts, file_facts, with_facts
from kfm.delivery.masked_tables import TableFacts, box_around, table_facts
from kfm.delivery.public_layout import Layout
from kfm.delivery.public_runs import public_run
from kfm.errors import Corrupt
from kfm.model import manifests, refs
from kfm.model.canonical import canonical
from kfm.model.interventions.hotfix_set import corrected
from kfm.model.keys import digest
from kfm.model.ports import Objects, State
from kfm.model.public_run import Places, PublicArtifact, PublicMember, PublicRun, PublicVersion, artifact_id
from kfm.model.records import DatasetVersion, LedgerEntry, ManifestEntry, Record, RefEntry
from kfm.projections import dcat, openlineage, prov, stac
from kfm.projections.live_versions import live_versions

MOST_READ = 1000  # most files of a version that are described from their own bytes
Key = tuple[str, ...]
Documents = Iterator[tuple[str, bytes]]
Changes = Iterator[tuple[str, bytes | None]]


class Catalogued(Record, frozen=True):
    """The facts about a dataset's catalog entry that the follower keeps, to find out later which files must change."""

    standing: tuple[str, ...]  # the versions in the catalog, the current one last
    whole: bool  # whether every entry of the current version has an item
    title: str
    dcat: dict[str, Any]  # its entry in catalog.jsonld
    places: str  # digest of the locations of all files then
    covered: int  # entries of the ledger that a signed head covered then
    has_page: bool = True  # an older KFM wrote it, and a page next to it
    fixes: str = ""  # digest of the hotfixes that it shows


class Cataloguing:
    """The catalog documents of one dataset, from the moves of its published ref."""

    def __init__(
        self,
        state: State,
        objects: Objects,
        places: Places,
        dataset: str,
        moves: Sequence[RefEntry],
        keep: int,
        proofs: Proofs | None = None,
        fixes: str | None = None,
    ) -> None:
        """With `fixes`, the catalog shows the hotfixes in that object; else those that are applied now."""
        self._state = state
        self._objects = objects
        self._places = places
        self.dataset = dataset
        self.standing = tuple(live_versions(moves, keep))
        self._first_moves = {move.after: move for move in reversed(moves)}
        self._entries = _Entries(state, dataset)
        self._proofs = proofs or Proofs(state)
        self._layout = Layout(state, objects, dataset, moves)
        self.fixes = state.refs.at(refs.hotfix(dataset)) if fixes is None else fixes
        self._count = -1  # how many items the collection links to
        self._told: dict[str, PublicRun] = {}
        self._described: PublicVersion | None = None
        self._facts: dict[str, TableFacts] = {}  # of masked files, by digest
        self._public_facts: dict[str, FileFacts] = {}  # of public files, by digest

    # -- the whole entry

    def documents(self) -> Documents:
        """Yield every file of the dataset with its path in the catalog. A file comes after the files that it links
        to."""
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
        keys.sort()
        yield from self._groups(keys).items()
        yield self.collection(keys)

    def catalogued(self) -> Catalogued:
        """Return the facts that the follower stores once the whole catalog entry was written; empty facts if no version
        is published."""
        where = self._where()
        if not self.standing:
            return Catalogued(standing=(), whole=False, title="", dcat={}, places=where, covered=0, has_page=False)
        current = self._current()
        return Catalogued(
            standing=self.standing,
            whole=self._count == current.entries,
            title=str((current.metadata or current.made.metadata).get("title") or ""),
            dcat=dcat.dataset(current, self._places),
            places=where,
            covered=self._proofs.covered,
            has_page=False,
            fixes=self.fixes,
        )

    # -- the files that a change touches

    def since(self, known: Catalogued) -> Changes | None:
        """Return the files that differ from what the catalog says, None for a file to remove. Return None where
        versions were dropped or withdrawn, or a location or a hotfix changed: then the whole entry is written again."""
        if not (known.whole and known.standing and self.standing) or known.places != self._where():
            return None
        if known.fixes != self.fixes:
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
        """Yield the changed catalog files after the dataset moved forward, from version `before` to one that was made
        from it."""
        gone = yield from self._touched(before, runs)
        for run in runs:
            yield from self._about(run)
        yield self._history()
        for version in self.standing[-3:-1]:  # the one before it led to the current one, where this one was then
            yield self._superseded(version)
        gone += yield from self._regrouped(before)
        yield self._collected()
        yield from gone

    def _gone_back(self, known: Sequence[str], runs: Sequence[PublicRun]) -> Changes:
        """Yield the changed catalog files after the dataset moved back to a version from which the known one
        was made."""
        gone = yield from self._touched(known[-1], runs)
        if runs:
            for version in self.standing[-2:-1]:
                yield self._superseded(version)
            yield self._history()
            gone += yield from self._regrouped(known[-1])
            yield self._collected()
            yield from gone
        kept = {record.run_id for version in self.standing for record in self._records(version)}
        for run in runs:
            if run.run_id not in kept:
                yield from ((path, None) for path in run_paths(self.dataset, run.run_id))
        for version in known[len(self.standing) - 1 : -1]:
            yield stac.version_path(self.dataset, version), None

    def _until(self, version: str, before: str) -> list[PublicRun] | None:
        """Return the runs that made `version` from `before`, the newest first; None if `version` was not made from
        `before`."""
        found: list[PublicRun] = []
        for record in self._records(version):
            if record.digest == before:
                return found
            found.append(self._run(record))
        return None

    def _touched(
        self, before: str, runs: Sequence[PublicRun]
    ) -> Generator[tuple[str, bytes | None], None, list[tuple[str, None]]]:
        """Yield the items of everything that these runs made, as the current version has them. Return the keys that it
        does not have."""
        current = self.standing[-1]
        touched = {artifact.key for run in runs for artifact in run.artifacts}
        touched.update(change.key for change in manifests.changes(self._objects, before, current))
        there = {key for key in touched if manifests.find(self._objects, current, key) is not None}
        for path, body, _ in self._items(there):
            yield path, body
        return [(stac.item_path(self.dataset, key), None) for key in sorted(touched - there)]

    def _where(self) -> str:
        """Return a digest of the locations of all files. It is another one once the items are in groups."""
        record = self._record(self.standing[-1]) if self.standing else None
        grouped = ["groups"] if record is not None and record.entries > stac.GROUPED else []
        return digest(b"".join(map(canonical, (self._places, *grouped))))

    def _groups(self, keys: Sequence[Key]) -> dict[str, bytes]:
        """Return the groups of items by path; none if the collection links to the items themselves."""
        if len(keys) <= stac.GROUPED:
            return {}
        groups = stac.groups_of(keys)
        return {stac.group_path(self.dataset, each[-1]): canonical(stac.group(self.dataset, each)) for each in groups}

    def _regrouped(self, before: str) -> Generator[tuple[str, bytes | None], None, list[tuple[str, None]]]:
        """Yield the groups of items that differ from those of the version before. Return those that are gone."""
        if all(change.what == "changed" for change in manifests.changes(self._objects, before, self.standing[-1])):
            return []
        old, new = (
            self._groups([entry.key for entry in manifests.entries(self._objects, version)])
            for version in (before, self.standing[-1])
        )
        yield from ((path, body) for path, body in new.items() if old.get(path) != body)
        return [(path, None) for path in old if path not in new]

    def _collected(self) -> tuple[str, bytes]:
        """Return the path and the bytes of the STAC collection of the current version, with a link to the item of each
        entry."""
        keys = [entry.key for entry in manifests.entries(self._objects, self.standing[-1])]
        self._count = len(keys)
        return self.collection(keys)

    def versions(self) -> Documents:
        """Yield the published versions as collections, the current one first."""
        yield self._collected()
        for version in reversed(self.standing[:-1]):
            yield self._superseded(version)

    def items(self) -> Iterator[bytes]:
        """Yield the items of the current version in the order in which they were made."""
        return (body for _, body, _ in self._items())

    def collection(self, keys: Sequence[Key]) -> tuple[str, bytes]:
        body = canonical(stac.collection(self._current(), keys, self._places))
        return stac.collection_path(self.dataset), body

    def _superseded(self, version: str) -> tuple[str, bytes]:
        body = canonical(stac.collection(self._version(version), (), self._places))
        return stac.version_path(self.dataset, version), body

    def _items(self, only: Set[Key] | None = None) -> Iterator[tuple[str, bytes, Key]]:
        """Yield the items of the current version, each with the run that made it: all items, or those of some keys."""
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
                    if _is_masked(run):
                        placed = self._with_facts(placed)
                    elif run.labels is None:
                        placed = self._read(placed)
                    path = stac.item_path(self.dataset, artifact.key)
                    yield path, items.item_bytes(placed), artifact.key
            seen.update(run.removed)

    def _placed(self, artifact: PublicArtifact, home: str) -> PublicArtifact:
        """Return an entry with its public path, which is in the oldest live version that has it."""
        entry = ManifestEntry(
            key=artifact.key, digest=artifact.digest, size=artifact.size, media_type=artifact.media_type
        )
        path = self._path(home, entry).removeprefix(f"datasets/{self.dataset}/")
        return msgspec.structs.replace(artifact, path=path)

    def _with_facts(self, artifact: PublicArtifact) -> PublicArtifact:
        """Return a masked artifact with what its published bytes say: columns, row count, and the extent of its cells
        where the artifact has no extent of its own."""
        facts = self._facts.get(artifact.digest)
        if facts is None:
            facts = self._facts[artifact.digest] = table_facts(self._objects, artifact.digest, artifact.media_type)
        return msgspec.structs.replace(
            artifact, bbox=artifact.bbox or facts.bbox, columns=facts.columns, rows=facts.rows
        )

    def _read(self, artifact: PublicArtifact) -> PublicArtifact:
        """Return a public artifact with what its bytes say. Each file is read once."""
        facts = self._public_facts.get(artifact.digest)
        if facts is None:
            facts = self._public_facts[artifact.digest] = file_facts(self._objects, artifact)
        return with_facts(artifact, facts)

    def _public_files(self, record: DatasetVersion) -> tuple[PublicArtifact, ...]:
        """Return all files of a public version with their facts; none if they are too many or too large to be read."""
        if record.entries > MOST_READ or record.size > LARGEST:
            return ()
        return tuple(map(self._read, self._listed(record.digest)))

    def _path(self, version: str, entry: ManifestEntry) -> str:
        """Return the path of a file in the public folder, given the version that it is published with."""
        return self._layout.path(version, entry)

    def _masked_files(self, version: str) -> tuple[PublicArtifact, ...]:
        """Return the first files of a masked version, with their facts."""
        return tuple(map(self._with_facts, self._listed(version)))

    def _listed(self, version: str) -> list[PublicArtifact]:
        """Return the first files of a version."""
        entries = list(islice(manifests.entries(self._objects, version), MOST_READ))
        home = self._homes({entry.key for entry in entries})
        found = []
        for entry in entries:
            path = self._path(home.get(entry.key, self.standing[0]), entry)
            found.append(
                PublicArtifact(
                    id=artifact_id(self.dataset, entry.key), key=entry.key, digest=entry.digest, size=entry.size,
                    media_type=entry.media_type, path=path.removeprefix(f"datasets/{self.dataset}/"), bbox=entry.bbox,
                    datetime=entry.datetime, stac_id=entry.stac_id,
                )
            )  # fmt: skip
        return found

    def _homes(self, only: Set[Key] | None) -> dict[Key, str]:
        """Return, for each key that changed since the oldest live version, the version in which it got its present
        content."""
        found: dict[Key, str] = {}
        for before, after in zip(self.standing[-2::-1], self.standing[:0:-1], strict=True):
            if only is not None and only <= found.keys():
                break
            for change in manifests.changes(self._objects, before, after):
                found.setdefault(change.key, after)
        return found

    def _runs(self) -> Documents:
        """Yield the documents about each run that led to a live version."""
        for record in self._makers():
            yield from self._about(self._run(record))
        yield self._history()

    def _about(self, run: PublicRun) -> Documents:
        """Yield the documents about one run: proof, PROV and OpenLineage."""
        proof, bundle, events = run_paths(self.dataset, run.run_id)
        yield proof, self._proofs.of(run)
        yield bundle, prov.to_bytes(prov.prov_json(run))
        yield events, canonical(openlineage.events(run))

    def _history(self) -> tuple[str, bytes]:
        """Return the list of runs that led to the live versions, the newest first, with links to the documents about
        each."""
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
        """Yield the proofs of the runs that a signed head covers now, but not when it covered `covered` entries."""
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
        """Yield a version and those it was made from, the newest first."""
        while version:
            record = self._record(version)
            yield record
            version = record.supersedes

    def _run(self, version: DatasetVersion) -> PublicRun:
        found = self._told.get(version.run_id)
        if found is None:
            found = public_run(self._state, self._objects, self._entries.of(version.run_id))
            self._told = {version.run_id: found}  # only the last one is kept: a record may name very many artifacts
        return found

    def _current(self) -> PublicVersion:
        if self._described is None:
            self._described = self._version(self.standing[-1])
        return self._described

    def _version(self, version: str) -> PublicVersion:
        record, at = self._record(version), self.standing.index(version)
        box, interval = around(self._objects, version)
        *_, (_, listing, size, _) = self._layout.listings(version, version)
        made = public_run(self._state, self._objects, self._entries.of(record.run_id), parts=False)
        files = self._masked_files(version) if _is_masked(made) else ()
        described = self._public_files(record) if made.labels is None else ()
        if files and len(files) == record.entries:  # a box around some of the files would be wrong
            box = box_around([each.bbox for each in files if each.bbox])
        elif described:
            box, interval = _around(described)
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
            metadata=self._metadata(version, made),
            listing=listing,
            listing_size=size,
            files=files,
            published_by=first.run_id if (first := self._first_moves.get(version)) is not None else "",
            members=self._members(record) if made.labels is None or files else (),
            described=described,
        )

    def _members(self, record: DatasetVersion) -> tuple[PublicMember, ...]:
        """Return the entries of a version with the paths of their files; () if they are too many for a catalog."""
        if record.entries > dcat.PARTS:
            return ()
        own = f"datasets/{self.dataset}/"
        return tuple(
            PublicMember(
                id=artifact_id(self.dataset, entry.key),
                digest=entry.digest,
                path=self._path(record.digest, entry).removeprefix(own),
            )
            for entry in manifests.entries(self._objects, record.digest)
        )

    def _published_at(self, version: str) -> str:
        """Return when a version was first published; "" if it never was."""
        move = self._first_moves.get(version)
        return move.ts if move is not None else ""

    def _metadata(self, version: str, made: PublicRun) -> dict[str, Any]:
        """Return what a version says about itself besides the run that made it: its metadata with the hotfixes that
        hold for it, or what the run that published it says; {} if the run that made it says everything."""
        said = {} if made.metadata else self._published_metadata(version)
        return corrected(said or made.metadata, version, fixes_at(self._objects, self.fixes)) if self.fixes else said

    def _published_metadata(self, version: str) -> dict[str, Any]:
        """Return what the run that first published a version says about it. The run that made a masked version says
        nothing: the leak scan reads title, licence and so on only when it is published."""
        move = self._first_moves.get(version)
        if move is None or self._state.ledger.receipt(move.run_id) is None:  # a gate looks before it is published
            return {}
        return public_run(self._state, self._objects, self._entries.of(move.run_id), parts=False).metadata


def _is_masked(made: PublicRun) -> bool:
    """Return whether the files of a run are masked data, which was approved for the public."""
    return made.labels is not None and made.labels.level == "generalised"


class _Entries:
    """Finds ledger entries by run. It reads from the newest entry backwards, and only as far as needed."""

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
    """Return the paths of a run's proof, PROV and OpenLineage documents."""
    about = f"{dataset}/runs/{run_id}"
    return f"{about}.proof.json", f"{about}.prov.json", f"{about}.openlineage.json"


def around(objects: Objects, version: str) -> tuple[tuple[float, ...], tuple[str, str]]:
    """Return the bounding box and the time interval of all outputs of a version."""
    return _around(manifests.entries(objects, version))


def _around(entries: Iterable[ManifestEntry | PublicArtifact]) -> tuple[tuple[float, ...], tuple[str, str]]:
    boxes, times = [], []
    for entry in entries:
        if entry.bbox:
            boxes.append(entry.bbox)
        if entry.datetime:
            start, _, end = entry.datetime.partition("/")
            times.append((start, end or start))
    box = box_around(boxes)
    if not times or any(".." in pair for pair in times):
        starts = [start for start, _ in times]
        return box, ("" if not starts or ".." in starts else min(starts), "")
    return box, (min(start for start, _ in times), max(end for _, end in times))


def roots(told: Sequence[tuple[str, Catalogued]], places: Places) -> Documents:
    """Yield catalog.jsonld and catalog.json, for the datasets that have a published version."""
    stand = [(name, each) for name, each in told if each.standing]
    document = dcat.catalog((), places)
    document["dataset"] = [each.dcat for _, each in sorted(stand, key=lambda pair: pair[0])]
    yield dcat.PATH, dcat.to_bytes(document)
    yield stac.ROOT, canonical(stac.catalog([(name, each.title) for name, each in stand], places))
