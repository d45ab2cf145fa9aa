"""Bugs of `kfm gc`."""

from __future__ import annotations

from tests.seeded.planting import Bug

GC, STORE, TESTS = "kfm.app.gc", "kfm.store.stored_objects", "tests/app/gc/test_gc.py"
PROTECTED = "tests/app/gc/test_protected.py"

COLLECTIONS: dict[str, Bug] = {
    "gc forgets what an object names": Bug(
        f"{GC}.mark:_Walk._named_by",
        "        return reader.names",
        "        return set()",
        f"{TESTS}::test_what_nothing_names_is_set_aside_and_later_removed",
    ),
    "gc removes before the grace time": Bug(
        f"{GC}.collection:_Found.__init__",
        "self._before = self._now - (retention_ms(config.grace) or 0)",
        "self._before = self._now",
        f"{TESTS}::test_what_nothing_names_is_set_aside_and_later_removed",
    ),
    "gc removes what an unfinished run relied on": Bug(
        f"{GC}.collection:_oldest_unfinished",
        'if began else ("", 0)',
        'if not began else ("", 0)',
        f"{TESTS}::test_an_unfinished_run_keeps_what_was_set_aside_since_it_began",
    ),
    "gc goes on after a freeze": Bug(
        f"{GC}.collection:_alone",
        "        def check() -> None:\n            check_open(session)",
        "        def check() -> None:\n            _check(session)",
        f"{TESTS}::test_gc_stops_when_everything_is_frozen_meanwhile",
    ),
    "a writer relies on what was set aside": Bug(
        f"{STORE}:StoredObjects.has",
        "self.bring_back(digest)",
        "self.holds(digest)",
        f"{TESTS}::test_what_is_looked_for_comes_back",
    ),
    "a reader does not find what was set aside": Bug(
        f"{STORE}:StoredObjects._from_aside",
        "for folder in (ASIDE, KEPT):",
        "for folder in (KEPT,):",
        f"{TESTS}::test_what_nothing_names_is_set_aside_and_later_removed",
    ),
    "the report of gc keeps what it names": Bug(
        f"{GC}.collection:_Found._listed",
        'f"sha256/{each[0].hex()[:2]}/{each[0].hex()[2:]}"',
        'f"sha256:{each[0].hex()}"',
        f"{TESTS}::test_gc_is_an_operation_with_a_report_of_what_went",
    ),
    "a short receipt is reported as missing": Bug(
        "kfm.app.stewards.exported_files:_receipt_path",
        "if session.state.ledger.is_short(run_id):",
        "if not run_id:",
        f"{TESTS}::test_the_receipts_of_unchanged_runs_become_short_and_stay_the_same",
    ),
    "a backup does not notice gc": Bug(
        "kfm.app.backup.backup:_check_not_collected",
        "!= before:",
        "is False:",
        f"{TESTS}::test_a_backup_during_gc_is_taken_again_and_whole",
    ),
    "gc does not read what is encrypted": Bug(
        f"{GC}.mark:_Walk.__init__",
        "DecryptingObjects(objects, self._keys)",
        "objects",
        f"{PROTECTED}::test_what_encrypted_records_name_stays",
    ),
    "two processes remove at once": Bug(
        "kfm.app.session.exclusive:alone",
        "if not lock.take():",
        "if lock is None:",
        f"{TESTS}::test_two_at_once_do_not_meet",
    ),
}
