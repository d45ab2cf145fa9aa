"""Refs, which name what is current, and the history of their moves."""

from __future__ import annotations

from collections.abc import Iterator

from kfm.errors import Moved
from kfm.model.records import RefEntry, RefMove
from kfm.store.codec import Repository, exact


class Refs(Repository):
    """Reads the current value and the history of each ref."""

    def at(self, name: str) -> str:
        return (self._tables.get("refs", name) or b"").decode()

    def all(self, prefix: str = "") -> Iterator[tuple[str, str]]:
        for key, body in self._tables.scan("refs", prefix):
            yield key, body.decode()

    def history(self, name: str, *, reverse: bool = False, limit: int = -1) -> Iterator[RefEntry]:
        return self._many("history", RefEntry, name + "@", reverse=reverse, limit=limit)

    def histories(self, prefix: str = "") -> Iterator[RefEntry]:
        """Yield every move of every ref with this prefix, including removed refs."""
        return self._many("history", RefEntry, prefix)


class RefsTx(Refs):
    """Moves refs and writes their history, inside an open transaction."""

    def move(self, move: RefMove, *, run_id: str, op: str, actor: str, reason: str, ts: str) -> None:
        """Compare and swap a ref, and add the move to its history. Raise Moved if the ref is not at `before`."""
        self._state.recheck("refs")
        current = self.at(move.ref)
        if current != move.before:
            raise Moved(
                f"{move.ref} is at {current or 'nothing'}, not at {move.before or 'nothing'} as planned",
                hint="another run moved it: run the command again",
            )
        if move.after:
            self._tables.put("refs", move.ref, move.after.encode())
        else:
            self._tables.delete("refs", move.ref)
        last = next(self._tables.scan("history", move.ref + "@", reverse=True, limit=1), None)
        n = int(last[0].rpartition("@")[2]) + 1 if last else 1
        entry = RefEntry(
            ref=move.ref,
            n=n,
            before=move.before,
            after=move.after,
            run_id=run_id,
            op=op,
            actor=actor,
            reason=reason,
            ts=ts,
        )
        self._tables.put("history", f"{move.ref}@{n:010d}", exact(entry))
