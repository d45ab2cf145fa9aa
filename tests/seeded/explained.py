"""The claims of docs/conformance.md on explanations; `claims` has the others."""

from __future__ import annotations

from tests.seeded.planting import Bug

CLAIMS: dict[str, Bug] = {
    "D15 the chain": Bug(
        "kfm.projections.explanation:chain.made",
        'stage="derived" if derived else "harmonised"',
        'stage="harmonised"',
        "tests/cli/test_explain.py::test_the_chain_goes_from_raw_over_harmonised_to_derived",
    ),
    "D15 every sentence cites": Bug(
        "kfm.projections.explanation:_last",
        'return [Line(about="last", text=text, cites=(last_good.receipt_digest,))]',
        'return [Line(about="last", text=text, cites=())]',
        "tests/cli/test_explain.py::test_every_sentence_cites_a_digest_of_something_that_is_recorded",
    ),
    "D15 the last good run": Bug(
        "kfm.app.provenance.explain:_last_good",
        'if entry.outcome in ("done", "unchanged", "noop")',
        'if entry.outcome in ("done", "unchanged", "failed")',
        "tests/cli/test_explain.py::test_it_shows_the_trigger_the_updater_and_the_last_good_run",
    ),
    "D15 why not": Bug(
        "kfm.app.provenance.why_not:_of_run",
        'if receipt.outcome in ("noop", "unchanged"):',
        'if receipt.outcome in ("unchanged",):',
        "tests/cli/test_why_not.py::test_a_noop_says_since_when_nothing_has_changed",
    ),
    "D15 done again": Bug(
        "kfm.engine.run_journal:Journal._keep_plan",
        "tx.objects([(name, body)])",
        "pass",
        "tests/cli/test_reproduce.py::test_a_changed_helper_module_is_named_with_the_step_it_changed",
    ),
    "D15 the page": Bug(
        "kfm.projections.pages.explanation_pictures:graph",
        'role="img" aria-label="{escape(title)}"',
        'role="img"',
        "tests/browser/test_explained.py::test_axe_finds_nothing_wrong_and_nothing_is_asked_of_anybody",
    ),
    "D15 the context": Bug(
        "kfm.delivery.dataset_context:_last_successful",
        "return _run(public_run(state, objects, entry, parts=False))",
        "return None",
        "tests/app/derived_jobs/test_focus_context.py::test_a_context_says_what_the_records_say",
    ),
    "D15 a stale story": Bug(
        "kfm.app.serving.story_status:_became",
        "    if now == version:\n",
        "    if now:\n",
        "tests/app/derived_jobs/test_story_status.py::test_a_story_goes_stale_when_its_version_is_rolled_back",
    ),
}
