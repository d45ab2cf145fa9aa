"""The ledger: the receipts of all runs as a hash chain, with their telemetry and the versions they made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.crypto.merkle import Frontier, leaf_hash
from kfm.errors import Corrupt
from kfm.model.canonical import canonical
from kfm.model.keys import GENESIS, digest
from kfm.model.labels import joined
from kfm.model.ports import Notary
from kfm.model.records import DatasetVersion, Governed, LedgerEntry, Receipt, RunTelemetry
from kfm.store.codec import Repository, StateParts, decode, exact
from kfm.store.lineage_index import made_row
from kfm.store.retention.receipt_rows import MARK as SHORT
from kfm.store.retention.receipt_rows import short_row, whole_row

if TYPE_CHECKING:
    from kfm.crypto.custodian_key import CustodianKey

_TREE = ("ledger_tree", "frontier")


class Ledger(Repository):
    """Reads receipts, ledger entries, telemetry, versions and attestations."""

    def version(self, dataset: str, version: str) -> DatasetVersion | None:
        return self._one("versions", f"{dataset}@{version}", DatasetVersion)

    def receipt(self, run_id: str) -> Receipt | None:
        body = self.receipt_body(run_id)
        return None if body is None else decode(body, Receipt, f"receipts/{run_id}")

    def receipt_body(self, run_id: str) -> bytes | None:
        """Return the receipt as it was written, byte for byte, also where the row has its short form."""
        return self._whole("receipts", run_id)

    def receipt_bodies(self) -> Iterator[tuple[str, bytes]]:
        """Yield all receipts as they were written, with the ids of their runs."""
        for run_id, row in self._tables.scan("receipts"):
            yield run_id, whole_row(self._tables, "receipts", row)

    def is_short(self, run_id: str) -> bool:
        """Return whether `kfm gc` has put the receipt of this run into its short form."""
        return (self._tables.get("receipts", run_id) or b"").startswith(SHORT)

    def telemetry(self, run_id: str) -> RunTelemetry | None:
        body = self._whole("telemetry", run_id)
        return None if body is None else decode(body, RunTelemetry, f"telemetry/{run_id}")

    def _whole(self, table: str, run_id: str) -> bytes | None:
        row = self._tables.get(table, run_id)
        return None if row is None else whole_row(self._tables, table, row)

    def entries(self, *, after: int = 0, reverse: bool = False, limit: int = -1) -> Iterator[LedgerEntry]:
        return (entry for entry, _ in self.links(after=after, reverse=reverse, limit=limit))

    def entry(self, index: int) -> LedgerEntry | None:
        return self._one("ledger", f"{index:012d}", LedgerEntry)

    def entries_of(self, dataset: str, *, before: int = 0) -> Iterator[LedgerEntry]:
        start = f"{dataset}/{before:012d}" if before else ""
        for key, _ in self._tables.scan("ended_runs", f"{dataset}/", after=start, reverse=True):
            entry = self._one("ledger", key.rpartition("/")[2], LedgerEntry)
            if entry is None:
                raise Corrupt(f"record ended_runs/{key} names no ledger entry", hint="see `kfm doctor --deep`")
            yield entry

    def links(self, *, after: int = 0, **how: Any) -> Iterator[tuple[LedgerEntry, str]]:
        start = f"{after:012d}" if after else ""
        for key, body in self._tables.scan("ledger", after=start, **how):
            yield decode(body, LedgerEntry, f"ledger/{key}"), digest(body)

    def private(self, index: int) -> bytes | None:
        """Return the encrypted values behind the commitments of a ledger entry."""
        return self._tables.get("ledger_private", f"{index:012d}")

    def head(self) -> str:
        """Return the digest of the last ledger entry."""
        return self._state.meta("ledger_head")

    def leaves(self, *, after: int = 0) -> Iterator[bytes]:
        """Yield the ledger entries as stored; these bytes are the leaves of the Merkle tree."""
        return (body for _, body in self._tables.scan("ledger", after=f"{after:012d}" if after else ""))

    def tree(self) -> Frontier:
        """Return the tree over all rows. The stored tree covers the rows that Python appended; Node appends without it,
        so later rows are added here."""
        body = self._tables.get(*_TREE)
        tree = Frontier() if body is None else Frontier.unpacked(body)
        for leaf in self.leaves(after=tree.size):
            tree.append(leaf_hash(leaf))
        return tree

    def checkpoints(self, *, after: int = 0) -> Iterator[tuple[int, str]]:
        """Yield the signed heads of the tree with their sizes, the smallest first."""
        start = f"{after:012d}" if after else ""
        return (
            (int(key), body.decode(errors="replace"))
            for key, body in self._tables.scan("ledger_checkpoints", after=start)
        )

    def attestations(self, version: str) -> Iterator[tuple[str, bytes]]:
        """Yield the attestations of a version, which is named by dataset, @ and digest."""
        return self._tables.scan("attestations", f"{version}/")

    def signed_lists(self, version: str, *, before: int = 0) -> Iterator[tuple[str, bytes]]:
        """Yield the signed lists of a version, the newest first, or those of runs before a ledger index."""
        prefix = f"{version}/list-"
        start = f"{prefix}{before:012d}" if before else ""
        return self._tables.scan("attestations", prefix, after=start, reverse=True)

    def covered(self) -> int:
        """Return how many entries the last checkpoint covers."""
        last = next(self._tables.scan("ledger_checkpoints", reverse=True, limit=1), None)
        return int(last[0]) if last else 0


class LedgerTx(Ledger):
    """Writes receipts, ledger entries, telemetry, versions and attestations, inside an open transaction."""

    __slots__ = ("_grown",)

    def __init__(self, state: StateParts) -> None:
        super().__init__(state)
        self._grown: tuple[bytes, Frontier] = b"", Frontier()

    def keep_version(self, version: DatasetVersion) -> None:
        """Store a version. The first run that made it stays its maker; a later run updates its validation."""
        if (first := self.version(version.dataset, version.digest)) is not None:
            if first.run_id != version.run_id:
                row = made_row(self.next_index(), version.run_id, version.dataset, version.digest)
                self._tables.put("lineage", *row)
            standings = [one for one in (first.standing, version.standing) if one is not None]
            version = msgspec.structs.replace(
                first,
                validation=version.validation,
                validated_by=version.run_id,
                code_hash=version.code_hash,
                standing=joined(standings) if standings else None,
            )
        self._tables.put("versions", f"{version.dataset}@{version.digest}", exact(version))

    def append(
        self, receipt: Receipt, *, op: str, governed: Governed | None = None, key: CustodianKey | None = None
    ) -> None:
        """Write a receipt once, together with its ledger entry. The same bytes again change nothing.

        Fields that `governed` withholds are empty in the entry; with the custodian's key they can be shown later.
        """
        body = exact(receipt)
        if not self._tables.add("receipts", receipt.run_id, body):
            if self.receipt_body(receipt.run_id) == body:
                return
            what = f"run {receipt.run_id} already has another receipt"
            raise Corrupt(what, hint="receipts are never rewritten; report this as a bug")
        index = self._state.next("ledger")
        entry = LedgerEntry(
            index=index,
            prev=self._state.meta("ledger_head") or GENESIS,
            op_type=op,
            run_id=receipt.run_id,
            wal_ids=[receipt.run_id] if receipt.plan_hash else [],
            dataset=receipt.dataset,
            outcome=receipt.outcome,
            reason=receipt.reason,
            operator=receipt.actor,
            receipt_digest=digest(body),
            moves=receipt.moves,
            ts=receipt.finished_at,
            overrides=receipt.overrides,
        )
        if governed is not None:
            entry = self._concealed(entry, governed, key)
        link = exact(entry)
        self._tables.put("ledger", f"{index:012d}", link)
        self._tables.put("ended_runs", f"{receipt.dataset}/{index:012d}", b"{}")
        self._tables.put("meta", "ledger_head", digest(link).encode())
        self._grow(index, link)

    def _concealed(self, entry: LedgerEntry, said: Governed, key: CustodianKey | None) -> LedgerEntry:
        if key is None:
            return msgspec.structs.replace(entry, governed=said, **dict.fromkeys(said.withheld, ""))
        from kfm.crypto.commitments import concealed
        from kfm.crypto.encrypted_text import shown_text
        from kfm.crypto.encryption import encrypted

        # The commitment is to the reason itself, so that a reader who is shown it needs no key.
        reason = shown_text(entry.reason, lambda key_id: key if key_id == key.key_id else None)
        entry = msgspec.structs.replace(entry, reason=reason)
        entry, committed, openings = concealed(entry, said.withheld, key, entry.run_id)
        body = canonical(msgspec.to_builtins(openings))
        self._tables.put("ledger_private", f"{entry.index:012d}", b"".join(encrypted([body], key)))
        said = msgspec.structs.replace(said, committed=committed, sealed_with=key.key_id)
        return msgspec.structs.replace(entry, governed=said)

    def _grow(self, index: int, leaf: bytes) -> None:
        body = self._tables.get(*_TREE)
        tree = self._grown[1]
        if body != self._grown[0] or tree.size != index - 1:
            tree = Frontier() if body is None else Frontier.unpacked(body)
            if tree.size != index - 1:
                tree = self._caught_up(tree, index - 1)
        tree.append(leaf_hash(leaf))
        packed = tree.packed()
        self._grown = packed, tree  # the stored tree, reused if the row is unchanged at the next append
        self._tables.put(*_TREE, packed)
        notary = self._state.notary
        if notary is not None and index - self.covered() >= notary.every:
            self._sign(tree, notary)

    def checkpoint(self) -> int:
        """Sign the current head of the ledger unless it is signed; return its size."""
        tree, notary = self.tree(), self._state.notary
        if notary is not None and tree.size > self.covered():
            self._sign(tree, notary)
        return tree.size

    def _sign(self, tree: Frontier, notary: Notary) -> None:
        self._tables.put("ledger_checkpoints", f"{tree.size:012d}", notary.sign(tree.size, tree.root()).encode())

    def _caught_up(self, tree: Frontier, size: int) -> Frontier:
        for key, leaf in self._tables.scan("ledger", after=f"{tree.size:012d}" if tree.size else ""):
            if int(key) > size:
                break
            tree.append(leaf_hash(leaf))
        if tree.size != size:
            what = f"the ledger has {size} entries, and its tree {tree.size}"
            raise Corrupt(what, hint="see `kfm audit verify`; restore the state from a copy")
        return tree

    def keep_attestation(self, key: str, envelope: bytes) -> None:
        self._tables.put("attestations", key, envelope)

    def next_index(self) -> int:
        return self._state.last("ledger") + 1

    def keep_telemetry(self, telemetry: RunTelemetry) -> None:
        self._tables.put("telemetry", telemetry.run_id, exact(telemetry))

    def shorten(self, run_id: str, like: str) -> int:
        """Put the receipt and the telemetry of a run into their short form, in which only what differs from those of
        another run is kept; return how many bytes that saves. Nothing changes if it saves none, or if the other run's
        are short themselves."""
        saved = 0
        for table in ("receipts", "telemetry"):
            body, dictionary = self._tables.get(table, run_id), self._tables.get(table, like)
            if body is None or dictionary is None or run_id == like:
                continue
            if body.startswith(SHORT) or dictionary.startswith(SHORT):
                continue
            short = short_row(like, dictionary, body)
            if len(short) < len(body) and whole_row(self._tables, table, short) == body:
                self._tables.put(table, run_id, short)
                saved += len(body) - len(short)
        return saved
