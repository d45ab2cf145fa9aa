"""What the commands of previews and pull requests write with `--json`: the keys, and whether there are several."""

from __future__ import annotations

_PREVIEW = {
    "preview": "the digest to approve",
    "branch": "the branch",
    "commit": "what was previewed of it",
    "datasets": "the version of each, by its name; empty: none was made",
    "removed": "datasets that the branch does not declare any more",
}


def promotion(runs: dict[str, str]) -> dict[str, tuple[dict[str, str], bool]]:
    return {
        "kfm preview build": ({**_PREVIEW, "receipts": runs["receipts"], "errors": runs["errors"]}, False),
        "kfm preview list": ({**_PREVIEW, "built_at": "when it was built last"}, True),
        "kfm preview report": (
            {
                "branch": "the branch",
                "commit": "what was previewed of it",
                "preview": "the digest to approve",
                "conclusion": "`success`, `failure` or `neutral`",
                "datasets": "of each, what would change, its checks and its evidence; nothing that is protected",
                "removed": "datasets that the branch does not declare any more",
                "exit_code": "as the command ends",
                "notes": "sections of kfm.yml that the branch changes too",
                "format": "1",
            },
            False,
        ),
        "kfm preview publish": (
            {
                "preview": "the digest that was to be promoted",
                "refused": "`rule`, `dataset`, `approved`, `found`, `message` of all that stands against it; "
                "empty: it was promoted",
                **runs,
            },
            False,
        ),
        "kfm preview sweep": (
            {"branch": "the branch", "preview": "the digest of what goes", "why": "it is old, or its branch is gone"},
            True,
        ),
    }
