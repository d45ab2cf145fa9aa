"""Promises about exported lineage, each broken: the test that was written for it must turn red."""

from __future__ import annotations

from tests.seeded.planting import Bug

JOINS = "tests/projections/test_joins.py"
STANDING = "tests/sinks/graph/test_standing.py"

LINEAGE: dict[str, Bug] = {
    "a run reads a version under another name than it was made": Bug(
        "kfm.model.public_run:_as_version",
        "    if not each.id.startswith(ref_id(refs.PROCESSED)):",
        "    if True:",
        f"{JOINS}::test_from_each_grammar_alone_a_reader_walks_from_source_to_public_file_and_back",
    ),
    "a promotion makes no public file": Bug(
        "kfm.delivery.public_runs:_members",
        "if version and record is not None",
        "if version and record is not None and known.run is not None and record.run_id == known.run.run_id",
        f"{JOINS}::test_from_each_grammar_alone_a_reader_walks_from_source_to_public_file_and_back",
    ),
    "a catalog does not name the promotion": Bug(
        "kfm.projections.dcat:_publication",
        "    if not version.published_by:",
        "    if True:",
        f"{JOINS}::test_from_each_catalog_alone_a_reader_walks_from_source_to_public_file_and_back",
    ),
    "an export does not say who ordered a run": Bug(
        "kfm.masking.lineage_redaction:public_run",
        "operator=entry.operator if public and",
        "operator=entry.operator if not public and",
        f"{JOINS}::test_every_format_names_who_ordered_a_run",
    ),
    "a rollback changes the processed zone of the graph": Bug(
        "kfm.projections.cypher:_standing",
        'if part.zone == "processed"',
        "if part",
        f"{STANDING}::test_after_a_rollback_the_published_zone_is_what_it_was_and_the_processed_one_stays",
    ),
    "a forged run is not seen": Bug(
        "kfm.app.maintenance.graph_check:compare",
        "    if wrong or counts != known_counts:",
        "    if False:",
        f"{STANDING}::test_reconcile_finds_forged_runs_and_altered_assets",
    ),
}
