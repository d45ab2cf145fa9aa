"""Promises about recorded settings and worker receipts, each broken: the test that was written for it must turn red."""

from __future__ import annotations

from tests.seeded.planting import Bug

CONFIG = "tests/engine/test_recorded_config.py"
REPRODUCE = "tests/cli/test_reproduce.py"
WORKERS = "tests/cli/test_worker_receipts.py"

RECORDED: dict[str, Bug] = {
    "the settings of a run without a plan are not stored": Bug(
        "kfm.engine.run_context:RunContext.keep_config",
        "tx.objects([(work.config_hash, work.config)])",
        "pass",
        f"{CONFIG}::test_each_distinct_configuration_is_stored_once_under_the_digest_that_receipts_name",
    ),
    "reproduce uses the settings of kfm.yml": Bug(
        "kfm.app.provenance.reproduce:_use_recorded",
        "    session.config = session.resolved.config\n",
        "",
        f"{REPRODUCE}::test_a_changed_configuration_is_named",
    ),
    "lost settings are replaced by those of kfm.yml": Bug(
        "kfm.app.provenance.reproduce:_use_recorded",
        "return then, [Divergence(what=what",
        "return then, [][:0] and [Divergence(what=what",
        f"{REPRODUCE}::test_a_recorded_configuration_that_is_lost_is_named_with_its_cure",
    ),
    "old settings open what is closed today": Bug(
        "kfm.app.session.recorded_config:with_config",
        "max(recorded.sensitivity, now.sensitivity, key=_closed)",
        "recorded.sensitivity",
        f"{REPRODUCE}::test_a_dataset_that_is_more_closed_today_stays_closed_when_it_is_made_again",
    ),
    "a yes to masked data is called allow": Bug(
        "kfm.projections.worker_receipt:_said",
        "word = SANITIZE if decision.allow and masked else DECISIONS[decision.allow]",
        "word = DECISIONS[decision.allow]",
        f"{WORKERS}::test_a_yes_to_masked_data_is_called_sanitize_and_names_the_mask",
    ),
    "the stack of an error is lost": Bug(
        "kfm.engine.receipt_stage:fail",
        "        if stack:\n",
        "        if False:\n",
        f"{WORKERS}::test_the_stack_of_an_error_names_functions_and_no_value",
    ),
}
CLAIMS: dict[str, Bug] = {
    "O4 recorded settings": Bug(
        "kfm.engine.run_journal:planned_config",
        'first[0].payload.get("config_hash")',
        "None",
        f"{CONFIG}::test_a_resumed_run_is_finished_with_the_configuration_it_was_planned_with_and_says_so",
    ),
    "W5 Work": Bug(
        "kfm.projections.worker_receipt:_outputs",
        "if ref.accepted_hash:",
        "if False:",
        f"{WORKERS}::test_the_work_zone_lies_between_the_source_and_the_version",
    ),
    "W4 for workers": Bug(
        "kfm.sinks.receipt_files:ReceiptFiles.send",
        "                if fs.exists(path):\n                    continue\n",
        "                fs.unlink(path)\n",
        f"{WORKERS}::test_every_run_leaves_a_worker_receipt_on_disk_once",
    ),
}
