"""Bugs of `kfm move`."""

from __future__ import annotations

from tests.seeded.planting import Bug

MOVE, TESTS = "kfm.app.move", "tests/app/move"
STATE = f"{TESTS}/test_state_move.py"

MOVES: dict[str, Bug] = {
    "a move does not stop other writers": Bug(
        "kfm.store.state:StoredState.check_place",
        "self.judge_place(body)",
        "True",
        f"{STATE}::test_a_session_that_was_open_before_the_move_writes_nothing_after_it",
    ),
    "a mover that was paused carries on": Bug(
        "kfm.app.session.moved_state:judged",
        "put_place(state.tables, home)",
        "pass",
        f"{STATE}::test_a_mover_that_was_paused_too_long_writes_nothing",
    ),
    "a place of published files that was changed by hand is taken": Bug(
        "kfm.app.session.moved_state:_problem_of_settings",
        '_has_published if setting == "publish" else _has_run',
        "lambda *_: False",
        f"{TESTS}/test_places.py::test_a_place_of_published_files_that_was_changed_by_hand_is_refused",
    ),
    "a first transaction does not remember the places": Bug(
        "kfm.store.state:StoredState.check_place",
        'self.tables.put("meta", PLACE, self.home)',
        "pass",
        f"{TESTS}/test_places.py::test_a_place_of_published_files_that_was_changed_by_hand_is_refused",
    ),
    "an empty state publishes over the files of another": Bug(
        "kfm.app.session.session:open_session",
        "session.is_new",
        "False",
        f"{TESTS}/test_places.py::test_an_empty_state_next_to_published_files_is_refused",
    ),
    "published files stay at the place they moved from": Bug(
        f"{MOVE}.public_move:_empty",
        'publisher.remove_rest(f"datasets/{name}", lambda: None)',
        "continue",
        f"{TESTS}/test_places.py::test_published_files_move_and_the_old_place_is_empty",
    ),
    "a slow process publishes at the place that was left": Bug(
        "kfm.app.session.backends:file_lock",
        "state.check_home()",
        "pass",
        f"{TESTS}/test_places.py::test_a_session_that_was_open_before_the_files_moved_publishes_nothing_at_the_old_place",
    ),
    "a move to a place of others removes their files": Bug(
        f"{MOVE}.public_move:_check_place",
        "(names := open_public(there, state).datasets())",
        "(names := [])",
        f"{TESTS}/test_places.py::test_files_of_another_installation_are_not_overwritten",
    ),
    "a state moves from under a worker": Bug(
        f"{MOVE}.move_claim:_brake_now",
        "check_no_worker(tables, clock)",
        "pass",
        f"{STATE}::test_a_move_waits_for_a_worker_if_it_may",
    ),
    "a sealed copy is in force before the old place says so": Bug(
        "kfm.app.session.moved_state:opened_place",
        'place.status == "sealed" and _is_in_force(resolved, place)',
        'place.status == "sealed"',
        f"{STATE}::test_a_sealed_copy_is_refused_until_the_old_place_says_that_it_moved",
    ),
    "a move overwrites another installation": Bug(
        f"{MOVE}.state_move:check_admission",
        "any(next(rows_of(target, table), None) is not None for table in COPIED)",
        "False",
        f"{STATE}::test_a_place_that_holds_another_installation_is_refused",
    ),
    "a move that failed keeps the old place closed": Bug(
        f"{MOVE}.state_move:_restored",
        "leaving.change(home)",
        "pass",
        f"{STATE}::test_a_sealed_copy_is_refused_until_the_old_place_says_that_it_moved",
    ),
    "a row that is gone stays in a copy of an older moment": Bug(
        f"{MOVE}.move_claim:Claim.write",
        "self.tables.delete(table, key)",
        "pass",
        f"{STATE}::test_rows_that_are_gone_are_gone_at_a_place_that_is_brought_up_to_date",
    ),
    "objects that only another object names stay behind": Bug(
        f"{MOVE}.object_move:_Copy._taken",
        "return copied.names",
        "return set()",
        f"{TESTS}/test_object_move.py::test_an_object_that_only_another_object_names_is_taken",
    ),
    "what an encrypted object may name stays behind": Bug(
        f"{MOVE}.object_move:_Copy._named",
        "self._everything = True",
        "pass",
        f"{TESTS}/test_object_move.py::test_all_objects_are_carried_if_an_encrypted_one_may_name_them",
    ),
}
