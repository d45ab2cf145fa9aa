"""Bugs of signing in: cookies, forged requests and providers that lie."""

from __future__ import annotations

from tests.seeded.planting import Bug

TOKENS, SIGN_INS = "kfm.crypto.id_tokens", "kfm.app.sign_in.sign_ins"
COOKIES, PROVIDER, REAL = (f"tests/api/test_{name}.py" for name in ("sign_in", "provider", "real_provider"))
LIES = f"{PROVIDER}::test_no_token_that_lies_signs_anybody_in"

SIGN_IN_BUGS: dict[str, Bug] = {
    "a change by cookie needs no token": Bug(
        "kfm.api.csrf:check",
        "if wanted and not hmac.compare_digest(",
        "if False and not hmac.compare_digest(",
        f"{COOKIES}::test_a_change_by_cookie_needs_the_csrf_token_and_this_very_origin",
    ),
    "a change may come from another site": Bug(
        "kfm.api.csrf:check",
        "if not _is_same_origin(",
        "if False and not _is_same_origin(",
        f"{COOKIES}::test_a_stranger_is_signed_in_by_no_other_site",
    ),
    "the last of two cookies counts": Bug(
        "kfm.api.session_cookie:cookie_of",
        'return "\\x00".join(found)',
        'return found[-1] if found else ""',
        f"{COOKIES}::test_two_cookies_of_one_name_sign_nobody_in",
    ),
    "a token for another client counts": Bug(
        f"{TOKENS}:_check", "if wanted.client_id not in audiences:", "if False:", LIES
    ),
    "no signature is checked": Bug(
        f"{TOKENS}:verified_claims", "if not _VERIFIERS[algorithm](", "if False and not _VERIFIERS[algorithm](", LIES
    ),
    "an answer counts as often as it comes": Bug(
        f"{SIGN_INS}:SignIns.finish",
        'self._begun.pop(returned.get("state", ""), None)',
        'self._begun.get(returned.get("state", ""))',
        f"{PROVIDER}::test_an_answer_counts_once_for_the_browser_that_began",
    ),
    "any browser may bring an answer": Bug(
        f"{SIGN_INS}:SignIns.finish",
        "if not cookie or not hmac.compare_digest(_digest(cookie), pending.browser):",
        "if False:",
        f"{PROVIDER}::test_an_answer_counts_once_for_the_browser_that_began",
    ),
    "a session is shown while nobody says that it holds": Bug(
        f"{SIGN_INS}:SignIns.confirm",
        "raise _unsaid() from problem",
        "return",
        f"{PROVIDER}::test_nothing_is_shown_while_the_provider_does_not_say_that_a_session_holds",
    ),
    "a revoked token is not heard of": Bug(
        f"{SIGN_INS}:SignIns.confirm",
        "holds = found.provider.still_grants(found.subject, found.access_token)",
        "holds = True",
        f"{REAL}::test_a_person_signs_in_with_a_real_provider_until_it_revokes_the_token",
    ),
}
