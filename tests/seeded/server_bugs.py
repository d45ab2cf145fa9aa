"""Bugs in what servers keep: the state in Postgres, objects in a bucket, locks, moves and steps on a cluster."""

from __future__ import annotations

from tests.seeded.planting import Bug

STORE = "tests/store"

SERVERS: dict[str, Bug] = {
    "a commit whose answer was lost counts as stored": Bug(
        "kfm.store.postgres.tables:PostgresTables._was_committed",
        "if ring.get(own.number) == own.token:",
        "if True:",
        f"{STORE}/test_postgres_faults.py::test_a_commit_whose_answer_is_lost_is_decided_by_looking",
    ),
    "leases follow the clock of the machine": Bug(
        "kfm.store.postgres.tables:PostgresTables.now_ms",
        "return self._stored.now_ms()",
        "return self._stored.clock.now_ms()",
        f"{STORE}/test_postgres_server.py::test_a_machine_with_a_wrong_date_steals_no_lease",
    ),
    "what a killed worker had committed is not delivered": Bug(
        "kfm.app.jobs.job_worker:JobWorker._deliver_left",
        "self._settle()",
        "pass",
        "tests/app/servers/test_thin_path.py::test_a_worker_may_be_killed_at_every_boundary",
    ),
    "a lock in the state is not renewed": Bug(
        "kfm.store.state_lock:StateLock._renew",
        "tx.leases.renew(lease, self._ttl_ms)",
        "pass",
        f"{STORE}/test_state_lock.py::test_a_lock_is_renewed_while_its_holder_works",
    ),
    "other bytes under the name of an object are read": Bug(
        "kfm.store.stored_objects:checked",
        "!= digest",
        '== ""',
        f"{STORE}/test_bucket_objects.py::test_other_bytes_under_a_name_are_refused_wherever_they_are_read",
    ),
    "a request whose answer was lost is not sent again": Bug(
        "kfm.bucket:Bucket._repeated",
        "for left in reversed(range(attempts)):",
        "for left in range(1):",
        f"{STORE}/test_bucket_faults.py::test_a_put_whose_request_or_answer_is_lost_is_one_whole_object",
    ),
    "a command writes into a state that was moved": Bug(
        "kfm.app.session.state_place:problem_of_place",
        'place.status == "moved"',
        'place.status == "never"',
        "tests/app/move/test_state_move.py::test_the_old_place_refuses_writers_and_warns_readers",
    ),
    "a worker with other code performs steps": Bug(
        "kfm.app.session.step_host:StepHost.__init__",
        "if (updater.version, updater.code_hash) != (run.updater_version, run.code_hash):",
        "if False:",
        "tests/engine/test_cluster.py::test_a_worker_with_other_code_or_settings_is_refused_in_one_line",
    ),
    "a stale lease writes into a state on a server": Bug(
        "kfm.store.state:StoredState.check",
        "            self._check_fence(lease)\n",
        "",
        "tests/crash/test_on_servers.py::test_a_worker_that_was_replaced_changes_nothing",
    ),
    "a dry run opens a state on a server for writing": Bug(
        "kfm.app.session.backends:open_tables_at",
        'open_postgres(resolved, url, mode == "write")',
        "open_postgres(resolved, url, True)",
        "tests/engine/test_dry_run_on_servers.py::test_no_command_that_promises_it_changes_anything",
    ),
    "the bytes of an object stay on the machine": Bug(
        "kfm.store.buckets.bucket_objects:BucketObjects.keep",
        "etag = self._bucket.create(name, body)",
        "etag = total",
        "tests/engine/test_rollback_on_servers.py",
    ),
}
