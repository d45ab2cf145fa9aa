"""Bugs about datasets of many keys: what a run reads, what a promotion writes, and what a withdrawal removes."""

from __future__ import annotations

from tests.seeded.planting import Bug

ROWS = "tests/engine/test_partition_rows.py"

PARTITIONS: dict[str, Bug] = {
    "each partition reads its source again": Bug(
        "kfm.updaters.transforms.transform_updater:DeclaredUpdater._once",
        "if what not in made:",
        "if True:",
        f"{ROWS}::test_many_partitions_read_their_source_no_more_than_a_few_do",
    ),
    "rows laid aside lose their order": Bug(
        "kfm.updaters.transforms.partition_spool:PartitionSpool.close",
        "for run in self._runs)",
        "for run in reversed(self._runs))",
        f"{ROWS}::test_rows_that_do_not_fit_into_memory_are_grouped_on_disk",
    ),
}
