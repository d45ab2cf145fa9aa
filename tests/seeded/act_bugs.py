"""What people who act over HTTP are promised, each broken once."""

from __future__ import annotations

from tests.seeded.planting import Bug

ACTING = "tests/api/test_acting.py"
REQUESTS = "kfm.app.runs.requested_operations"

ACT_BUGS: dict[str, Bug] = {
    "a signature counts for whoever is signed in": Bug(
        f"{REQUESTS}:_check_signer",
        "if key.person != person:",
        "if False:",
        f"{ACTING}::test_the_key_of_another_person_than_who_signed_in_signs_nothing",
    ),
    "a signed request counts twice": Bug(
        f"{REQUESTS}:_accepted_order",
        "    _check_unused(session, request)\n",
        "",
        f"{ACTING}::test_a_signature_counts_once",
    ),
    "a signature that a kill left waiting never ends": Bug(
        "kfm.app.runs.requested_work:_end",
        "        tx.inbox.finish(trigger, run_id)\n",
        "        tx.inbox.kept(trigger)\n",
        "tests/api/test_acting_kills.py",
    ),
}
