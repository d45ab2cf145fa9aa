"""What `--json` writes: the commands about keys and tokens."""

from __future__ import annotations

from tests.project.json_when import Shape

ACCESS: dict[str, Shape] = {
    "kfm keys new": Shape(
        {
            "key": "its id",
            "file": "the file of its private half; empty if it was made elsewhere, or not listed",
            "receipt": "the [receipt](../../schemas/receipt.json) of the new list",
        }
    ),
    "kfm keys revoke": Shape(
        {
            "key": "its id",
            "file": "empty",
            "receipt": "the [receipt](../../schemas/receipt.json) of the new list",
        }
    ),
    "kfm keys list": Shape(
        {
            "key": "its id",
            "person": "its owner; empty: the installation",
            "roles": "what that person may do",
            "custodians": "the custodians whose steward that person is",
            "purpose": "`act`, `community`, `checkpoint` or `attest`",
            "state": "`valid`, `revoked` or `not valid now`",
            "valid_until": "when it ends",
            "public": "its public half, in hex",
        },
        many=True,
    ),
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
