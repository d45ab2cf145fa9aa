"""Claims of docs/conformance.md about what sinks are told."""

from __future__ import annotations

from tests.seeded.planting import Bug

STANDING = "tests/sinks/graph/test_standing.py"
NEO4J = "tests/sinks/graph/test_neo4j.py"

CATALOG = "tests/delivery/test_folder.py"
OTEL = "tests/sinks/otel"

TOLD: dict[str, Bug] = {
    "P6 told in every grammar": Bug(  # a requirement of the toolkit
        "kfm.projections.openlineage:events",
        "run.finished_at, inputs, outputs)]",
        "run.finished_at, inputs, [])]",
        "tests/projections/test_real_runs.py"
        "::test_ingest_promote_rollback_and_withdrawal_are_said_alike_by_all_and_by_the_journal",
    ),
    "D9 what is superseded is marked": Bug(
        "kfm.projections.stac:collection",
        '**({} if current else {"deprecated": True}),',
        "**({} if current else {}),",
        f"{CATALOG}::test_a_newer_version_is_current_and_the_older_one_is_linked",
    ),
    "D9 what is deleted is marked": Bug(
        "kfm.projections.cypher:_standing",
        'removed = [{**_said(run, key), "removed_by": run.run_id} for key in run.removed]',
        "removed = [_said(run, key) for key in run.removed]",
        f"{NEO4J}::test_runs_sent_twice_out_of_order_and_over_kills_are_there_once[50-1-1]",
    ),
    "D13 a trace of each run": Bug(
        "kfm.projections.otlp.run_trace:_span",
        'span_id(run.run_id, above) if place else ""',
        "span_id(run.run_id, above)",
        f"{OTEL}/test_telemetry.py::test_each_run_is_a_trace_with_one_root_and_one_log_record",
    ),
    "D13 the numbers of Prometheus": Bug(
        "kfm.projections.otlp.metric_points:otlp_metrics",
        '"counts": list(counts)',
        '"counts": list(counts)[::-1]',
        f"{OTEL}/test_telemetry.py::test_the_metrics_are_the_numbers_that_prometheus_reads",
    ),
    "D13 nothing of protected data": Bug(
        "kfm.delivery.run_times:run_times",
        "shows_steps=run.labels is None",
        "shows_steps=True",
        f"{OTEL}/test_canaries.py::test_a_run_about_protected_data_shows_no_step_and_no_count",
    ),
    "O12": Bug(
        "kfm.delivery.catalog_content:Cataloguing._gone_on",
        "for version in self.standing[-3:-1]:",
        "for version in self.standing[-2:-1]:",
        f"{CATALOG}::test_a_newer_version_is_current_and_the_older_one_is_linked",
    ),
    "O12 what is withdrawn vanishes": Bug(
        "kfm.delivery.catalog_follower:CatalogLetters.__call__",
        "        yield from removed\n",
        "        yield from ()\n",
        f"{CATALOG}::test_what_is_withdrawn_vanishes_and_nothing_else",
    ),
    "O12 proofs are attached": Bug(
        "kfm.delivery.catalog_proofs:Proofs._inclusion",
        "self._hashes[:size], index - 1)",
        "self._hashes[:size], index - 2)",
        "tests/delivery/test_proofs.py::test_every_run_that_led_to_it_is_proved_by_the_first_signed_head_that_covers_it",
    ),
    "D12": Bug(
        "kfm.masking.lineage_redaction:standing_of",
        'if known.closed and not any(one.level != "public" for one in said):',
        "if False:",
        "tests/app/provenance/test_told.py::test_a_source_that_became_protected_is_not_named_any_more",
    ),
    "D11": Bug(
        "kfm.projections.cypher:_DATASET",
        "WHEN row.seq >= d.seq THEN",
        "WHEN true THEN",
        f"{NEO4J}::test_what_is_older_changes_nothing_in_one_batch_and_over_several",
    ),
    "O10 the catalog's schemas": Bug(
        "kfm.app.metadata.catalog_gate:faults",
        "    if is_gated(session.resolved):",
        "    if not is_gated(session.resolved):",
        "tests/delivery/test_gates.py::test_a_catalog_that_would_not_validate_is_not_published",
    ),
    "O10 the graph": Bug(
        "kfm.app.metadata.catalog_gate:_graph",
        "        elif isinstance(one, Fault):\n            yield one",
        "        elif isinstance(one, Fault):\n            pass",
        "tests/delivery/test_gates.py::test_a_lost_edge_of_the_graph_is_not_published_over",
    ),
    "P2 of the toolkit, in the graph": Bug(
        "kfm.delivery.public_runs:_restored",
        "        if move.before == move.after:",
        '        if move.ref.startswith("published/"):',
        f"{STANDING}::test_after_a_rollback_the_published_zone_is_what_it_was_and_the_processed_one_stays",
    ),
    "D11 each thing once": Bug(
        "kfm.projections.cypher:USED",
        "MERGE (a)-[:USED_IN]->(r)",
        "CREATE (a)-[:USED_IN]->(r)",
        f"{NEO4J}::test_runs_sent_twice_out_of_order_and_over_kills_are_there_once",
    ),
    "D5 of a quarantined run": Bug(
        "kfm.engine.receipt_stage:keep_unplanned",
        "        tx.journal.append(run.run_id, segment)\n",
        "        pass\n",
        "tests/cli/test_completion.py::test_a_quarantined_run_leaves_records_in_the_write_ahead_log",
    ),
    "D6 complete when all sinks have followed": Bug(
        "kfm.delivery.completions:SinkPositions._has_followed",
        "if self._cursors[sink] < run.index:",
        "if False:",
        "tests/cli/test_completion.py::test_a_run_is_pending_while_a_sink_is_down_and_complete_when_it_has_followed",
    ),
}
