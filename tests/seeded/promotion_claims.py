"""Claims about previews and their promotion; see claims.py."""

from __future__ import annotations

from tests.seeded.planting import Bug

PROMOTION: dict[str, Bug] = {
    "O8": Bug(
        "kfm.engine.receipt_stage:receipt_of",
        "policy_decisions=reached.decisions",
        "policy_decisions=[]",
        "tests/engine/test_recorded_fields.py::test_the_receipt_of_a_promotion_says_who_allowed_which_digest",
    ),
    "O8 by pull request": Bug(
        "kfm.app.previews.merged_promotion:_promoted",
        '        params = {"to": each.version, ',
        '        params = {"to": session.state.refs.at(refs.processed(each.dataset)), ',
        "tests/app/previews/test_merge_is_promotion.py::test_a_branch_is_previewed_reported_mended_merged_and_promoted",
    ),
    "O8 or nothing": Bug(
        "kfm.app.previews.merged_promotion:_sources",
        "        if was != is_:",
        "        if len(was) != len(is_):",
        "tests/app/previews/test_refused_by_digest.py::test_a_source_that_changed_after_the_approval_is_refused",
    ),
    "O8 nothing protected is shown": Bug(
        "kfm.app.previews.preview_report:check_leaks",
        'if report.verdict != "clean":',
        "if not report.verdict:",
        "tests/app/previews/test_nothing_protected.py"
        "::test_what_a_branch_says_of_a_protected_record_stops_the_whole_report",
    ),
}
