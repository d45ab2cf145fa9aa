"""Faults of commands that read the state in place."""

from __future__ import annotations

from tests.seeded.planting import Bug

LIVE = "tests/store/test_live_reader.py"
CLI = "tests/cli/test_reading_in_place.py"
MOVES = "tests/app/provenance/test_public_moves.py"

READERS: dict[str, Bug] = {
    "a reader has no transaction": Bug(
        "kfm.store.readers.live_reader:LiveTables._begin",
        '            self._execute("BEGIN")\n',
        "",
        f"{LIVE}::test_a_reader_sees_the_moment_of_its_opening_until_it_is_closed",
    ),
    "a reader checkpoints the log of a killed writer": Bug(
        "kfm.store.readers.live_reader:LiveTables.close",
        "if not _size(self._log):",
        "if True:",
        f"{LIVE}::test_the_log_that_a_killed_writer_left_is_read_and_stays",
    ),
    "a reader leaves its side files": Bug(
        "kfm.store.readers.live_reader:LiveTables.close",
        "if not _size(self._log):",
        "if False:",
        f"{LIVE}::test_a_closed_reader_leaves_the_folder_as_it_was",
    ),
    "a reader keeps the log from restarting for ever": Bug(
        "kfm.store.readers.live_reader:_watch",
        "            tables.give_up()\n",
        "",
        f"{LIVE}::test_a_reader_that_waits_while_the_log_grows_gives_up_and_says_so",
    ),
    "a reader writes where it may not": Bug(
        "kfm.store.readers.live_reader:_may_be_read_in_place",
        "return all(os.access(each, os.W_OK)",
        "return all(True",
        f"{LIVE}::test_what_cannot_be_written_is_copied",
    ),
    "commands that look copy the state": Bug(
        "kfm.app.session.backends:open_tables_at",
        'if in_place or (in_place is None and mode == "read"):',
        "if False:",
        f"{CLI}::test_a_command_reads_a_large_state_in_place_and_a_dry_run_copies_it",
    ),
    "a dry run reads in place": Bug(
        "kfm.app.session.backends:open_tables_at",
        'if in_place or (in_place is None and mode == "read"):',
        "if True:",
        f"{CLI}::test_a_command_reads_a_large_state_in_place_and_a_dry_run_copies_it",
    ),
    "an explanation reads every move": Bug(
        "kfm.app.authority.withdrawals:public_moves",
        'if move.after == version and move.op != "rollback":',
        "if False:",
        f"{CLI}::test_a_command_reads_as_little_of_a_long_history_as_of_a_short_one",
    ),
    "a rollback counts as the last promotion": Bug(
        "kfm.app.authority.withdrawals:public_moves",
        'if move.after == version and move.op != "rollback":',
        "if move.after == version:",
        f"{MOVES}::test_the_moves_since_its_last_promotion_tell_all_of_a_version",
    ),
    "moves of early formats are forgotten": Bug(
        "kfm.app.authority.withdrawals:_may_have_been_public",
        "    return all(use.run_id != first.run_id",
        "    return False and all(use.run_id != first.run_id",
        f"{MOVES}::test_the_moves_since_its_last_promotion_tell_all_of_a_version",
    ),
    "a scan reads long pages at once": Bug(
        "kfm.store.sqlite:SqliteTables.scan",
        "longest = _FIRST_PAGE",
        "longest = 100 * _FIRST_PAGE",
        f"{CLI}::test_a_command_reads_as_little_of_a_long_history_as_of_a_short_one",
    ),
}
