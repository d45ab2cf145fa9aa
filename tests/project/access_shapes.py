"""What `--json` writes: the commands about tokens."""

from __future__ import annotations

from tests.project.json_when import Shape

ACCESS: dict[str, Shape] = {
    "kfm token new": Shape(
        {
            "token": "the token itself, which is shown only now; empty if it was not made",
            "id": "its id",
            "person": "whose it is",
            "ends_at": "when it ends",
            "receipt": "the [receipt](../../schemas/receipt.json)",
        }
    ),
    "kfm token revoke": Shape(
        {
            "token": "empty",
            "id": "its id",
            "person": "whose it is",
            "ends_at": "when it would have ended",
            "receipt": "the [receipt](../../schemas/receipt.json)",
        }
    ),
    "kfm token list": Shape(
        {
            "id": "its id",
            "person": "whose it is",
            "note": "what it is for",
            "state": "`valid`, `revoked`, `ended` or `nobody's`: its person has no valid key",
            "made_at": "when it was made",
            "ends_at": "when it ends",
            "revoked_at": "when it was revoked; empty: it was not",
            "signed_by": "who made or revoked it",
        },
        many=True,
    ),
}
