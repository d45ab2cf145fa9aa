"""What each command that changes something leaves in the ledger: the table of docs/reference/records.md.

A test compares the table with the commands, runs each of these commands once, and looks for the entry.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from kfm.cli.parser import build

Command = tuple[str, ...]


class Left(NamedTuple):
    """The operation of the ledger entries that a command leaves, and when it leaves them."""

    op: str
    when: str = ""


_SIGNED = "with a key list; `request` if others must sign, too"
LEAVES: dict[Command, Left] = {
    ("run",): Left("ingest", "one for each dataset, whatever its outcome; `promote` follows with `promote: auto`"),
    ("resume",): Left("ingest", "one for each run or operation that ends"),
    ("up",): Left("ingest", "one for each run; operations and signatures that a server accepted leave their own"),
    ("triggers", "retry"): Left("ingest", "the run that answers the trigger"),
    ("triggers", "drop"): Left("triggers"),
    ("triggers", "watch"): Left("ingest", "one for each run"),
    ("schedule", "trigger"): Left("ingest", "the run that answers the trigger, by `kfm up` or `kfm resume`"),
    ("jobs", "enqueue"): Left("ingest", "the run that does the job, by a worker, `kfm up` or `kfm resume`"),
    ("jobs", "retry"): Left("jobs", "one for each job that is put back, and then the run that does it"),
    ("jobs", "cancel"): Left("jobs"),
    ("serve",): Left(
        "rollback",
        "one for each dataset that was closed since it was published; a request that is refused leaves its own",
    ),
    ("webhooks", "serve"): Left("ingest", "the run that answers a request, by `kfm up` or `kfm resume`"),
    ("webhooks", "replay"): Left("ingest", "the run that answers the request, by `kfm up` or `kfm resume`"),
    ("backfill", "start"): Left("backfill", "and `ingest` for each partition"),
    ("backfill", "resume"): Left("ingest", "one for each partition; `thaw` if it was paused"),
    ("backfill", "pause"): Left("freeze"),
    ("backfill", "cancel"): Left("backfill"),
    ("preview", "build"): Left("preview", "and `ingest` for each dataset"),
    ("preview", "publish"): Left("promote", "`adopt` and `sweep` with it"),
    ("preview", "sweep"): Left("sweep", "one for each preview that is removed"),
    ("runs", "cancel"): Left("freeze", "and the receipt of the run that was cancelled"),
    ("runs", "compact"): Left("compact", "if there was a journal to archive"),
    ("catalog", "build"): Left(
        "catalog", "if a file changed; none with `--out`, which is an export; no sink follows it"
    ),
    ("publish",): Left("promote", "also if a gate denies it"),
    ("rollback",): Left("rollback"),
    ("hotfix", "apply"): Left("hotfix", "also if a gate denies it"),
    ("hotfix", "revert"): Left("hotfix"),
    ("freeze",): Left("freeze"),
    ("thaw",): Left("thaw", "and `triggers` if `--catch-up` drops requests"),
    ("review", "approve"): Left("approve", "and the operation that was requested, after the last signature"),
    ("review", "reject"): Left("reject"),
    ("review", "deploy"): Left("review", _SIGNED),
    ("schedule", "pause"): Left("freeze"),
    ("schedule", "resume"): Left("thaw"),
    ("labels", "set"): Left(
        "labels", f"{_SIGNED}. Without one it edits the label file; a withdrawal leaves `rollback`"
    ),
    ("mask", "deploy"): Left("mask", _SIGNED),
    ("policy", "deploy"): Left("policy", _SIGNED),
    ("keys", "new"): Left("keys"),
    ("keys", "revoke"): Left("keys"),
    ("token", "new"): Left("token"),
    ("token", "revoke"): Left("token"),
    ("attest",): Left("attest"),
    ("reconcile", "--repair"): Left("repair", "if something differed that can be repaired; before the first change"),
    ("sinks", "retry"): Left("sinks", "if the sink took something that it did not have; no sink follows it"),
    ("sinks", "test"): Left("sinks", "one for each receiver, before the test event is sent; no sink follows it"),
    ("breakers", "open"): Left("breakers", "before the change"),
    ("breakers", "close"): Left("breakers", "before the change"),
    ("budgets", "close"): Left("budgets", "before the change"),
    ("budgets", "reset"): Left("budgets", "before the change"),
    ("move",): Left("move", "one for each attempt, before the first change; it moves with the rest"),
    ("slo", "override"): Left("override", "with a key list, signed by a steward"),
    ("backup",): Left("backup", "before the state is read"),
    ("upgrade",): Left("upgrade", "if the state had an older format; after the backup and the upgrade"),
    ("gc",): Left("gc", "if there was anything to remove; before the first change"),
    ("restore",): Left("restore", "in the restored state, which it freezes; `--verify` writes nothing"),
}
# These write files, and leave the state as it is.
FILES: dict[Command, str] = {
    ("init",): "the files of a new installation",
    ("new",): "a module for an author",
    ("add",): "kfm.yml, and in a new installation the files next to it",
    ("remove",): "kfm.yml, and a masking policy that nothing was made with",
    ("protect",): "kfm.yml, labels and a masking policy, which the owner reads before they take effect",
    ("hotfix", "new"): "a file that people review before it is applied",
    ("runners", "write"): "files of other runners",
    ("policy", "bundle"): "policies for an OPA server",
    ("audit", "export"): "the ledger, after its head was signed: that checkpoint is the record",
    ("catalog", "discover"): "with `--draft-pr` a branch of the repository",
    ("runs", "telemetry"): "an export",
    ("alerts", "write"): "an export, with `--to`",
    ("report", "quarter"): "an export, with `--to`",
    ("runs", "signals"): "an export, with `--to` or `--otlp`",
    ("lineage", "graph"): "an export, with `--out`",
    ("lineage", "export"): "an export",
    ("explain",): "an export, with `--out`",
    ("mask", "preview"): "an export, with `--out`",
    ("preview", "report"): "an export, with `--out`",
    ("doctor",): "a file that tries the disk, and is removed again",
}
READS = frozenset(
    {
        *(("config", name) for name in ("show", "check", "schema", "completion")),
        *(("plan",), ("status",), ("cat",), ("diff",), ("quarantine",), ("why-not",), ("verify",), ("reproduce",)),
        *(("backfill", name) for name in ("plan", "status")),
        ("preview", "list"),
        ("hotfix", "diff"),
        ("hotfix", "list"),
        *(("runs", name) for name in ("list", "show", "steps", "receipts", "receipt", "wal")),
        *(("slo", name) for name in ("list", "show")),
        *(("refs", name) for name in ("list", "history")),
        *(("catalog", name) for name in ("show", "validate")),
        *(("review", name) for name in ("list", "show")),
        *(("schedule", name) for name in ("list", "show", "next", "check", "freshness", "pools")),
        *(("triggers", name) for name in ("list", "show")),
        *(("jobs", name) for name in ("list", "show", "dead", "types")),
        *(("webhooks", name) for name in ("verify", "sign")),
        *(("runners", name) for name in ("check", "workflow")),
        ("labels", "show"),
        ("mask", "scan"),
        *(("policy", name) for name in ("check", "explain", "gates", "test")),
        ("keys", "list"),
        ("token", "list"),
        *(("lineage", name) for name in ("upstream", "downstream")),
        *(("audit", name) for name in ("verify", "prove", "consistency")),
        ("reconcile",),
        ("sinks",),
        ("breakers",),
        ("budgets",),
        ("search",),
        ("energy",),
    }
)


def commands(
    parser: argparse.ArgumentParser | None = None, above: Command = ()
) -> Iterator[tuple[Command, str | None]]:
    """Every command of the parser, with its default reason: None if it takes none, empty if it wants one. `retry`,
    `test`, `--repair`, `open`, `close` and `reset` change what the same command without them only shows."""
    parser = parser or build()
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in below:
        for name, child in action.choices.items():
            yield from commands(child, (*above, name))
    if below:
        return
    yield above, parser.get_default("default_reason")
    for action in parser._actions:
        changes = [*(action.choices or ()), *action.option_strings]
        if above in (("sinks",), ("reconcile",), ("breakers",), ("budgets",)):
            for word in changes:
                if word in ("retry", "test", "--repair", "open", "close", "reset"):
                    yield (*above, word), parser.get_default("default_reason")


def page() -> str:
    """The reference of records."""
    reasons = dict(commands())
    rows = [
        f"| `kfm {' '.join(words)}` | `{left.op}` | {left.when} | {_reason(reasons.get(words))} |"
        for words, left in sorted(LEAVES.items())
    ]
    files = [f"| `kfm {' '.join(words)}` | {what} |" for words, what in sorted(FILES.items())]
    return "\n".join(
        [
            "# Records",
            "",
            "Every command that changes the state, the public files, the catalog or a sink leaves a ledger entry",
            "with its receipt: who, when, why, and which refs moved. The entry names its operation.",
            "",
            "| command | operation | when | reason |",
            "|---|---|---|---|",
            *rows,
            "",
            "*Wanted*: the command is refused without `--reason`, unless `KFM_REASON` is set. A dry run needs none.",
            "",
            "These commands write files and leave the state as it is:",
            "",
            "| command | what it writes |",
            "|---|---|",
            *files,
            "",
            "All other commands only read.",
            "",
        ]
    )


def _reason(default: str | None) -> str:
    return "" if default is None else f"`{default}`" if default else "*wanted*"
