"""What stewards and readers of masked data are promised, each broken once."""

from __future__ import annotations

from tests.seeded.planting import Bug

PROTECT = "tests/cli/test_protect.py"
DESCRIBED = "tests/engine/protected/test_public_description.py"

STEWARDS: dict[str, Bug] = {
    "a masked dataset is published without a description": Bug(
        "kfm.delivery.catalog_content:_is_masked",
        'made.labels is not None and made.labels.level == "generalised"',
        "False",
        f"{DESCRIBED}::test_everything_that_describes_a_masked_dataset_gives_its_file_its_columns_and_its_cells",
    ),
    "a count of few protected rows is stated": Bug(
        "kfm.delivery.masked_tables:_counted",
        "count if count >= SMALLEST_K else None",
        "count",
        "tests/delivery/test_masked_tables.py::test_a_count_below_the_smallest_k_is_not_stated",
    ),
    "protect declares a dataset before its label": Bug(
        "kfm.app.stewards.protection_setup:prepare_setup",
        "files = [*key, mask, label, config]",
        "files = [config, *key, mask, label]",
        f"{PROTECT}::test_a_kill_between_any_two_effects_is_finished_by_the_next_call",
    ),
    "protect lists values that few rows share": Bug(
        "kfm.app.stewards.column_survey:_counted",
        "if count >= k and is_printable(text)",
        "if is_printable(text)",
        f"{PROTECT}::test_nothing_that_protect_shows_or_writes_holds_a_place_a_name_or_a_rare_value",
    ),
    "protect makes a new key for data of a lost one": Bug(
        "kfm.app.stewards.protection_setup:_custodian",
        "    if custodian in there and target.resolved is not None:\n",
        "    if False:\n",
        f"{PROTECT}::test_a_custodian_whose_key_is_lost_gets_no_new_key",
    ),
    "small groups are published as they are": Bug(
        "kfm.masking.small_groups:coarsened",
        "if policy.recognised_by:",
        "if False:",
        "tests/engine/protected/test_small_groups.py::test_no_public_group_of_quasi_identifiers_is_smaller_than_k",
    ),
    "a value becomes finer when others join its group": Bug(
        "kfm.masking.public_table:public_table",
        "rows.forms(known.forms, keys)",
        "{}",
        "tests/engine/protected/test_small_groups.py::test_what_was_coarsened_stays_so_when_others_join_its_group",
    ),
    "several rows of a record count as several records": Bug(
        "kfm.masking.small_groups:_raise_small",
        "shown.values(one, ladder[level]), set()).add(identity)",
        'shown.values(one, ladder[level]), set()).update(f"{identity}{n}" for n in range(len(found[identity])))',
        "tests/masking/test_small_groups.py::test_rows_of_one_record_are_one_record_of_a_group",
    ),
    "a second namespace gives a place a second cell": Bug(
        "kfm.masking.public_table:public_table",
        "first = {**near, **known.cells}",
        "first = known.cells",
        "tests/engine/protected/test_one_cell_of_a_place.py"
        "::test_a_second_mask_with_another_namespace_shows_the_same_cells",
    ),
    "a coarser second mask is published": Bug(
        "kfm.engine.protected.masking_stage:_made",
        "if made.elsewhere:",
        "if False:",
        "tests/engine/protected/test_one_cell_of_a_place.py"
        "::test_a_second_mask_with_coarser_cells_is_denied_before_anything_is_published",
    ),
    "an earlier version with finer cells is published again": Bug(
        "kfm.engine.protected.leak_check:_check_cells",
        "    if other:\n",
        "    if False:\n",
        "tests/engine/protected/test_one_cell_of_a_place.py"
        "::test_an_earlier_version_with_other_cells_than_are_public_now_is_not_published_again",
    ),
    "two runs at once give a place two cells": Bug(
        "kfm.engine.protected.protected_facts:Facts._keep",
        "if other and strict:",
        "if False:",
        "tests/engine/protected/test_remembered_cells.py::test_two_runs_at_once_give_a_place_one_cell",
    ),
    "protect overlooks what is public already": Bug(
        "kfm.app.stewards.protection_steps:_withdrawal",
        "    if not public or _is_masked(session, dataset, public):\n",
        "    if True:\n",
        f"{PROTECT}::test_a_table_that_is_public_already_is_to_be_withdrawn_first",
    ),
    "a withheld count is shown when it grows": Bug(
        "kfm.masking.count_table:count_table",
        "if name in known}",
        "if False}",
        "tests/engine/protected/test_small_groups.py::test_counts_below_k_are_withheld_and_stay_so",
    ),
}
