"""Promises about recorded settings, receipts and reasons, each broken: the test written for it must turn red."""

from __future__ import annotations

from tests.seeded.planting import Bug

CONFIG = "tests/engine/test_recorded_config.py"
REPRODUCE = "tests/cli/test_reproduce.py"
WORKERS = "tests/cli/test_worker_receipts.py"

MAINTENANCE = "tests/cli/test_maintenance_records.py"

RECORDED: dict[str, Bug] = {
    "a repair leaves no receipt": Bug(
        "kfm.app.maintenance.reconcile:repair",
        "    if rebuilt:\n",
        "    if False:\n",
        f"{MAINTENANCE}::test_a_repair_of_everything_leaves_one_receipt_and_none_if_nothing_differs",
    ),
    "an entry about a sink makes the sink pending again": Bug(
        "kfm.model.outbox_messages:is_followed",
        'return entry.op_type not in ("catalog", "sinks")',
        "return True",
        f"{MAINTENANCE}::test_a_catalog_that_is_built_leaves_an_entry_that_no_sink_follows",
    ),
    "an operation needs no reason": Bug(
        "kfm.cli.session:person",
        'if not said["reason"] and not',
        "if False and not",
        "tests/cli/test_reasons.py"
        "::test_an_operation_without_a_reason_is_refused_in_one_line_that_shows_the_command[thaw]",
    ),
    "entries of public data do not say from what it was made": Bug(
        "kfm.engine.protected.ledger_redaction:append",
        "governed=_facts(receipt, _OPEN, []) if is_open else None",
        "governed=None",
        "tests/cli/test_ledger_facts.py::test_an_entry_about_public_data_names_its_inputs_its_findings_and_its_care",
    ),
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
