"""Bugs in the maps of datasets and their tiles."""

from __future__ import annotations

from tests.seeded.planting import Bug

TILES = "tests/app/serving/test_tiles.py"
DRAWN = "tests/projections/test_place_tiles.py"

MAP_BUGS: dict[str, Bug] = {
    "a tile moves the corners of a cell": Bug(
        "kfm.projections.tiles.place_tiles:_units",
        "round((x - left) / size), round",
        "round((x - left) / size) + 2, round",
        f"{TILES}::test_no_tile_of_masked_data_has_a_coordinate_that_its_cells_do_not_have",
    ),
    "a row of masked data is drawn where its columns say": Bug(
        "kfm.delivery.page_samples:_Found.add",
        "elif self._masked:",
        "elif False:",
        f"{TILES}::test_a_row_of_masked_data_without_a_cell_is_drawn_nowhere",
    ),
    "what is kept for one audience is found by another": Bug(
        "kfm.app.serving.map_answers:_key",
        "(shelf.audience, ",
        "(",
        f"{TILES}::test_what_is_kept_is_found_again_only_by_its_audience_under_the_same_labels",
    ),
    "what is kept stays under other labels": Bug(
        "kfm.app.serving.map_answers:_key",
        ", shelf.epoch(shown))",
        ")",
        f"{TILES}::test_what_is_kept_is_found_again_only_by_its_audience_under_the_same_labels",
    ),
    "a shape has a seam at the date line": Bug(
        "kfm.projections.tiles.place_tiles:_beyond_the_date_line",
        "if x == to and x in (0, WORLD):",
        "if False:",
        f"{DRAWN}::test_a_shape_that_is_cut_at_the_date_line_has_no_seam_there",
    ),
    "a tile may have any size": Bug(
        "kfm.projections.tiles.place_tiles:PlaceTiles._dots_in",
        "while len(firsts) > MOST_DOTS:",
        "while False:",
        f"{DRAWN}::test_no_tile_has_more_than_its_limits_and_says_so_and_every_place_is_counted",
    ),
    "the page names another map": Bug(
        "kfm.api.console.map_part:with_live_map",
        '"/v1/datasets/{dataset}/map"',
        '"/v1/datasets/{dataset}/maps"',
        "tests/browser/test_map.py::test_the_map_draws_the_places_obeys_the_keyboard_and_is_small",
    ),
}
