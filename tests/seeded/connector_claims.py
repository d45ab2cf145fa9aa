"""Claims about connectors and what they discover; see claims.py."""

from __future__ import annotations

from tests.seeded.planting import Bug

CONNECTORS: dict[str, Bug] = {
    "O3": Bug(
        "kfm/contract/connector.py",
        "        return kept.pinned + others",
        "        return list(manifest.sources)",
        "tests/connectors/test_connector.py::test_its_five_words_are_one_run_with_one_receipt",
    ),
    "O3 validate": Bug(
        "kfm/contract/connector.py",
        "        if not report.passed:",
        "        if not report.checks:",
        "tests/connectors/test_connector.py::test_a_check_that_fails_lets_nothing_be_published",
    ),
}
