"""The claims of docs/conformance.md about jobs and servers, each broken in one place."""

from __future__ import annotations

from tests.seeded.planting import Bug

QUEUE = "tests/app/jobs_queue"
DERIVED = "tests/app/derived_jobs"

JOB_CLAIMS: dict[str, Bug] = {
    "W4 its path": Bug(
        "kfm.projections.file_paths:receipt_path",
        "receipts/{run.job_type}/{year}",
        "receipts/{run.dataset}/{year}",
        "tests/engine/test_artifacts.py::test_a_receipt_lies_at_the_path_of_its_logical_start",
    ),
    "W4 write-once": Bug(
        "kfm.store.ledger:LedgerTx.append",
        "            if self.receipt_body(receipt.run_id) == body:\n                return\n",
        "            return\n",
        "tests/store/test_state.py::test_a_receipt_is_written_once",
    ),
    "U6 object store": Bug(
        "kfm.sinks.bucket_publisher:BucketPublisher.update_metadata",
        "later = _seq_in(kept[0]) < int(value",
        "later = _seq_in(kept[0]) != int(value",
        "tests/sinks/test_publishers.py::test_a_pointer_that_many_replace_at_once_only_moves_forward",
    ),
    "O15 workload identity": Bug(
        "kfm.bucket:open_bucket",
        'if settings.identity == "keys" else None',
        "",
        "tests/store/test_workload_identity.py::test_the_agent_of_a_container_gives_credentials",
    ),
    "W3": Bug(
        "kfm.store.job_table:JobsTx.enqueue",
        "known = self.by_id(job.envelope.job_id)",
        "known = None",
        f"{QUEUE}/test_job_worker.py::test_the_same_envelope_again_is_the_same_job",
    ),
    "W7 tiles": Bug(
        "kfm.updaters.jobs.map_tiles:_drawn",
        "MINZOOM=said.min_zoom, MAXZOOM=said.max_zoom",
        "MINZOOM=said.min_zoom, MAXZOOM=said.min_zoom",
        f"{DERIVED}/test_map_tiles.py::test_every_well_is_on_the_map_at_every_zoom",
    ),
    "W7 report": Bug(
        "kfm.updaters.jobs.quality_report:_report",
        "passed=rows >= said.min_rows",
        "passed=True",
        f"{DERIVED}/test_quality_report.py::test_a_missed_threshold_holds_the_run_and_its_receipt_says_which",
    ),
    "W7 index": Bug(
        "kfm.app.authority.served_refs:_aliases",
        "refs.search_alias(will), move.after",
        "refs.search_alias(will), move.before",
        f"{DERIVED}/test_search.py::test_the_alias_and_the_epoch_move_with_publication_and_rollback",
    ),
    "W8": Bug(
        "kfm.cli.start.new_templates:JOB",
        "if rows < self.parameters.min_rows:",
        "if rows > self.parameters.min_rows:",
        "tests/cli/test_new.py::test_what_is_written_passes_its_own_tests",
    ),
    "W9 manifests": Bug(
        "deploy/chart/templates/_pods.tpl",
        "  capabilities: {drop: [ALL]}\n",
        "",
        "tests/deploy/test_manifest_policy.py::test_a_broken_chart_is_found",
    ),
    "W10 once": Bug(
        "kfm.app.jobs.job_worker:JobWorker._claim",
        "session.state.inbox.kept(trigger) != trigger or ",
        "",
        f"{QUEUE}/test_job_delivery.py::test_each_job_delivered_up_to_five_times_by_two_workers_has_one_end",
    ),
    "W10 dead letters": Bug(
        "kfm.store.job_table:JobsTx.attempt",
        "attempts=job.attempts + 1",
        "attempts=job.attempts",
        f"{QUEUE}/test_worker_kills.py::test_a_job_that_kills_its_workers_becomes_a_dead_letter",
    ),
    "P9 of the toolkit": Bug(
        "kfm.projections.operation_counts:LedgerCounts.add",
        "found.wal_entries += len(entry.wal_ids)",
        "found.wal_entries += 1",
        "tests/app/objectives/test_ledger_counts.py::test_after_any_history_the_counts_are_those_of_the_whole_ledger",
    ),
}
