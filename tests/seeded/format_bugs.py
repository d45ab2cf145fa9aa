"""Bugs in how formats are read and the docs are made into a site."""

from __future__ import annotations

from tests.seeded.planting import Bug

EXPECTED = "tests/validation/formats/test_grids.py::test_what_is_expected_is_so"

FORMATS: dict[str, Bug] = {
    "a grid in other units passes": Bug(
        "kfm.validation.grids:_check_variable", "said.units and said.units != variable.units", "False", EXPECTED
    ),
    "a grid in another coordinate system passes": Bug(
        "kfm.validation.grids:_check", "if expect.crs and not same_crs(grid.crs, expect.crs):", "if False:", EXPECTED
    ),
    "a reader of somebody else's opens a connection": Bug(
        "kfm.engine.isolation.landlock:confine",
        "return _calls(libc) and files",
        "return files",
        "tests/validation/formats/test_apart.py::test_a_reader_reaches_nothing_but_its_file",
    ),
    "a reader of somebody else's has every file there is": Bug(
        "kfm.engine.isolation.landlock:_files",
        "return bool(libc.syscall(_RESTRICT_SELF, rules, 0) == 0)",
        "return True",
        "tests/validation/formats/test_apart.py::test_a_reader_reaches_nothing_but_its_file",
    ),
    "shapes and grids are read where nothing confines their reader": Bug(
        "kfm.engine.isolation.sandbox_child:main",
        "(0,)) and task.confined:",
        "(0,)) and False:",
        "tests/validation/formats/test_unconfined.py"
        "::test_every_format_that_wants_it_is_refused_with_one_line_and_nothing_changed",
    ),
    "by columns blank values come first": Bug(
        "kfm.updaters.transforms.csv_arrow:_Codes.add",
        "pc.if_else(blank, arrow.number(size), codes)",
        "pc.if_else(blank, arrow.number(-1), codes)",
        "tests/validation/formats/test_csv_by_columns.py::test_both_make_the_same",
    ),
    "the site is made although a link leads nowhere": Bug(
        "mkdocs.yml",
        "links: {not_found: warn, anchors: warn",
        "links: {not_found: info, anchors: info",
        "tests/browser/test_site.py::test_a_page_with_a_broken_link_makes_no_site",
    ),
}
