"""What the commands of previews and pull requests write with `--json`: the keys, and whether there are several."""

from __future__ import annotations

_PREVIEW = {
    "preview": "the digest to approve",
    "branch": "the branch",
    "commit": "the previewed commit",
    "datasets": "the version of each, by its name; empty: none was made",
    "removed": "datasets that the branch no longer declares",
}


def promotion(runs: dict[str, str]) -> dict[str, tuple[dict[str, str], bool]]:
    return {
        "kfm preview build": ({**_PREVIEW, "receipts": runs["receipts"], "errors": runs["errors"]}, False),
        "kfm preview list": ({**_PREVIEW, "built_at": "when it was last built"}, True),
        "kfm preview report": (
            {
                "branch": "the branch",
                "commit": "the previewed commit",
                "preview": "the digest to approve",
                "conclusion": "`success`, `failure` or `neutral`",
                "datasets": "for each dataset its changes, checks and evidence; nothing protected",
                "removed": "datasets that the branch no longer declares",
                "exit_code": "the exit code of the command",
                "notes": "sections of kfm.yml that the branch changes too",
                "format": "1",
            },
            False,
        ),
        "kfm preview publish": (
            {
                "preview": "the digest that was to be promoted",
                "refused": "`rule`, `dataset`, `approved`, `found`, `message` of every reason against it; "
                "empty: it was promoted",
                **runs,
            },
            False,
        ),
        "kfm preview sweep": (
            {
                "branch": "the branch",
                "preview": "the digest of the removed preview",
                "why": "it is old, or its branch is gone",
            },
            True,
        ),
    }
