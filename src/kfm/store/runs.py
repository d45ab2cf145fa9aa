"""Runs: claimed, unfinished, ended."""

from __future__ import annotations

from collections.abc import Iterator

from kfm.errors import Conflict
from kfm.model.records import Run
from kfm.store.codec import Repository, exact


class Runs(Repository):
    """Reads claimed, unfinished and ended runs."""

    def get(self, run_id: str) -> Run | None:
        return self._one("runs", run_id, Run)

    def unfinished(self, dataset: str = "") -> Iterator[Run]:
        found = [key.rpartition("/")[2] for key, _ in self._tables.scan("open_runs", f"{dataset}/" if dataset else "")]
        for run_id in sorted(found):
            run = self.get(run_id)
            if run is not None:
                yield run

    def claimed(self, claim_key: str) -> Run | None:
        """Return the latest run that claimed this work; None if there is none."""
        run_id = self._tables.get("claims", claim_key)
        return None if run_id is None else self.get(run_id.decode())

    def ids(self, beginning: str) -> Iterator[str]:
        for table in ("runs", "receipts"):  # a skipped run has a receipt and no claim
            for run_id, _ in self._tables.scan(table, beginning):
                yield run_id


class RunsTx(Runs):
    """Writes claimed, unfinished and ended runs, inside an open transaction."""

    def claim(self, run: Run) -> None:
        """Make this run the latest run of its claim, by compare-and-swap. Raise Conflict if another worker has claimed
        the work."""
        latest = self.claimed(run.claim_key)
        expected = run.n - 1
        if (latest.n if latest else -1) != expected or (latest is not None and latest.status == "RUNNING"):
            raise Conflict("another worker claimed the same work", hint="run the command again", run_id=run.run_id)
        self._tables.put("claims", run.claim_key, run.run_id.encode())
        self._tables.put("open_runs", f"{run.dataset}/{run.run_id}", b"{}")
        self.save(run)

    def save(self, run: Run) -> None:
        if run.status != "RUNNING":
            self._tables.delete("open_runs", f"{run.dataset}/{run.run_id}")
        self._tables.put("runs", run.run_id, exact(run))
