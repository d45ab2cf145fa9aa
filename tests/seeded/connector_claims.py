"""Claims about connectors and what they discover; see claims.py."""

from __future__ import annotations

from tests.seeded.planting import Bug

CONNECTORS: dict[str, Bug] = {
    "O3": Bug(
        "kfm.model.connector:Connector.inputs",
        "        return kept.pinned + others",
        "        return list(manifest.sources)",
        "tests/app/discovery/test_connector.py::test_its_five_words_are_one_run_with_one_receipt",
    ),
    "O9": Bug(
        "kfm.sources.catalogs.crawl:Crawl.page",
        "        if uri in self.pages:\n            raise Refused",
        "        if False:\n            raise Refused",
        "tests/app/discovery/test_discover.py::test_a_server_that_lies_is_refused_in_one_line",
    ),
    "O9 same": Bug(
        "kfm.app.previews.draft_pull_request:Proposal.commit",
        'when = repository.write("show", "-s", "--format=%ct", self.parent) + " +0000"',
        'when = f"@{__import__(chr(116) + chr(105) + chr(109) + chr(101)).time_ns() // 1000 % 10**9} +0000"',
        "tests/app/discovery/test_draft.py::test_the_difference_is_the_same_wherever_and_whenever_it_is_made",
    ),
    "O9 held": Bug(
        "kfm.app.previews.draft_pull_request:_hold",
        '        requests.status(commit, CHECK, "pending", WAITING)',
        '        requests.status(commit, CHECK, "success", WAITING)',
        "tests/app/discovery/test_draft.py::test_it_cannot_be_merged_before_every_gate_said_yes",
    ),
    "O3 validate": Bug(
        "kfm.model.connector:Connector.perform",
        "        if not report.passed:",
        "        if not report.checks:",
        "tests/app/discovery/test_connector.py::test_a_check_that_fails_lets_nothing_be_published",
    ),
}
