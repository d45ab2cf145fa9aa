"""The content of a dataset's public page, from its published versions and the public files of the current one.

A page is cheap: however many files a version has, only the first of them are read, and the page says so. The content
depends on the published ref alone, so a page that is built again is the same byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec

from kfm.delivery.corrections import correction_of
from kfm.delivery.file_facts import file_facts, with_facts
from kfm.delivery.masked_tables import box_around, table_facts
from kfm.delivery.page_samples import BYTES, CORNERS, FILES, FoundPlaces, first_rows, places_in
from kfm.delivery.public_layout import Layout
from kfm.delivery.public_runs import entry_of, public_run
from kfm.delivery.upstream_runs import public_explanation
from kfm.errors import BadInput, Corrupt
from kfm.model import manifests
from kfm.model.ports import Objects, State
from kfm.model.public_run import Places, PublicArtifact, PublicRun, PublicVersion, artifact_id
from kfm.model.records import DatasetVersion, RefEntry
from kfm.parsing import pmtiles
from kfm.projections import dataset_pages
from kfm.projections.dataset_pages import DatasetPage, PageFile, PageMap, PageSample, PageVersion
from kfm.projections.explanation import Explanation
from kfm.projections.live_versions import live_versions, withdrawn_versions
from kfm.validation.findings import Unreadable
from kfm.validation.json_records import ListInJson

VERSIONS = 50  # most versions that a page lists
COMPARED = 10  # the newest of them, whose changed files are compared row by row
GRIDS = 4  # most files of grids that are described: each is read in a process of its own
_LINES = ("text/csv", "application/x-ndjson")


class PageContent:
    """The page and the explanation of one dataset, from the moves of its published ref."""

    def __init__(
        self, state: State, objects: Objects, places: Places, dataset: str, moves: Sequence[RefEntry], keep: int
    ) -> None:
        self._state = state
        self._objects = objects
        self._places = places
        self.dataset = dataset
        self._moves = moves
        self.standing = tuple(live_versions(moves, keep))
        self._first_moves = {move.after: move for move in reversed(moves)}

    def page(self) -> DatasetPage:
        """Return everything that the page of the current version shows."""
        current = self.version
        own = f"datasets/{self.dataset}/"
        return DatasetPage(
            version=current,
            files=[
                PageFile(each.key, own + each.path, each.size, each.digest, each.media_type)
                for each in self._listed[: dataset_pages.MOST]
            ],
            versions=list(self._versions()),
            earlier=max(0, len(self._history()) - VERSIONS),
            sample=self.sample,
            map=self._map(),
            whole=len(self._described) == current.entries,
        )

    def explanation(self) -> Explanation:
        """Return how the current version was produced."""
        version = self.version
        correction = correction_of(self._state, self._objects, self.dataset, version.digest)
        return public_explanation(self._state, self._objects, version.made, version.published_by, correction)

    @cached_property
    def version(self) -> PublicVersion:
        """The current version with the facts of the first files."""
        digest = self.standing[-1]
        record, first = self._record(digest), self._first_moves.get(digest)
        boxes = [each.bbox for each in self._described if each.bbox]
        whole = len(self._described) == record.entries
        return PublicVersion(
            dataset=self.dataset,
            digest=digest,
            made=self._made,
            entries=record.entries,
            size=record.size,
            published_at=first.ts if first is not None else "",
            previous=self.standing[-2] if len(self.standing) > 1 else "",
            latest=digest,
            bbox=box_around(boxes) if whole else (),
            interval=_interval(self._described) if whole else ("", ""),
            metadata=self._metadata(digest, first),
            files=self._described if _is_masked(self._made) else (),
            published_by=first.run_id if first is not None else "",
            described=self._described if self._made.labels is None else (),
        )

    @cached_property
    def _made(self) -> PublicRun:
        record = self._record(self.standing[-1])
        return public_run(self._state, self._objects, entry_of(self._state, record.run_id), parts=False)

    @cached_property
    def _listed(self) -> list[PublicArtifact]:
        """The first files of the current version; none if their names are not public."""
        if self._made.labels is not None and not _is_masked(self._made):
            return []
        own, digest = f"datasets/{self.dataset}/", self.standing[-1]
        most = max(FILES, dataset_pages.MOST)
        layout = Layout(self._state, self._objects, self.dataset)
        return [
            PublicArtifact(
                id=artifact_id(self.dataset, entry.key), key=entry.key, digest=entry.digest, size=entry.size,
                media_type=entry.media_type, path=layout.path(digest, entry).removeprefix(own),
                bbox=entry.bbox, datetime=entry.datetime, stac_id=entry.stac_id,
            )
            for entry in islice(manifests.entries(self._objects, digest), most)
        ]  # fmt: skip

    @cached_property
    def _described(self) -> tuple[PublicArtifact, ...]:
        """The first files with what their own bytes say; none of them is large."""
        found, left, grids = [], BYTES, 0
        for each in self._listed[:FILES]:
            is_grid = each.media_type.startswith(
                ("image/", "application/netcdf", "application/wmo", "application/vnd.zarr")
            )
            grids += is_grid
            if each.size > left or (is_grid and grids > GRIDS):
                break
            left -= each.size
            if _is_masked(self._made):
                said = table_facts(self._objects, each.digest, each.media_type)
                found.append(msgspec.structs.replace(each, bbox=said.bbox, columns=said.columns, rows=said.rows))
            else:
                found.append(with_facts(each, file_facts(self._objects, each)))
        return tuple(found)

    @cached_property
    def sample(self) -> tuple[PageFile, PageSample] | None:
        """The first rows of the first file that is a table and not too large."""
        for each in self._listed[:3]:
            sample = first_rows(self._objects, each) if each.size <= BYTES else None
            if sample is not None and sample.rows:
                path = f"datasets/{self.dataset}/{each.path}"
                return PageFile(each.key, path, each.size, each.digest, each.media_type), sample
        return None

    def places(self, corners: int = CORNERS) -> FoundPlaces:
        """Return the places in the first files; of lines and areas at most so many corners, then their boxes."""
        known = {each.digest: each for each in self._described}
        files = [known.get(each.digest, each) for each in self._listed]
        return places_in(self._objects, files, masked=_is_masked(self._made), corners=corners)

    def tile_path(self) -> str:
        """Return the path of the first file of map tiles below the folder of the dataset; empty if there is none."""
        tiles = (each.path for each in self._listed if each.media_type.partition(";")[0].strip() == pmtiles.MEDIA_TYPE)
        return next(tiles, "")

    def _map(self) -> PageMap | None:
        found = self.places()
        if not found.drawing.places():
            return None
        return PageMap(found.drawing, found.files)

    # -- versions

    def _history(self) -> list[tuple[str, RefEntry | None]]:
        """Return the versions that are public or were withdrawn, the newest first, each with the move that withdrew
        it. A superseded version that is no longer kept is not listed."""
        withdrawn = withdrawn_versions(self._moves)
        live = set(self.standing)
        seen = dict.fromkeys(move.after for move in reversed(self._moves) if move.after)
        return [(each, withdrawn.get(each)) for each in seen if each in live or each in withdrawn]

    def _versions(self) -> Iterator[PageVersion]:
        before = dict(zip(self.standing[1:], self.standing[:-1], strict=True))
        left = BYTES
        for number, (version, gone) in enumerate(self._history()[:VERSIONS]):
            record, first = self._record(version), self._first_moves[version]
            if gone is not None:  # only when it was there: whatever it held is no longer public
                yield PageVersion(version, first.ts, withdrawn_at=gone.ts)
                continue
            files, rows = None, None
            if version in before:
                files, changed = self._changes(before[version], version)
                size = sum(old.size + new.size for old, new in changed)
                if number < COMPARED and self._made.labels is None and changed and size <= left:
                    left -= size
                    rows = self._rows_changed(changed)
            is_first = version == self._moves[0].after
            yield PageVersion(version, first.ts, record.entries, record.size, files, rows, is_first=is_first)

    def _changes(self, before: str, after: str) -> tuple[tuple[int, int, int], list[tuple[Any, Any]]]:
        """Return how many files were added, changed and removed, and the first pairs of changed files."""
        added = removed = changed = 0
        pairs: list[tuple[Any, Any]] = []
        for change in manifests.changes(self._objects, before, after):
            if change.old is None:
                added += 1
            elif change.new is None:
                removed += 1
            else:
                changed += 1
                if len(pairs) <= FILES:
                    pairs.append((change.old, change.new))
        return (added, changed, removed), pairs if len(pairs) == changed and not (added or removed) else []

    def _rows_changed(self, pairs: Iterable[tuple[Any, Any]]) -> tuple[int, int] | None:
        """Return how many rows were added and removed in changed files; None if a file has no rows that can be told
        apart."""
        added = removed = 0
        for old, new in pairs:
            rows = self._rows(old), self._rows(new)
            if rows[0] is None or rows[1] is None:
                return None
            removed += (rows[0] - rows[1]).total()
            added += (rows[1] - rows[0]).total()
        return added, removed

    def _rows(self, entry: Any) -> Counter[bytes] | None:
        kind = entry.media_type.partition(";")[0].strip().lower()
        try:
            with self._objects.open(entry.digest) as file:
                if kind in _LINES:
                    return Counter(line for line in file if line.strip())
                if kind in ("application/geo+json", "application/json"):
                    return Counter(ListInJson(file, "features" if "geo" in kind else "").records())
        except (Corrupt, BadInput, Unreadable, ValueError):
            pass
        return None

    def _record(self, version: str) -> DatasetVersion:
        record = self._state.ledger.version(self.dataset, version)
        if record is None:
            raise Corrupt(f"version {version} of {self.dataset} has no record", hint="see `kfm doctor --deep`")
        return record

    def _metadata(self, version: str, first: RefEntry | None) -> dict[str, Any]:
        """Return the metadata of the version with the hotfixes that hold for it, or what the run that published it
        says; {} if the run that made it says everything."""
        said = {} if self._made.metadata else self._published_metadata(first)
        correction = correction_of(self._state, self._objects, self.dataset, version)
        return said if correction is None else correction.of(said or self._made.metadata)

    def _published_metadata(self, move: RefEntry | None) -> dict[str, Any]:
        """Return what the run that first published the version says about it. The run that made a masked version says
        nothing: the leak scan reads title, licence and so on only when it is published."""
        if move is None or self._state.ledger.receipt(move.run_id) is None:
            return {}
        return public_run(self._state, self._objects, entry_of(self._state, move.run_id), parts=False).metadata


def _is_masked(made: PublicRun) -> bool:
    """Return whether the files of a run are masked data, which was approved for the public."""
    return made.labels is not None and made.labels.level == "generalised"


def _interval(files: Iterable[PublicArtifact]) -> tuple[str, str]:
    """Return the first and the last moment of files; empty if one of them is open."""
    pairs = [each.datetime.partition("/")[::2] for each in files if each.datetime]
    if not pairs or any(".." in pair for pair in pairs):
        return "", ""
    return min(start for start, _ in pairs), max(end or start for start, end in pairs)
