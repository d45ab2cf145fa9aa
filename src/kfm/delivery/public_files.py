"""Writes receipts and public files after the commit, at least once, behind a cursor in the ledger.

Every receipt is exported. For a dataset only its present state is published, however many moves led there: the version
at the published ref, and what that replaces. Everything can be written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kfm.errors import Corrupt, Frozen, KfmError, Moved
from kfm.model import manifests, refs
from kfm.model.keys import digest, output_key
from kfm.model.outbox_messages import PUBLIC as PUBLIC
from kfm.model.outbox_messages import OutboxTx, concerned
from kfm.model.ports import Log, Objects, PublicFile, Publisher, State, Tx
from kfm.model.records import Receipt, RefEntry, SinkPosition
from kfm.projections.file_paths import (
    checkpoint_path,
    list_path,
    part_folder,
    part_path,
    pointer_path,
    receipt_path,
    shared_folder,
    shared_path,
    version_path,
)
from kfm.projections.live_versions import ALL, last_move, live_versions, pointer_of

RECEIPTS, CHECKPOINTS = "receipts", "checkpoints"  # the other sinks
BATCH = 256  # receipts between two moves of the cursor


def deliver(
    state: State,
    objects: Objects,
    publisher: Publisher,
    log: Log,
    *,
    sync: bool,
    retention: Callable[[str], int] = lambda _dataset: ALL,
    waits: Callable[[], bool] = lambda: False,
) -> list[tuple[str, KfmError]]:
    """Make pending work durable, then publish it. Commits by other processes meanwhile wait for the next call, because
    they may not be durable yet.

    Raise only before anything is durable. A problem after that leaves its dataset pending and is returned, with the
    dataset where it concerns only one: a frozen or damaged dataset delays no other.
    """
    with state.transaction(durable=sync) as tx:
        newest = follow(state, tx)
        due = [(dataset, list(state.refs.history(refs.published(dataset)))) for dataset in state.outbox.due(PUBLIC)]
    problems: list[tuple[str, KfmError]] = []
    done: dict[str, Telling] = {}
    try:
        for dataset, moves in due:
            telling = Telling(state, objects, publisher, log, dataset, moves, retention(dataset), waits)
            try:
                telling.all()
            except (Frozen, Moved):  # it waits for the thaw; a later delivery publishes what came after
                pass
            except Corrupt as problem:
                problems.append((dataset, problem))
            except KfmError as problem:  # the folder itself failed: the other datasets would fail too
                problems.append(("", problem))
                break
            finally:
                done[dataset] = telling
        if done:
            told = {dataset: telling.told for dataset, telling in done.items()}
            state.outbox.acknowledge(PUBLIC, told, lambda outbox: _keep_layouts(outbox, done.values()))
        _export_receipts(state, publisher, newest)
        export_checkpoints(state, publisher, newest)
    except KfmError as problem:
        problems.append(("", problem))
    return problems


def follow(state: State, tx: Tx) -> int:
    """Read the ledger from the cursor to its end, mark the datasets concerned as pending, and return the end."""
    newest = state.outbox.cursor(PUBLIC)
    for entry in state.ledger.entries(after=newest):
        newest = entry.index
        for dataset in concerned(entry):
            tx.outbox.owe(PUBLIC, dataset)
    tx.outbox.advance(PUBLIC, newest)
    tx.touch()
    return newest


class Telling:
    """Brings the public files of one dataset to its present state.

    While a freeze flag is set, nothing is added or changed. Removals happen at once and before everything else, so a
    withdrawal takes effect although later moves wait or are damaged.
    """

    def __init__(
        self,
        state: State,
        objects: Objects,
        publisher: Publisher,
        log: Log,
        dataset: str,
        moves: Sequence[RefEntry],
        keep: int,
        waits: Callable[[], bool] = lambda: False,
    ) -> None:
        self._state = state
        self._objects = objects
        self._publisher = publisher
        self._log = log
        self._dataset = dataset
        self._moves = moves
        self._keep = keep
        self._waits = waits
        from kfm.delivery.public_layout import Layout  # a run that delivers nothing starts without it

        self._layout = Layout(state, objects, dataset, moves, shares=publisher.shares_files)
        self._is_noted = False
        self.told = state.outbox.told(PUBLIC, dataset) or SinkPosition(moves=0, keep=keep)

    def all(self) -> None:
        """Write and remove what the moves ask for. Raise Moved if another process moved the ref meanwhile."""
        try:
            self._all()
        except KfmError:
            self._take_back()
            raise

    def _all(self) -> None:
        withdrawn = max((move.n for move in self._moves if not move.after), default=0)
        if withdrawn and (withdrawn > self.told.moves or withdrawn == len(self._moves)):
            self._tell(self._moves[:withdrawn])
        if withdrawn < len(self._moves):
            self._check()
            self._tell(self._moves)

    def _tell(self, moves: Sequence[RefEntry]) -> None:
        stay, last = live_versions(moves, self._keep), moves[-1]
        outside = live_versions(moves[: self.told.moves], self.told.keep)
        new = moves[self.told.moves :]
        there = list(filter(self._is_there, outside)) if new else []  # a repeated request compares every file
        base = there[-1] if there else ""
        for version in stay[:-1]:
            if version not in outside:
                try:
                    self._write(version, base)
                except Corrupt as problem:  # abandoned: the dataset has moved on, and no reader needs the version
                    self._log.event("publish.abandoned", dataset_ids=[self._dataset], error=problem)
        if stay:
            self._write(stay[-1], stay[-1] if stay[-1] in there else base)
            self._check()
        key = f"{last.ref}/{last.run_id}"
        self._publisher.update_metadata(pointer_path(self._dataset), pointer_of(last), key)
        for move in new:
            if not move.after or move.after in stay:
                self._announce(move)
        gone = dict.fromkeys([*outside, *(move.after for move in new if move.after)])
        self._remove_all([version for version in gone if version not in stay], stay, key)
        for move in moves[: self.told.moves]:  # a version that was published again has a newer list
            if any(move.after == one.after for one in new):
                self._remove_list(move, key)
        self.told = SinkPosition(moves=last.n, keep=self._keep)

    def keep_layout(self, outbox: OutboxTx) -> None:
        """Store how the public files lie, if a version shares files."""
        if self._is_noted:
            self._layout.keep(outbox)

    def _is_there(self, version: str) -> bool:
        """Return whether all files of a version are there to be shared. Its listing says so: it is written after them
        and removed before them, and it is missing where the folder is another one than before."""
        try:
            root = self._layout.is_shared(version) and f"{version_path(self._dataset, version)}.ndjson"
        except Corrupt:
            return False
        return bool(root) and self._publisher.has_file(str(root), version)

    def clear(self, files: Sequence[str], folders: Sequence[str]) -> None:
        """Remove files of versions that were never published or are no longer live."""
        for path in files:
            self._publisher.remove_file(path, f"repair/{path}", self._check_last)
        for folder in folders:
            self._publisher.remove_rest(folder, self._check_last)
        self._publisher.sync_removed(self._check_last)

    def mend(self, altered: Sequence[str]) -> None:
        """Write every file of the live versions that is missing or damaged. Nothing is announced, because no ref
        moved."""
        self._check()
        for path in altered:
            self._publisher.remove_file(path, f"repair/{path}", self._check)
        try:
            for version in live_versions(self._moves, self._keep):
                self._write(version)
            self._check()
        except KfmError:
            self._take_back()
            raise
        last = self._moves[-1]
        pointer = pointer_of(last)
        self._publisher.update_metadata(pointer_path(self._dataset), pointer, f"{last.ref}/{last.run_id}")

    def _take_back(self) -> None:
        """Remove the files of versions that stopped being live while this process may have written them. The process
        that rolled them back removed only the files that it found. In a folder its lock makes it wait; a lock in the
        state may have expired meanwhile."""
        written = live_versions(self._moves, self._keep)
        while True:
            self._moves = list(self._state.refs.history(refs.published(self._dataset)))
            stay, last = live_versions(self._moves, self._keep), self._moves[-1]
            gone = [version for version in written if version not in stay]
            try:
                self._remove_all(gone, stay, f"{last.ref}/{last.run_id}")
                return
            except Moved:  # once more: one of them may be live again
                continue

    def _write(self, version: str, base: str = "") -> None:
        """Write the files of a version. Those that it shares with `base` are there already."""
        if base:
            try:
                self._write_files(version, base)
                return
            except Corrupt:  # a damaged older version delays no newer one
                pass
        self._write_files(version, "")

    def _write_files(self, version: str, base: str) -> None:
        dataset, objects, write = self._dataset, self._objects, self._publisher.write_file
        made = self._state.ledger.version(dataset, version)
        maker = (made.updater_id, made.updater_version) if made else ("", "")
        self._is_noted = self._is_noted or self._layout.is_large(version)
        folder = shared_folder(dataset) if self._layout.is_shared(version) else version_path(dataset, version)
        files = (
            PublicFile(
                self._layout.path(version, entry),
                entry.digest,
                entry.size,
                output_key(*maker, entry.key, entry.digest),
                _chunks(objects, entry.digest),
            )
            for entry in self._layout.entries(version, base)
        )
        self._publisher.write_files(folder, files, self._check)
        # The listing, for readers who see only the files. Its root is written when all that it names is durable.
        *parts, root = (
            PublicFile(each.path, each.digest, each.size, f"published/{dataset}/{version}/manifest", body)
            for each in self._layout.listings(version, base)
            for body in [_chunks(objects, each.object) if each.object else manifests.listing(objects, version)]
        )
        self._publisher.write_files(folder, parts, self._check)
        self._publisher.write_files(folder, [root], self._check)
        for path, envelope in self._lists(version):
            key = f"published/{dataset}/{version}/list"
            write(path, digest(envelope), len(envelope), key, self._checked(iter([envelope])))

    def _lists(self, version: str) -> Iterator[tuple[str, bytes]]:
        if (move := last_move(self._moves, version)) is not None:
            yield from public_list(self._state, self._dataset, move)

    def _announce(self, move: RefEntry) -> None:
        if move.after:
            self._check()
        kind = "published" if move.after else "withdrawn"
        self._publisher.emit_event(
            {
                "type": f"org.kfm.dataset.{kind}.v1",
                "dataset": self._dataset,
                "version": move.after,
                "run_id": move.run_id,
            },
            f"{move.ref}/{move.run_id}",
        )

    def _remove_all(self, versions: Sequence[str], stay: Sequence[str], key: str) -> None:
        """Remove the files of these versions, except those that a live version shares."""
        # First the listings, durably: a version without one is never taken to have all its files.
        known = {version: self._remove_own(version, key) for version in versions}
        if any(shared is not False for shared in known.values()):
            keep = [version for version in stay if self._layout.is_shared(version)]
            try:
                self._remove_shared([version for version, shared in known.items() if shared], keep, key)
                unknown = None in known.values()
            except Corrupt as problem:
                self._log.event("publish.unlisted", dataset_ids=[self._dataset], error=problem)
                unknown = True
            if unknown:
                self._remove_unknown(keep, key)
            self._publisher.sync_removed(self._check_last)

    def _remove_own(self, version: str, key: str) -> bool | None:
        """Remove what only this version has: its folder, listing and signed lists. Return whether it shares files; None
        if its manifest cannot be read any more."""
        folder = version_path(self._dataset, version)
        shared: bool | None = None
        try:
            shared = self._layout.is_shared(version)
            for entry in () if shared else manifests.entries(self._objects, version):
                self._publisher.remove_file(self._layout.path(version, entry), key, self._check_last)
        except Corrupt as problem:  # it is removed nevertheless
            self._log.event("publish.unlisted", dataset_ids=[self._dataset], error=problem)
        self._publisher.remove_file(f"{folder}.ndjson", key, self._check_last)
        for move in self._moves:
            if move.after == version:
                self._remove_list(move, key)
        self._publisher.remove_rest(folder, self._check_last)
        return shared

    def _remove_shared(self, versions: Sequence[str], keep: Sequence[str], key: str) -> None:
        """Remove the shared files of these versions that no version of `keep` has."""
        before = keep[-1] if keep else ""
        parts = set().union(*map(self._layout.parts, keep))
        for version in versions:
            for entry in self._layout.entries(version, before):
                if not any(self._layout.holds(each, entry) for each in reversed(keep)):
                    self._publisher.remove_file(shared_path(self._dataset, entry), key, self._check_last)
            for name in manifests.further_parts(self._objects, before, version):
                if name not in parts:
                    self._publisher.remove_file(part_path(self._dataset, name), key, self._check_last)
            before = version  # the files that the next one shares with it are removed, or kept

    def _remove_unknown(self, keep: Sequence[str], key: str) -> None:
        """Remove every shared file that no version of `keep` has, where a removed version does not say which."""
        folders = shared_folder(self._dataset), part_folder(self._dataset)
        if not keep:
            for folder in folders:
                self._publisher.remove_rest(folder, self._check_last)
            return
        expected = {
            **{shared_path(self._dataset, each): each.digest for v in keep for each in self._layout.entries(v)},
            **{each.path: each.digest for version in keep for each in self._layout.listings(version)},
        }
        for found in self._publisher.differences(self._dataset, expected, ()):
            if found.kind == "foreign" and found.path.startswith(tuple(f"{folder}/" for folder in folders)):
                self._publisher.remove_file(found.path, key, self._check_last)

    def _remove_list(self, move: RefEntry, key: str) -> None:
        for path, _ in public_list(self._state, self._dataset, move):
            self._publisher.remove_file(path, key, self._check_last)

    def _checked(self, body: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the body of a file, after a second check of the freeze flag and of the last move: the publisher now
        holds its lock and is about to write."""
        self._check()
        yield from body

    def _check(self) -> None:
        for switch in refs.switches(self._dataset):
            if refs.is_frozen(self._state.refs.at(switch)):
                raise Frozen(f"{self._dataset} is frozen", hint="what was committed is kept; a thaw publishes it")
        if self._waits():
            raise Frozen(f"{self._dataset} waits: masks and labels do not match", hint="see `kfm doctor`")
        self._check_last()

    def _check_last(self) -> None:
        """Raise Moved if the ref moved meanwhile. A slow process must not publish what was withdrawn, nor remove what
        was published again."""
        for last in self._state.refs.history(refs.published(self._dataset), reverse=True, limit=1):
            if last.n != len(self._moves):
                raise Moved(f"{last.ref} has moved on", hint="the command that moved it publishes it")


