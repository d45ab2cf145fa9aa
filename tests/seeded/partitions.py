"""Bugs about datasets of many keys: what a run reads, what a promotion writes, and what a withdrawal removes."""

from __future__ import annotations

from tests.seeded.planting import Bug

ROWS = "tests/engine/test_partition_rows.py"
SHARED = "tests/delivery/test_shared_files.py"

PARTITIONS: dict[str, Bug] = {
    "files that are named together are not synced": Bug(
        "kfm.sinks.folder_publisher:FilesPublisher._write_many",
        "fs.sync_all(apart)",
        "pass",
        "tests/power/test_published.py::test_files_that_were_synced_together_are_there_and_whole_after_every_cut",
    ),
    "files get their names during a freeze": Bug(
        "kfm.sinks.folder_publisher:FilesPublisher._write_many",
        "                fs.sync_all(apart)\n                check()\n",
        "                fs.sync_all(apart)\n",
        "tests/delivery/test_many_files.py::"
        "test_files_of_a_dataset_that_was_frozen_while_they_were_written_get_no_name",
    ),
    "a withdrawal leaves unfinished shared files": Bug(
        "kfm.sinks.folder_publisher:FilesPublisher.remove_rest",
        "self._fs.remove_tree(os.path.join(shared, _UNFINISHED_MANY))",
        "pass",
        "tests/delivery/test_many_files.py::"
        "test_after_a_kill_at_any_call_of_the_disk_the_next_command_leaves_what_is_live_and_nothing_else",
    ),
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
    "a promotion writes every file again": Bug(
        "kfm.delivery.public_layout:Layout.entries",
        "if not base or not self.is_shared(version):",
        "if True:",
        f"{SHARED}::test_a_promotion_requests_the_writing_of_what_changed_alone",
    ),
    "a removal takes files that a live version has": Bug(
        "kfm.delivery.public_files:Telling._remove_shared",
        "if not any(self._layout.holds(each, entry) for each in reversed(keep)):",
        "if True:",
        f"{SHARED}::test_a_version_that_expires_leaves_what_the_next_ones_share",
    ),
    "files whose removal was interrupted are taken to be there": Bug(
        "kfm.delivery.public_files:Telling._is_there",
        "return bool(root) and self._publisher.has_file(str(root), version)",
        "return bool(root)",
        f"{SHARED}::test_a_version_whose_removal_was_interrupted_is_complete_when_it_comes_back",
    ),
    "a folder that was emptied is taken to be full": Bug(
        "kfm.sinks.folder_publisher:FilesPublisher.has_file",
        "return digest_at(self._fs, self._place(path)) == digest",
        "return True",
        f"{SHARED}::test_a_folder_that_was_emptied_is_filled_by_the_next_promotion",
    ),
    "a version of the older layout is looked for among the shared files": Bug(
        "kfm.delivery.public_layout:Layout.__init__",
        "whole=told.moves if told else 0",
        "whole=0",
        f"{SHARED}::test_versions_of_the_older_layout_keep_their_folders_and_can_be_withdrawn",
    ),
}
