"""The files next to the pages for programs: the feed of versions, the citation, and the checksums of each version."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kfm.delivery.page_content import PageContent
from kfm.delivery.public_layout import Layout
from kfm.model import manifests
from kfm.model.ports import Objects, State
from kfm.model.public_run import Places
from kfm.model.records import RefEntry
from kfm.projections.pages.checksum_list import FILES, sha256sums
from kfm.projections.pages.citation import citation
from kfm.projections.pages.public_addresses import citation_path, feed_path, sums_path
from kfm.projections.pages.version_feed import Counts, version_feed


class PublicMetadata:
    """These files of one dataset, from the moves of its published ref. A withdrawn dataset has only the feed, which
    says so."""

    def __init__(
        self, state: State, objects: Objects, places: Places, found: PageContent, moves: Sequence[RefEntry]
    ) -> None:
        self._state = state
        self._objects = objects
        self._places = places
        self._found = found
        self._moves = moves

    def paths(self) -> set[str]:
        """Return the paths of all these files."""
        dataset = self._found.dataset
        found = {sums_path(dataset, version) for version in self._found.standing}
        if self._found.standing:
            found.add(citation_path(dataset))
        return found | {feed_path(dataset)} if self._moves else found

    def stale(self, noted: int) -> set[str]:
        """Return the paths of files that a report may have left that was killed before it was noted, given the number
        of the last move that was."""
        dataset = self._found.dataset
        found = {sums_path(dataset, move.after) for move in self._moves if move.n > noted and move.after}
        return (found | {citation_path(dataset)}) - self.paths() if found else set()

    def files(self, known: Collection[str] = ()) -> Iterator[tuple[str, bytes]]:
        """Yield path and body of each file. Checksums at a known path are left out: a version never changes."""
        dataset, places, standing = self._found.dataset, self._places, self._found.standing
        for version in standing:
            path = sums_path(dataset, version)
            if path not in known:
                yield path, self._sums(version, path)
        title, live = dataset, {}
        if standing:
            current = self._found.version
            yield citation_path(dataset), citation(current, places)
            title = str((current.metadata or current.made.metadata).get("title") or dataset)
            live = {version: self._counts(version) for version in standing}
        if self._moves:
            yield feed_path(dataset), version_feed(dataset, title, self._moves, live, places)

    def _counts(self, version: str) -> Counts | None:
        """Return the counts of a version; None if it is masked."""
        record = self._state.ledger.version(self._found.dataset, version)
        return None if record is None or record.standing is not None else Counts(record.entries, record.size)

    def _sums(self, version: str, here: str) -> bytes:
        layout = Layout(self._state, self._objects, self._found.dataset)
        if manifests.extent(self._objects, version)[0] > FILES:
            *_, root = layout.listings(version, version)
            return sha256sums([(root.path, root.digest)], here)
        entries = manifests.entries(self._objects, version)
        return sha256sums(((layout.path(version, entry), entry.digest) for entry in entries), here)
