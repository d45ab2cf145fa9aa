"""Bugs of hotfixes, of rollbacks that take others along, and of what a thaw catches up with."""

from __future__ import annotations

from tests.seeded.planting import Bug

HOTFIX, PLAN, LEVELS = (
    f"tests/app/interventions/test_{name}.py" for name in ("hotfix", "rollback_plan", "freeze_levels")
)
SET, GATES = "kfm.model.interventions.hotfix_set", "kfm.engine.zone_gates"

INTERVENTIONS: dict[str, Bug] = {
    "a hotfix overwrites a text that has changed": Bug(
        f"{SET}:Fix.holds",
        "(metadata.get(field) or None) == value for",
        "True or value for",
        f"{HOTFIX}::test_a_correction_holds_for_the_next_version_while_that_says_what_it_expects",
    ),
    "no gate sees a corrected text": Bug(
        "kfm.model.zone_requests:Correction.of",
        "{**metadata, **self.changed}",
        "metadata",
        f"{HOTFIX}::test_a_licence_that_the_gate_refuses_is_not_applied",
    ),
    "a hotfix is taken back under another one": Bug(
        "kfm.app.interventions.hotfixes:reverting",
        "        if lost:\n",
        "        if not lost and held:\n",
        f"{HOTFIX}::test_one_correction_builds_on_another_and_they_go_in_turn",
    ),
    "a patch needs no precondition": Bug(
        "kfm.app.interventions.hotfix_file:fix_of",
        "if step.field not in tested:",
        "if step.field in tested and not step.value:",
        f"{HOTFIX}::test_a_slip_in_the_file_is_refused_with_its_place_and_changes_nothing",
    ),
    "pages are not told of a hotfix": Bug(
        "kfm.model.outbox_messages:described",
        "return concerned(entry) | corrected",
        "return concerned(entry)",
        f"{HOTFIX}::test_every_reader_sees_a_correction_and_its_end_byte_for_byte",
    ),
    "what was made of what kfm.yml closes stays public": Bug(
        "kfm.app.authority.classification:declared_now",
        "if ref.uri.startswith(REF):",
        "if False:",
        "tests/app/dependencies/test_inherited.py::"
        "test_what_is_closed_above_after_publication_takes_back_what_is_below[restricted]",
    ),
    "a manifest names the first move alone": Bug(
        "kfm.projections.reports.rollback_manifest:rollback_manifest",
        '"moves": msgspec.to_builtins(receipt.moves),',
        '"moves": msgspec.to_builtins(receipt.moves[:1]),',
        "tests/app/interventions/test_manifests.py::"
        "test_a_rollback_of_several_refs_leaves_one_manifest_of_all_its_moves",
    ),
    "a freeze does not reach the steps of a window": Bug(
        "kfm.engine.execute:Crew._is_stopped",
        "if monotonic() - self._looked < FLUSH_S:",
        "if monotonic() > 0:",
        "tests/app/interventions/test_red.py::test_every_run_stops_within_a_step_and_the_catch_up_plan_is_what_is_done",
    ),
    "a restore under a key list asks for a signature": Bug(
        "kfm.app.authority.recall:run_unsigned",
        "    context.guards.authority = lambda *_about: Warrant()\n",
        "",
        "tests/app/interventions/test_precision.py::"
        "test_an_installation_with_a_key_list_is_restored_and_two_persons_thaw_it",
    ),
    "what was published after a backup stays in the catalog": Bug(
        "kfm.app.metadata.catalogs:_unknown_datasets",
        "if is_ours else []",
        "if not is_ours else []",
        "tests/app/backup/test_backup.py::test_a_dataset_that_was_first_published_after_the_backup_leaves_the_catalog",
    ),
    "what was made of a version stays public": Bug(
        "kfm.app.interventions.rollback_plan:_is_made_of",
        "return known[version]",
        "return False",
        f"{PLAN}::test_what_was_made_of_it_goes_back_in_the_same_commit",
    ),
    "a withdrawn version comes back with another dataset": Bug(
        "kfm.app.interventions.rollback_plan:_dependents",
        "if one not in withdrawn and",
        "if",
        f"{PLAN}::test_a_dataset_that_was_never_made_of_anything_else_is_decided_by_itself",
    ),
    "a frozen dataset is taken along": Bug(
        "kfm.engine.run_context:RunContext.switches_of",
        'found += tuple(refs.switch("dataset", name) for name in sorted(others))',
        "pass",
        f"{PLAN}::test_a_frozen_dataset_is_not_taken_along",
    ),
    "amber stops nothing": Bug(
        "kfm.engine.run_context:RunContext.switches",
        "if self.updater.is_risky(self.trigger) else ()",
        "if False else ()",
        f"{LEVELS}::test_a_hotfix_that_met_a_freeze_is_kept_and_done_after_the_thaw",
    ),
    "a thaw runs what it said it would drop": Bug(
        "kfm.app.interventions.catch_up:drop_triggers",
        "tx.inbox.finish(each, receipt.run_id)",
        "pass",
        f"{LEVELS}::test_none_drops_every_request_and_a_trigger_can_be_dropped_alone",
    ),
}
