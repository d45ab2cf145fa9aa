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
