"""Promises about runs that sinks follow, each broken: the test that was written for it must turn red."""

from __future__ import annotations

from tests.seeded.planting import Bug

DONE = "tests/delivery/test_completions.py"
SINKS = "tests/cli/test_completion.py"

COMPLETED: dict[str, Bug] = {
    "a run says LINEAGE DONE while a sink is down": Bug(
        "kfm.engine.lineage_stage:trace",
        'payload["sinks"] = sinks',
        "pass",
        f"{SINKS}::test_a_run_is_pending_while_a_sink_is_down_and_complete_when_it_has_followed",
    ),
    "a completion that another process wrote is written again": Bug(
        "kfm.store.outbox:OutboxTx.complete",
        'if is_known := self._tables.get("outbox", key := f"pending/{run.index:012d}") == exact(run):',
        'if is_known := bool(key := f"pending/{run.index:012d}"):',
        f"{DONE}::test_a_record_that_another_process_changed_is_left_to_it",
    ),
    "a sink that was removed is waited for": Bug(
        "kfm.delivery.completions:SinkPositions.wanted",
        "if sink in self._cursors]",
        "]",
        f"{SINKS}::test_a_sink_that_is_removed_while_pending_is_named_and_not_waited_for",
    ),
    "a wait ends well while a sink is down": Bug(
        "kfm.cli.session:await_sinks",
        "        tally.failed(each.dataset, not_followed(each, options.wait_limit))\n",
        "        pass\n",
        f"{SINKS}::test_waiting_ends_with_69_while_a_sink_is_down_and_with_0_when_it_has_followed",
    ),
    "a completion may name any receipt": Bug(
        "kfm.app.metadata.completion_records:completion_of",
        "if found.run_id != run_id or entry is None or",
        "if False and",
        f"{DONE}::test_a_completion_that_names_another_receipt_is_damage",
    ),
    "a refused run counts as followed": Bug(
        "kfm.delivery.completions:SinkPositions._has_followed",
        "run.index not in self._late[sink]",
        "True",
        f"{DONE}::test_a_run_that_is_frozen_for_a_sink_is_pending_until_the_thaw",
    ),
}
