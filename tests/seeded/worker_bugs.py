"""Bugs of worker processes, and of what wakes them."""

from __future__ import annotations

from tests.seeded.planting import Bug

TESTS = "tests/workers"
STATE = "kfm.store.state"
BELL = "kfm.queues.celery_bell"

WORKERS: dict[str, Bug] = {
    "workers are woken for what was rolled back": Bug(
        f"{STATE}:Transaction._undo",
        "self._state.take_kept()",
        "pass",
        f"{TESTS}/test_wake_up.py::test_a_trigger_that_was_rolled_back_is_not_rung",
    ),
    "workers are woken before the commit": Bug(
        f"{STATE}:StoredState.note_kept",
        "self._kept.append(trigger)",
        "self.on_kept([trigger])",
        f"{TESTS}/test_wake_up.py::test_a_stored_trigger_is_rung_after_its_commit",
    ),
    "workers are woken for what a power cut may take": Bug(
        f"{STATE}:StoredState.tell_kept",
        "if durable and self._untold",
        "if self._untold",
        f"{TESTS}/test_wake_up.py::test_a_trigger_of_a_commit_that_a_power_cut_may_take_is_rung_with_the_next_durable_one",
    ),
    "a broker that is down is asked at every trigger": Bug(
        "kfm.app.session.wake_up:WakeUp._may",
        "return self.problem is None or self._clock.monotonic() >= self._until",
        "return True",
        f"{TESTS}/test_wake_up.py::test_a_broker_that_fails_is_tried_less_and_less_and_logged_once",
    ),
    "a message of another task wakes a worker": Bug(
        "kfm.queues.wake_message:trigger_of",
        'headers["task"] == TASK and',
        "",
        f"{TESTS}/test_bells.py::test_a_message_of_another_form_is_discarded_and_counted",
    ),
    "an error of the broker's library is quoted": Bug(
        f"{BELL}:CeleryBell._told",
        'f"{where} answers with an error"',
        'f"{where} answers with {problem}"',
        f"{TESTS}/test_bells.py::test_each_kind_of_trouble_has_words_of_its_own",
    ),
    "the certificate of a broker is not checked": Bug(
        f"{BELL}:_tls",
        '"ssl_cert_reqs": "required", "ssl_check_hostname": True',
        '"ssl_cert_reqs": "none", "ssl_check_hostname": False',
        f"{TESTS}/test_bells.py::test_with_tls_only_a_broker_that_proves_its_name_is_spoken_to",
    ),
    "messages pile up while workers are busy": Bug(
        "kfm.app.daemon.worker_loop:WorkerLoop._work",
        "session.wake_up.wait(0)",
        "pass",
        f"{TESTS}/test_worker_loop.py::test_each_job_takes_one_message_so_that_none_pile_up",
    ),
    "a worker ends when its state does not answer": Bug(
        "kfm.app.daemon.worker_loop:WorkerLoop.run",
        "except (Unavailable, Busy) as problem:",
        "except Busy as problem:",
        f"{TESTS}/test_worker_loop.py::test_a_worker_waits_for_a_state_that_is_gone_and_opens_it_again",
    ),
    "a job type outside the registry is a label": Bug(
        "kfm.telemetry.worker_metrics:WorkerMetrics.hear",
        "isinstance(said, str) and said in self._known",
        "isinstance(said, str)",
        f"{TESTS}/test_worker_metrics.py::test_a_job_type_outside_the_registry_is_counted_without_its_name",
    ),
    "a worker answers everyone on the network": Bug(
        "kfm.workers.health:check_listen",
        "if not behind_proxy and not _is_loopback(host):",
        "if False:",
        f"{TESTS}/test_health.py::test_another_address_needs_a_flag",
    ),
    "the counts of a worker that died are lost": Bug(
        "kfm.workers.supervisor:Child.ended",
        "self.before, self.report = self.counts, Report()",
        "self.report = Report()",
        f"{TESTS}/test_supervisor.py::test_the_counts_of_a_child_that_ended_stay",
    ),
}
