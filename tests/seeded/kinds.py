"""The kinds of work of docs/conformance.md, each broken in one place."""

from __future__ import annotations

from tests.seeded.planting import Bug

HERE = "tests/project/test_kinds.py"
KINDS: dict[str, Bug] = {
    "U17 ingest": Bug(
        "examples/kinds/ingest/kfm.yml",
        "mode: discard-row",
        "mode: freeze",
        f"{HERE}::test_what_comes_in_is_public_but_for_what_cannot_be_true",
    ),
    "U17 STAC polling": Bug(
        "kfm.app.daemon.source_watch:Watch._trigger",
        'return event_trigger(self._session, dataset, "poll"',
        'return None and event_trigger(self._session, dataset, "poll"',
        f"{HERE}::test_a_new_scene_is_seen_by_looking_at_the_catalog",
    ),
    "U17 ETL sync": Bug(
        "examples/kinds/etl-sync/sync.py",
        "ORDER BY id",
        "ORDER BY id LIMIT 1",
        f"{HERE}::test_the_other_store_follows_table_by_table",
    ),
    "U17 metadata refresh": Bug(
        "examples/kinds/metadata-refresh/kfm.yml",
        "about: {from: about",
        "about: {from: wells",
        f"{HERE}::test_what_is_said_of_the_data_changes_and_the_data_do_not",
    ),
    "U17 remote sensing": Bug(
        "examples/kinds/remote-sensing-delta/delta.py",
        'pixel["tile"] == step.params["tile"] and ',
        "",
        f"{HERE}::test_only_the_tile_that_changed_is_new",
    ),
    "U17 correction": Bug(
        "kfm.app.runs.run_control:_apply_rules_alone",
        "        session.recalled += recall(session)\n",
        "        pass\n",
        f"{HERE}::test_what_a_label_closes_is_taken_back_and_the_rest_stays",
    ),
    "U17 Story Nodes": Bug(
        "kfm.model.jobs.story_record:address_of",
        'return f"{whole}@{version}{file}"',
        'return f"{whole}{file}"',
        f"{HERE}::test_a_story_is_made_again_for_the_version_that_it_cites",
    ),
    "U17 Focus Mode": Bug(
        "kfm.app.session.context_source:ContextSource.fetch",
        "canonical(dataset_context(self._state, self._own, dataset))",
        'canonical({"format": "kfm.focus-context/1"})',
        f"{HERE}::test_a_context_tells_of_the_version_that_is_public",
    ),
}
