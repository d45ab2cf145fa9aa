"""Bugs about files and dry runs, each put back as it was: the test that was written for it must turn red."""

from __future__ import annotations

from tests.seeded.planting import Bug

SURFACE: dict[str, Bug] = {
    "a dry run is silent about the sinks": Bug(
        "kfm.app.runs.settlement:_settle",
        'if session.mode != "read":',
        'if session.mode == "write":',
        "tests/engine/test_predicted_sinks.py::test_a_dry_run_names_every_effect_on_every_sink",
    ),
    "an error page replaces a table": Bug(
        "kfm.engine.changes.source_change:_change",
        "if kind != kind_of(then):",
        "if False:",
        "tests/cli/test_changed_source.py::test_a_change_of_kind_or_of_a_free_header_is_quarantined",
    ),
    "the good bytes are held as shrunk when they return": Bug(
        "kfm.engine.changes.source_change:EarlierSources.had",
        "before.content_hash == ref.content_hash",
        "False",
        "tests/cli/test_changed_source.py::test_a_person_may_accept_the_change_and_the_good_bytes_may_return",
    ),
    "the time of GeoJSON stays out of the catalog": Bug(
        "kfm.delivery.file_facts:with_facts",
        "datetime=artifact.datetime or facts.datetime,",
        "",
        "tests/delivery/test_described_files.py::test_extent_geometry_and_time_of_geojson_reach_the_catalog",
    ),
    "an index gives rows the shapes of others": Bug(
        "kfm.validation.shapefiles:_rows",
        "    _check_index(shp, shx, count)\n",
        "",
        "tests/validation/formats/test_spoilt_texts_and_grids.py::test_a_shapefile_whose_parts_disagree_is_quarantined",
    ),
}
