"""Bugs of notices and their receivers."""

from __future__ import annotations

from tests.seeded.planting import Bug

SINKS, FOLLOWERS = "kfm.app.metadata.notice_sinks", "kfm.delivery.followers"
TESTS = "tests/app/notices"
RECEIVERS, NOTICES = f"{TESTS}/test_receivers.py", f"{TESTS}/test_notices.py"

NOTICE_BUGS: dict[str, Bug] = {
    "a notice is signed with its first secret alone": Bug(
        f"{SINKS}:_signed",
        "for reference in said.secrets]",
        "for reference in said.secrets[:1]]",
        f"{NOTICES}::test_two_secrets_give_two_signatures_and_a_changed_secret_counts_from_the_next_notice",
    ),
    "a receiver that is new gets the whole history": Bug(
        "kfm.app.session.receiver_cursors:begin_receivers",
        "tx.outbox.advance(sink, newest)",
        "tx.outbox.advance(sink, 0)",
        f"{NOTICES}::test_a_new_receiver_gets_what_happens_from_then_on",
    ),
    "a changed state is sent before it is noted, and never noted": Bug(
        f"{FOLLOWERS}:_Following._tell_states",
        "tx.outbox.advance(states_of(name), -letter.index)",
        "pass",
        f"{NOTICES}::test_a_dataset_is_late_once_and_in_time_again_once_whatever_restarts",
    ),
    "Retry-After is not heard": Bug(
        f"{FOLLOWERS}:_note",
        "asked_s=asked_wait_s(problem, now)",
        "asked_s=None",
        f"{RECEIVERS}::test_retry_after_makes_the_pause_longer",
    ),
    "a receiver that is gone is tried for ever": Bug(
        "kfm.sinks.webhook_receiver:WebhookReceiver._judge",
        "for_good=1",
        "for_good=0",
        f"{RECEIVERS}::test_a_receiver_that_is_gone_is_left_alone_until_an_operator_retries",
    ),
    "a receiver that drips is waited for": Bug(
        "kfm.sinks.webhook_receiver:_post",
        "thread.join(seconds)",
        "thread.join()",
        f"{RECEIVERS}::test_a_receiver_that_is_slow_is_given_up_and_the_other_gets_its_notice",
    ),
    "all of a pass is repeated after a refusal": Bug(
        f"{FOLLOWERS}:_Following._next",
        "is_alone = self._has_message is not None and self._has_message(entry)",
        "is_alone = False",
        f"{RECEIVERS}::test_a_slow_receiver_gets_the_rest_in_the_next_pass",
    ),
    "a notice names the version of protected data": Bug(
        "kfm.projections.notices:_is_shown",
        'run.labels is None or run.labels.level == "generalised"',
        "True",
        f"{TESTS}/test_protected.py::test_no_canary_is_in_a_notice_a_header_or_a_dead_letter",
    ),
    "a change of a closed dataset keeps its facts": Bug(
        "kfm.app.runs.state_watch:_Found.allowed",
        "if (change.objective or change.version) and not all(map(self._is_public, covered)):",
        "if False:",
        f"{TESTS}/test_protected.py::test_what_is_closed_before_it_could_be_sent_is_sent_without_its_facts",
    ),
    "a receiver is waited for by the loop": Bug(
        "kfm.cli.schedule.up:_notify_beside",
        "session.notices_apart = True",
        "session.notices_apart = False",
        f"{TESTS}/test_beside_up.py::test_a_receiver_that_hangs_delays_neither_runs_nor_the_other_receiver",
    ),
}
