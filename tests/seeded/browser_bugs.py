"""Bugs in what people sign in a browser: the bytes, the key, what is shown, and what a server accepts of it."""

from __future__ import annotations

from tests.seeded.planting import Bug

WEB = "kfm/api/console/web"
KEY, LIFE = "tests/browser/test_browser_key.py", "tests/browser/test_life_by_browser.py"
CHANGED = f"{LIFE}::test_a_sign_in_alone_a_replay_and_a_changed_request_are_refused_and_in_the_ledger"

SIGNED_IN_BROWSER: dict[str, Bug] = {
    "a browser signs what the server names and not what it shows": Bug(
        f"{WEB}/request_parts.js",
        "if (digest !== told) {",
        "if (false) {",
        f"{LIFE}::test_a_browser_signs_nothing_but_what_it_shows",
    ),
    "characters that cannot be seen are in what people sign": Bug(
        f"{WEB}/request_parts.js",
        "yield [name, visible(String(value))]",
        "yield [name, String(value)]",
        f"{LIFE}::test_a_browser_signs_nothing_but_what_it_shows",
    ),
    "a page can read the private half of a key": Bug(
        f"{WEB}/browser_key.js",
        "false, [",
        "true, [",
        f"{KEY}::test_nothing_reads_the_private_half_and_a_second_key_does_not_replace_the_first",
    ),
    "a browser signs a request for every kind of act": Bug(
        f"{WEB}/signature.js",
        "const said = { kind,",
        "const said = {",
        f"{KEY}::test_python_accepts_what_a_browser_signed_and_nothing_that_was_changed_afterwards",
    ),
    "any listed key signs a request that was changed on the way": Bug(
        "kfm.crypto.approvals:_good_key",
        "return key if is_signed(bytes.fromhex(key.public), raw, _message(act)) else None",
        "return key",
        CHANGED,
    ),
    "another person's signature counts for who is signed in": Bug(
        "kfm.app.runs.requested_operations:_check_signer", "if key.person != person:", "if False:", CHANGED
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
