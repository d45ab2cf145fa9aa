"""Any history of publishing, rolling back, freezing and dying, where the rows are in Postgres and the bytes in S3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from kfm.store.buckets.bucket_objects import BucketObjects
from kfm.store.postgres.tables import PostgresTables
from tests.engine.site_under_test import MemorySite
from tests.engine.test_rollback import Histories, Mortal, agree_with_the_model
from tests.sampling import sampled
from tests.servers import postgres
from tests.servers.seaweed import Seaweed
from tests.servers.seaweed import seaweed as seaweed
from tests.store.buckets import fresh

Count = Callable[..., None]


class OnServers(Histories):
    """The same model. Another process would have connections of its own, and so has this one after each death."""

    endpoint: ClassVar[str]
    dsn: ClassVar[dict[str, str | int]]

    def new_site(self) -> MemorySite:
        self.bucket = fresh(self.endpoint)
        tables = MortalPostgres(self.dsn, postgres.new_schema())
        vars(tables)["now_ms"] = None  # leases go by the clock of the test
        return MemorySite(tables, lambda state: BucketObjects(self.bucket, state, "/nowhere"))

    def teardown(self) -> None:
        super().teardown()
        assert not self.receipts or not self.bytes_of or list(self.bucket.below("sha256")), "no object is in the bucket"
        self.tables.close()
        postgres.shared().execute(f"drop schema {self.tables._stored.sql.schema} cascade")


class MortalPostgres(Mortal, PostgresTables):
    """Tables in Postgres whose process dies."""


@pytest.mark.parametrize("histories", sampled([3, 150]))
def test_any_history_agrees_with_the_model_on_servers(
    histories: int, seaweed: Seaweed, tmp_path: Path, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kfm.store.stored_objects.INLINE_MAX", -1)  # or all of them would be rows
    OnServers.endpoint, (OnServers.dsn, _) = seaweed.endpoint, postgres.place(tmp_path / "state")
    agree_with_the_model(OnServers, histories, count)