def _keep_layouts(outbox: OutboxTx, tellings: Iterable[Telling]) -> None:
    for each in tellings:
        each.keep_layout(outbox)


def public_list(state: State, dataset: str, move: RefEntry) -> Iterator[tuple[str, bytes]]:
    """Yield the path and envelope of the signed list that the run of a move signed about its version; nothing if it
    signed none."""
    for key, envelope in state.ledger.signed_lists(f"{dataset}@{move.after}") if move.after else ():
        if key.endswith(f"/{move.run_id}"):
            yield list_path(dataset, move.after, move.n), envelope


def _chunks(objects: Objects, name: str) -> Iterator[bytes]:
    with objects.open(name) as file:
        while chunk := file.read(1 << 20):
            yield chunk


def _export_receipts(state: State, publisher: Publisher, newest: int) -> None:
    last = 0
    for entry in state.ledger.entries(after=state.outbox.cursor(RECEIPTS)):
        if entry.index > newest:
            break
        receipt, body = state.ledger.receipt(entry.run_id), state.ledger.receipt_body(entry.run_id)
        if receipt is not None and body is not None:
            _export(publisher, receipt, body)
        last = entry.index
        if not last % BATCH:
            _note_exported(state, last)
    if last:
        _note_exported(state, last)


def _note_exported(state: State, index: int, sink: str = RECEIPTS) -> None:
    with state.transaction(durable=False) as tx:
        tx.outbox.advance(sink, index)


def export_checkpoints(state: State, publisher: Publisher, newest: int) -> None:
    """Export the signed heads of the ledger. A reader who keeps one can detect that the ledger was cut or forked before
    it."""
    last = 0
    for size, note in state.ledger.checkpoints(after=state.outbox.cursor(CHECKPOINTS)):
        if size > newest:
            break
        body = note.encode()
        publisher.write_file(checkpoint_path(size), digest(body), len(body), f"checkpoint/{size}", [body])
        last = size
    if last:
        _note_exported(state, last, CHECKPOINTS)


def _export(publisher: Publisher, receipt: Receipt, body: bytes) -> None:
    """Export a receipt as it is stored."""
    publisher.write_file(receipt_path(receipt), digest(body), len(body), f"receipt/{receipt.run_id}", [body])
