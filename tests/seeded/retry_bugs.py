"""Bugs of retries, breakers and budgets."""

from __future__ import annotations

from tests.seeded.planting import Bug

RETRIES_ROOM = "kfm.retries"
PATTERNS, SHARED = "tests/retries/test_retry_patterns.py", "tests/retries/test_shared_retries.py"
RUNS = "tests/retries/test_retries_in_runs.py"

RETRIES: dict[str, Bug] = {
    "callers that failed together return together": Bug(
        f"{RETRIES_ROOM}.policy:Policy.wait_s",
        "longest * (1.0 - self.jitter * (1.0 - chance))",
        "longest",
        f"{PATTERNS}::test_full_jitter_spreads_waits_evenly_from_nothing_to_the_longest",
    ),
    "a wait is shorter than the other side asked for": Bug(
        f"{RETRIES_ROOM}.policy:Policy.wait_s",
        "own if asked_s is None else max(own, asked_s + longest - own)",
        "own",
        f"{PATTERNS}::test_what_the_other_side_asks_for_is_a_floor_and_still_spread",
    ),
    "a half-open breaker lets all callers through": Bug(
        f"{RETRIES_ROOM}.circuit:refusal",
        'breaker.state == "closed"',
        'breaker.state != "open"',
        f"{SHARED}::test_a_half_open_breaker_lets_exactly_one_of_eight_processes_through",
    ),
    "a late failure decides about a half-open breaker": Bug(
        f"{RETRIES_ROOM}.circuit:after_failure",
        "not passed.trial or passed.trial != breaker.trial",
        "False",
        f"{PATTERNS}::test_a_breaker_opens_tries_and_closes",
    ),
    "a step is not tried again": Bug(
        "kfm.engine.step_retries:StepRetries.wait_s",
        "attempt >= self._policy.attempts",
        "attempt",
        "tests/cli/test_continued.py::test_what_is_unavailable_is_tried_again_as_often_as_declared",
    ),
    "a retry is made though the budget cannot be read": Bug(
        f"{RETRIES_ROOM}.attempts:Course._take",
        "raise unreadable(self.retrying.operation) from broken",
        "return",
        f"{SHARED}::test_without_the_state_the_first_attempt_is_made_and_no_second_one",
    ),
    "a success at once writes to the state": Bug(
        f"{RETRIES_ROOM}.shared_guards:SharedBreaker.succeeded",
        "if passed.noted:",
        "if True:",
        f"{SHARED}::test_a_call_that_succeeds_at_once_writes_nothing",
    ),
    "a freeze does not end the retries of a step": Bug(
        "kfm.engine.step_retries:StepRetries.check_open",
        "switches=self._switches",
        "switches=()",
        f"{RUNS}::test_a_freeze_during_the_wait_stops_a_step_and_the_thaw_goes_on_with_it",
    ),
    "a freeze does not end the retries of a source": Bug(
        "kfm.app.session.retry_guards:SourceGuards.halt",
        "return problem",
        "return None",
        f"{RUNS}::test_a_freeze_ends_the_retries_of_a_source",
    ),
    "a misspelt breaker is opened": Bug(
        "kfm.app.maintenance.retry_control:_check_known",
        "if name in names:",
        "if name:",
        f"{RUNS}::test_a_slip_is_refused_with_the_cure_and_changes_nothing",
    ),
}
