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
}
