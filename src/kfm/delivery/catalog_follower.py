"""The follower that keeps the catalog current: for each dataset that moved, it writes the files that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from kfm.delivery.catalog_content import Catalogued, Cataloguing, Changes, Documents, roots
from kfm.delivery.catalog_proofs import Proofs
from kfm.delivery.followers import is_frozen
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.outbox_messages import Letter, described
from kfm.model.ports import Objects, State, Tx
from kfm.model.public_run import Places
from kfm.model.records import LedgerEntry, RefEntry
from kfm.projections.file_paths import PAGE

CATALOG = "catalog"  # the sink
_decoder = msgspec.json.Decoder(Catalogued)


def _decode(body: bytes | None) -> Catalogued | None:
    """Return a note; None if there is none, or if another version of KFM wrote it in another form. Then the whole entry
    is written again."""
    try:
        return None if body is None else _decoder.decode(body)
    except msgspec.MsgspecError:
        return None


class CatalogLetters:
    """The messages of the catalog: files by path. A path that ends in / is a folder, in which only named files stay."""

    def __init__(self, state: State, objects: Objects, places: Places, retention: Callable[[str], int]) -> None:
        self._state = state
        self._objects = objects
        self.places = places
        self._retention = retention
        self._done: dict[str, Catalogued] = {}

    def __call__(self, entries: Sequence[LedgerEntry]) -> Iterator[Letter]:
        last = {dataset: entry for entry in entries for dataset in described(entry)}
        done: dict[str, Catalogued] = {}
        removed: list[Letter] = []
        proofs = Proofs(self._state)
        for dataset, entry in sorted(last.items()):
            letters = self._of(dataset, entry, done, proofs)
            for letter in letters:
                if isinstance(letter.body, bytes):
                    yield letter
                else:  # a file is removed only once no other file links to it
                    removed.append(letter)
        known: dict[str, Catalogued] = {}
        if last or proofs.covered:
            for name, body in self._state.outbox.notes(CATALOG):
                known[name] = _decode(body) or self.of(name, proofs).catalogued()
        if last:
            entry = entries[-1]
            for path, body in roots(list({**known, **done}.items()), self.places):
                yield _letter(entry, "", path, body)
            if any(each.has_page for each in known.values()):  # the pages of the public folder took its place
                removed.append(_letter(entry, "", PAGE, None))
                done = {name: msgspec.structs.replace(each, has_page=False) for name, each in known.items()} | done
        for name, before in known.items():
            if name not in done and before.standing and before.covered < proofs.covered:
                now = self.of(name, proofs)
                if now.standing == before.standing:
                    for path, body in now.proved_since(before.covered):
                        yield _letter(entries[-1], name, path, body)
                    done[name] = msgspec.structs.replace(before, covered=proofs.covered)
        yield from removed
        self._done.update(done)

    def note(self, tx: Tx) -> None:
        """Store, for each dataset that was reported, the facts about its catalog entry, in the transaction that
        advances the cursor."""
        for dataset, catalogued in self._done.items():
            tx.outbox.keep_note(CATALOG, dataset, canonical(catalogued))
        self._done = {}

    def forget(self, tx: Tx, entries: Sequence[LedgerEntry]) -> None:
        """Forget what was reported of these datasets, because another process changed their files at the same time.
        The next report writes all their files again, and removes the others."""
        for dataset in sorted({dataset for entry in entries for dataset in described(entry)}):
            tx.outbox.keep_note(CATALOG, dataset, b"")
        self._done = {}

    def of(self, dataset: str, proofs: Proofs | None = None) -> Cataloguing:
        moves = list(self._state.refs.history(refs.published(dataset)))
        if is_frozen(self._state, dataset):  # withdrawals are reported; later moves wait for the thaw
            moves = moves[: max((move.n for move in moves if not move.after), default=0)]
        return self.at(dataset, moves, proofs)

    def standing(self, dataset: str) -> Cataloguing:
        """Return the catalog content that should be there now; for a frozen dataset, what the catalog said last."""
        now, known = self.of(dataset), _decode(self._state.outbox.note(CATALOG, dataset))
        if known is None or not is_frozen(self._state, dataset):
            return now
        if (now.standing, now.fixes) == (known.standing, known.fixes):
            return now
        moves = list(self._state.refs.history(refs.published(dataset)))
        for end in range(len(moves), 0, -1):
            then = self.at(dataset, moves[:end], fixes=known.fixes)
            if then.standing == known.standing:
                return then
        return now

    def at(
        self, dataset: str, moves: Sequence[RefEntry], proofs: Proofs | None = None, fixes: str | None = None
    ) -> Cataloguing:
        """Return the catalog content of a dataset if its published ref had these moves, with the hotfixes in the object
        `fixes`, or else with those that are applied now."""
        keep = self._retention(dataset)
        return Cataloguing(self._state, self._objects, self.places, dataset, moves, keep, proofs, fixes)

    def foretold(self, dataset: str, moves: Sequence[RefEntry], fixes: str | None = None) -> tuple[Changes, bool]:
        """Return how the catalog files would change if the published ref had these moves and these hotfixes, the root
        files included, and whether they are the whole catalog entry of the dataset. Nothing is stored."""
        proofs = Proofs(self._state)
        now = self.at(dataset, moves, proofs, fixes)
        known = _decode(self._state.outbox.note(CATALOG, dataset))
        changes = None if known is None else now.since(known)
        return self._with_roots(dataset, now, now.documents() if changes is None else changes, proofs), changes is None

    def _with_roots(self, dataset: str, now: Cataloguing, changes: Changes | Documents, proofs: Proofs) -> Changes:
        yield from changes
        told = {
            name: _decode(body) or self.of(name, proofs).catalogued()
            for name, body in self._state.outbox.notes(CATALOG)
        }
        yield from roots(list({**told, dataset: now.catalogued()}.items()), self.places)

    def _of(self, dataset: str, entry: LedgerEntry, done: dict[str, Catalogued], proofs: Proofs) -> Iterator[Letter]:
        now, body = self.of(dataset, proofs), self._state.outbox.note(CATALOG, dataset)
        known = _decode(body)
        changes = None if known is None else now.since(known)
        if known is not None and changes is not None:
            for path, text in (*now.proved_since(known.covered), *changes):
                yield _letter(entry, dataset, path, text)
        else:
            paths = set()
            for path, text in now.documents():
                paths.add(path)
                yield _letter(entry, dataset, path, text)
            yield _letter(entry, dataset, f"{dataset}/", frozenset(paths))
        done[dataset] = now.catalogued()


def _letter(entry: LedgerEntry, dataset: str, path: str, body: bytes | frozenset[str] | None) -> Letter:
    return Letter(index=entry.index, run_id=entry.run_id, dataset=dataset, key=path, body=body)
