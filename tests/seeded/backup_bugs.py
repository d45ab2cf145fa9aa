"""Bugs of `kfm backup` and `kfm restore`."""

from __future__ import annotations

from tests.seeded.planting import Bug

BACKUP, TESTS = "kfm.app.backup", "tests/app/backup/test_backup.py"
SERVERS = "tests/app/backup/test_backup_on_servers.py"

KEPT, UPGRADE = "tests/app/backup/test_backup_kept.py", "tests/app/backup/test_upgrade.py"

BACKUPS: dict[str, Bug] = {
    "older backups go before the new one was read again": Bug(
        f"{BACKUP}.backup_retention:keep_newest",
        "verify(place, newest.record, progress)",
        "pass",
        f"{KEPT}::test_nothing_is_removed_unless_the_new_one_is_whole",
    ),
    "what a kept backup names is removed": Bug(
        f"{BACKUP}.backup_retention:keep_newest",
        "if name not in old))",
        "if name in old[:0]))",
        f"{KEPT}::test_the_newest_are_kept_and_nothing_else",
    ),
    "bytes go before the record that names them": Bug(
        f"{BACKUP}.backup_retention:keep_newest",
        "check()\n        place.records.remove(name)",
        "list(map(place.discard, gone))\n        place.records.remove(name)",
        f"{KEPT}::test_a_kill_leaves_whole_backups_and_the_same_command_ends_it",
    ),
    "backups of another installation are removed": Bug(
        f"{BACKUP}.backup_retention:keep_newest",
        "if record.installation == newest.record.installation",
        "if record.installation",
        f"{KEPT}::test_backups_of_another_installation_stay",
    ),
    "the backup before an upgrade has the newer rows": Bug(
        f"{BACKUP}.backup:_taken",
        "tables, state_format = open_stored(resolved)",
        'tables, state_format = open_tables(resolved, "dry", in_place=False), 9',
        f"{UPGRADE}::test_the_backup_has_the_older_rows_and_the_ledger_names_it",
    ),
    "a restored backup of an older format is not upgraded": Bug(
        f"{BACKUP}.restore:restore",
        "upgrade(tables, record.state_format)",
        "pass",
        f"{UPGRADE}::test_a_backup_of_an_older_format_is_restored_and_upgraded",
    ),
    "a state is upgraded without a backup": Bug(
        "kfm.cli.start.upgrade:upgrade",
        "if plan.is_needed:\n            name",
        "if False:\n            name",
        f"{UPGRADE}::test_a_kill_leaves_the_old_state_or_the_new_one_and_the_same_command_goes_on",
    ),
    "a restored installation is not frozen": Bug(
        f"{BACKUP}.restore:_take_into_force",
        '(*acts, (Freeze(), "global", {}))',
        "acts",
        f"{TESTS}::test_a_backup_restores_on_another_machine_and_is_frozen",
    ),
    "what was withdrawn after a backup comes back": Bug(
        f"{BACKUP}.restore:_moved_on",
        "found is not None and",
        "False and",
        f"{TESTS}::test_a_dataset_that_was_withdrawn_after_the_backup_does_not_come_back",
    ),
    "a restore replaces a state": Bug(
        f"{BACKUP}.restore:_arrive",
        "not is_ours and any(",
        "False and any(",
        f"{TESTS}::test_a_restore_replaces_no_state",
    ),
    "an unfinished restore takes work": Bug(
        f"{BACKUP}.restore:_arrive",
        'status="arriving", other=url',
        'status="", other=url',
        f"{TESTS}::test_a_damaged_backup_is_refused_and_nothing_is_in_force",
    ),
    "a damaged record is restored": Bug(
        f"{BACKUP}.backup_record:read_record",
        'digest(body)[7:23] != name.rpartition("-")[2]',
        "False",
        f"{TESTS}::test_a_damaged_backup_is_refused_and_nothing_is_in_force",
    ),
    "a backup lies among published files": Bug(
        f"{BACKUP}.backup_place:_check_apart",
        "scheme == other and",
        "False and",
        f"{TESTS}::test_a_backup_does_not_lie_among_published_files",
    ),
    "a place takes the backups of two installations": Bug(
        f"{BACKUP}.backup:check_same",
        "!= installation",
        '== ""',
        f"{TESTS}::test_a_place_takes_the_backups_of_one_installation",
    ),
    "every backup copies all objects again": Bug(
        f"{BACKUP}.backup_place:BackupPlace.known",
        "set(self._objects.large())",
        "set()",
        f"{TESTS}::test_only_what_is_new_is_copied",
    ),
    "a backup in a bucket replaces another one": Bug(
        f"{BACKUP}.backup_place:_BucketRecords.write",
        "raise Refused(",
        "str(",
        f"{SERVERS}::test_a_record_in_a_bucket_is_not_replaced",
    ),
}
