"""Bugs in the pages of the public folder."""

from __future__ import annotations

from tests.seeded.planting import Bug

PAGES = "tests/delivery/test_page_content.py"
METADATA = "tests/delivery/test_public_metadata.py"
TAKEN_OVER = "tests/delivery/test_taken_over.py"
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
    "keys that differ only in case share a name": Bug(
        "kfm.projections.file_paths:published_path",
        "if twins:",
        "if False:",
        "tests/delivery/test_file_names.py::test_keys_that_differ_only_in_case_get_a_suffix_and_no_other_key_does",
    ),
    "a version from before gets new paths": Bug(
        "kfm.engine.upsert:_names_mark",
        "known is None or keeps_case(known)",
        "True",
        "tests/delivery/test_file_names.py::test_a_version_from_before_names_kept_their_case_keeps_its_paths",
    ),
    "a feed counts the files of a version that is gone": Bug(
        "kfm.projections.pages.version_feed:_kind",
        "if move.after not in live:",
        "if move.after is None:",
        f"{METADATA}::test_after_a_withdrawal_only_the_feed_stays_and_says_so",
    ),
    "the checksums of a killed report stay": Bug(
        "kfm.delivery.public_metadata:PublicMetadata.stale",
        "move.n > noted",
        "move.n > noted + 99",
        f"{METADATA}::test_what_a_killed_report_wrote_goes_with_its_version",
    ),
    "every run opens the catalog and the pages": Bug(
        "kfm.app.metadata.ledger_sinks:report_to_sinks",
        "_pass_over(session)",
        "set()",
        "tests/delivery/test_shown_by_default.py::test_a_run_that_publishes_nothing_opens_neither_catalog_nor_pages",
    ),
    "what a late report wrote stays": Bug(
        "kfm.delivery.followers:_Following._is_held",
        "if self._lock.is_held(tx):",
        "if True:",
        f"{TAKEN_OVER}::test_what_a_late_report_shows_of_a_withdrawn_dataset_is_removed[public]",
    ),
    "a late report is forgotten when it fails": Bug(
        "kfm.delivery.followers:_Following._send_again",
        "tx.outbox.wait(name, entry.index)",
        "pass",
        f"{TAKEN_OVER}::test_a_late_report_that_fails_is_put_right_by_the_next",
    ),
    "a late catalog is taken for what was noted": Bug(
        "kfm.delivery.catalog_follower:CatalogLetters.forget",
        'tx.outbox.keep_note(CATALOG, dataset, b"")',
        "pass",
        f"{TAKEN_OVER}::test_what_a_late_report_shows_of_another_version_goes[publish-catalog]",
    ),
    "what a late build wrote stays": Bug(
        "kfm.delivery.followers:in_turn",
        "if is_held:",
        "if True:",
        f"{TAKEN_OVER}::test_a_late_build_is_done_again[public]",
    ),
    "pages replace the archive's own index": Bug(
        "kfm.app.metadata.pages_sink:_sink",
        "or is_marked(path, head)",
        "or True",
        "tests/delivery/test_files_of_the_archive.py::test_a_file_that_kfm_did_not_write_stays_and_is_named",
    ),
    "the catalog replaces another catalog": Bug(
        "kfm.app.metadata.catalogs:_sink",
        "is_catalog_document if is_new else None",
        "None",
        "tests/delivery/test_files_of_the_archive.py::test_a_catalog_that_kfm_did_not_write_stays_as_it_is",
    ),
    "a catalog stays where it is off": Bug(
        "kfm.app.metadata.ledger_sinks:report_to_sinks",
        "if not session.resolved.config.catalog and",
        "if session.mode == '' and",
        "tests/delivery/test_shown_by_default.py::test_no_catalog_of_a_withdrawn_version_stays_where_the_catalog_is_off",
    ),
}
