"""What stewards and readers of masked data are promised, each broken once."""

from __future__ import annotations

from tests.seeded.planting import Bug

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
}
