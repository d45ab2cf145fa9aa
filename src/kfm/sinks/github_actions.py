"""Write the job summary and the step outputs inside GitHub Actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kfm.errors import StorageFailed
from kfm.model.records import Receipt

CHANGES = ("added", "changed", "removed", "keys")


def report(env: Mapping[str, str], receipts: Sequence[Receipt]) -> None:
    """Append the results of runs to the files that GitHub names: only names, digests and counts, never data."""
    if env.get("GITHUB_ACTIONS") != "true" or not receipts:
        return
    _append(env.get("GITHUB_STEP_SUMMARY", ""), summary(receipts))
    _append(env.get("GITHUB_OUTPUT", ""), outputs(receipts))


def summary(receipts: Sequence[Receipt]) -> str:
    heads = ("dataset", "status", "outcome", *CHANGES, "held", "rows", "run")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for receipt in receipts:
        counts = " | ".join([*(str(receipt.changes.get(name, "-")) for name in CHANGES), str(receipt.held_rows)])
        counts += f" | {receipt.rows or '-'}"
        lines.append(f"| `{receipt.dataset}` | {receipt.status} | {receipt.outcome} | {counts} | `{receipt.run_id}` |")
    return "\n".join(lines) + "\n"


def outputs(receipts: Sequence[Receipt]) -> str:
    """Return `changed`, `datasets` and `run_ids` as comma-separated words."""
    changed = [receipt.dataset for receipt in receipts if receipt.outcome == "done"]
    said = {
        "changed": "true" if changed else "false",
        "datasets": ",".join(changed),
        "run_ids": ",".join(receipt.run_id for receipt in receipts),
    }
    return "".join(f"{name}={value}\n" for name, value in said.items())


def _append(path: str, text: str) -> None:
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        raise StorageFailed(
            f"the summary of the job cannot be written: {problem.strerror}", hint="the run itself is done"
        ) from problem
