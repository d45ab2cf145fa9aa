"""Claims of docs/conformance.md about where data comes from, each broken in one place."""

from __future__ import annotations

from tests.seeded.planting import Bug

SOURCES: dict[str, Bug] = {
    "D2 pinned": Bug(
        "kfm.model.keys:input_hash",
        "list(r.partition), ",
        "",
        "tests/model/test_keys.py::test_what_was_read_is_in_the_input_hash",
    ),
    "D2 s3": Bug(
        "kfm.sources.s3:signed_headers",
        "for word in (day, region,",
        "for word in (region, day,",
        "tests/sources/test_s3_source.py::test_keys_by_reference_sign_and_are_written_nowhere",
    ),
    "D2 stac": Bug(
        "kfm.updaters.stac_assets:Assets.discover",
        "expect_hash=asset.digest",
        'expect_hash=""',
        "tests/app/discovery/test_stac_assets.py::test_the_assets_of_an_item_are_published_under_its_id_and_followed",
    ),
}
