"""Bugs in what people sign in a browser: the bytes, the key, what is shown, and what a server accepts of it."""

from __future__ import annotations

from tests.seeded.planting import Bug

WEB = "kfm/api/console/web"
KEY, LIFE = "tests/browser/test_browser_key.py", "tests/browser/test_life_by_browser.py"
CHANGED = f"{LIFE}::test_one_person_signs_another_approves_and_only_then_exactly_that_is_published"

SIGNED_IN_BROWSER: dict[str, Bug] = {
    "a browser signs what the server names and not what it shows": Bug(
        f"{WEB}/request_parts.js",
        "if (digest !== told) {",
        "if (false) {",
        f"{KEY}::test_what_is_shown_is_what_is_signed_and_nothing_hides_in_it",
    ),
    "characters that cannot be seen are in what people sign": Bug(
        f"{WEB}/request_parts.js",
        "yield [name, visible(String(value))]",
        "yield [name, String(value)]",
        f"{KEY}::test_what_is_shown_is_what_is_signed_and_nothing_hides_in_it",
    ),
    "a page can read the private half of a key": Bug(
        f"{WEB}/browser_key.js",
        "false, [",
        "true, [",
        f"{KEY}::test_python_accepts_what_a_browser_signed_and_nothing_that_was_changed_afterwards",
    ),
    "a browser signs a request for every kind of act": Bug(
        f"{WEB}/signature.js",
        "const said = { kind,",
        "const said = {",
        f"{KEY}::test_python_accepts_what_a_browser_signed_and_nothing_that_was_changed_afterwards",
    ),
    "another person's signature counts for who is signed in": Bug(
        "kfm.app.runs.requested_operations:_check_signer",
        "if key.person != person:",
        "if False:",
        "tests/api/test_acting.py",
    ),
    "a button that is pressed twice asks twice": Bug(
        f"{WEB}/page_parts.js", 'if (made.ariaDisabled === "true") return;', "", CHANGED
    ),
    "a sign-in alone is enough": Bug(
        "kfm.app.runs.requested_operations:accepted_operation",
        "if found.needs_signature:",
        "if False:",
        "tests/api/test_acting.py::test_a_login_alone_is_refused_and_ledgered",
    ),
}
