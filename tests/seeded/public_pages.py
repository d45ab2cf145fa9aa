"""Bugs in the pages of the public folder."""

from __future__ import annotations

from tests.seeded.planting import Bug

PAGES = "tests/delivery/test_page_content.py"
MASKED_PAGES = "tests/engine/protected/test_public_description.py"

PUBLIC_PAGES: dict[str, Bug] = {
    "a page reads every file": Bug(
        "kfm.delivery.page_content:PageContent._described",
        "self._listed[:FILES]",
        "self._listed",
        f"{PAGES}::test_a_page_of_many_files_reads_few_of_them_and_says_so",
    ),
    "an explanation stays when its dataset goes": Bug(
        "kfm.delivery.pages_follower:PageLetters.letters",
        "{*page_paths(dataset), ",
        "{*page_paths(dataset)[:1], ",
        f"{MASKED_PAGES}::test_the_pages_of_a_masked_dataset_go_when_it_goes",
    ),
    "a page lists a withdrawn version as public": Bug(
        "kfm.delivery.page_content:PageContent._versions",
        "if gone is not None:",
        "if gone is ...:",
        "tests/delivery/test_public_pages.py::test_a_page_goes_back_with_its_version_and_goes_with_the_last",
    ),
    "the map of masked data leaves a cell out": Bug(
        "kfm.delivery.page_samples:_Found.drawing",
        "for cell in self._cells]",
        "for cell in list(self._cells)[1:]]",
        f"{MASKED_PAGES}::test_no_page_of_a_masked_dataset_holds_more_than_its_public_file",
    ),
}
