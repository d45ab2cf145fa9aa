"""Every command by group, with one line of help; other names for commands, and what unknown words mean.

`kfm --help` reads this table alone; the module of a command is loaded when the command is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kfm.cli import load_msgspec

if TYPE_CHECKING:
    from types import ModuleType


class Command(NamedTuple):
    name: str
    summary: str


class Group(NamedTuple):
    title: str
    package: str
    commands: tuple[Command, ...]


GROUPS = (
    Group(
        "start",
        "start",
        (
            Command("init", "Write a kfm.yml, an example updater and a little data"),
            Command("add", "Add a file, an address or a folder to kfm.yml as a dataset"),
            Command("remove", "Take a dataset out of kfm.yml; its history stays"),
            Command("new", "Write a module for an updater, a job or a connector, and its tests"),
            Command("config", "Check and show settings; schemas, shell completion"),
            Command("upgrade", "Back up, then bring the state to the format of this version"),
        ),
    ),
    Group(
        "work",
        "work",
        (
            Command("run", "Update datasets: fetch, check, plan, execute, commit"),
            Command("plan", "Show what a run would do, and how it differs from the locked plan"),
            Command("resume", "Finish runs that were interrupted"),
            Command("backfill", "Build missing or outdated partitions: plan, start, pause, resume"),
            Command("preview", "Build, review and publish what a branch would change"),
        ),
    ),
    Group(
        "look",
        "look",
        (
            Command("status", "Show the state of every dataset, and what to do next"),
            Command("runs", "List, show and cancel runs; their receipts, logs and signals"),
            Command("refs", "Show which version each ref points to, and its history"),
            Command("cat", "Write data to stdout"),
            Command("search", "Find published text by its words and its meaning"),
            Command("diff", "Show which keys and rows a version added, changed and removed"),
            Command("quarantine", "Show which rows or sources are quarantined, and why"),
            Command("catalog", "Build and check STAC, DCAT and lineage; discover datasets"),
            Command("energy", "Show what runs used: joules and grams of CO2e, by method"),
            Command("slo", "Show objectives, error budgets and what they close; override one"),
        ),
    ),
    Group(
        "publish and take back",
        "release",
        (
            Command("publish", "Publish the processed version of a dataset, if every gate allows"),
            Command("rollback", "Move a ref back to an earlier version, or withdraw it"),
            Command("hotfix", "Correct what the public metadata of a dataset say, and back"),
            Command("freeze", "Stop everything, or one dataset, before its next effect"),
            Command("thaw", "Allow work again that was frozen"),
            Command("review", "List, approve and reject work that is pending review"),
        ),
    ),
    Group(
        "schedule",
        "schedule",
        (
            Command("up", "Run the installation: schedules, polling, webhooks, triggers"),
            Command("serve", "Serve the API, a STAC API and the console over HTTP"),
            Command("schedule", "Show, check and pause schedules; freshness and pools"),
            Command("jobs", "List, request, retry and cancel the jobs of workers; dead letters"),
            Command("triggers", "List, retry and watch for requests to run"),
            Command("webhooks", "Receive, check, sign and replay webhook requests"),
            Command("runners", "Write files with which other runners start this installation"),
        ),
    ),
    Group(
        "protect",
        "protect",
        (
            Command("protect", "Turn a table with places into a masked dataset, step by step"),
            Command("labels", "Show and change what may be shown of each source"),
            Command("mask", "Preview and sign masking; scan files for protected data"),
            Command("policy", "Show what policies and gates decide, and why"),
            Command("keys", "List, make and revoke the keys that people sign with"),
            Command("token", "List, make and revoke the tokens that people read with over HTTP"),
        ),
    ),
    Group(
        "prove",
        "prove",
        (
            Command("explain", "Explain how something was produced; every sentence cites a digest"),
            Command("why-not", "Explain why something was not run or published, and what to do"),
            Command("lineage", "Show which data was built from which, and export it"),
            Command("verify", "Verify a version, or a file of attestations, without a network"),
            Command("attest", "Sign in-toto statements about a version, kept in the state"),
            Command("audit", "Verify and export the ledger; prove single entries"),
            Command("report", "Report on a quarter: what was published, denied and overridden"),
            Command("reproduce", "Repeat a run from its records, and compare the bytes"),
        ),
    ),
    Group(
        "maintain",
        "maintain",
        (
            Command("doctor", "Check the configuration, the store and the disk"),
            Command("reconcile", "Compare storage, refs, public files and catalogs; repair them"),
            Command("alerts", "Write rules for Prometheus, made of the objectives"),
            Command("sinks", "Show how far each sink was notified, and what it refused"),
            Command("breakers", "Show which operations are refused because they kept failing"),
            Command("budgets", "Show how many retries each operation has left"),
            Command("backup", "Copy state and objects elsewhere, while others work"),
            Command("restore", "Make an installation out of a backup"),
            Command("gc", "Remove what nothing names any more, and what is past its retention"),
            Command("move", "Carry the state or the objects to another place, and back"),
        ),
    ),
)
KNOWN = {command.name: command for group in GROUPS for command in group.commands}
# The commands of `python -m updater` and `node updater.mjs`, each with the command of kfm whose arguments it takes.
RUNNER = {"run": KNOWN["run"], "webhook": Command("webhooks", "Check a request that a webhook sent")}
ALIASES = {"promote": "publish", "kill-switch": "freeze", "held": "quarantine", "webhook": "webhooks"}
# Older spellings and the words of other tools, each with the command that does it.
MEANT = {
    "receipts show": "runs receipt RUN",
    "receipts": "runs receipts",
    "wal": "runs wal RUN",
    "telemetry": "runs telemetry",
    "signals": "runs signals",
    "compact": "runs compact",
    "pr promote": "preview publish BRANCH",
    "pr report": "preview report BRANCH",
    "pr sweep": "preview sweep",
    "pr": "preview list",
    "discover": "catalog discover SOURCE",
    "watch": "up, or kfm triggers watch",
    "freshness": "schedule freshness",
    "pools": "schedule pools",
    "workflow": "runners workflow",
    "gates": "policy gates DATASET",
    "leaks": "mask scan PATH",
    "graph": "lineage graph",
    "schema": "config schema",
    "completion": "config completion bash",
    "approve": "review approve ID",
    "build": "run",
    "cancel": "runs cancel RUN",
    "check": "config check, or kfm doctor",
    "clean": "gc",
    "compare": "diff",
    "dag": "lineage graph",
    "daemon": "up",
    "datasets": "status",
    "create": "add FILE",
    "delete": "remove DATASET, or kfm rollback DATASET --to nothing",
    "deploy": "publish DATASET",
    "errors": "quarantine DATASET",
    "export": "lineage export, or kfm audit export",
    "fetch": "run",
    "fsck": "doctor --deep",
    "get": "cat REF",
    "head": "cat REF",
    "history": "refs history REF",
    "info": "status",
    "import": "add FILE",
    "ingest": "run",
    "ledger": "audit verify",
    "lint": "config check",
    "list": "status, or kfm runs list",
    "log": "runs list",
    "logs": "runs list, or any command with --verbose",
    "ls": "status, or kfm refs list",
    "metrics": "runs signals --metrics",
    "migrate": "move --to URL",
    "pause": "freeze",
    "policies": "policy check",
    "prune": "runs compact",
    "pull": "run",
    "push": "publish DATASET",
    "queue": "jobs list",
    "refresh": "run",
    "reject": "review reject ID",
    "release": "publish DATASET",
    "repair": "reconcile --repair",
    "retract": "rollback DATASET --to nothing",
    "retry": "resume, or kfm triggers retry TRIGGER",
    "revert": "rollback DATASET",
    "rm": "remove DATASET, or kfm rollback DATASET --to nothing",
    "schedules": "schedule list",
    "settings": "config show",
    "show": "status, or kfm runs show RUN",
    "sign": "attest DATASET",
    "start": "up",
    "stop": "freeze",
    "sync": "run",
    "test": "config check, or kfm policy test",
    "undo": "rollback DATASET",
    "unfreeze": "thaw",
    "unpublish": "rollback DATASET --to nothing",
    "update": "run",
    "users": "keys list",
    "validate": "config check, or kfm catalog validate PATH",
    "version": "--version",
    "versions": "refs history published/DATASET",
    "why": "explain, or kfm why-not",
    "withdraw": "rollback DATASET --to nothing",
}


def load(name: str) -> ModuleType:
    """Return the module of a command."""
    load_msgspec()
    from importlib import import_module

    package = next(group.package for group in GROUPS for command in group.commands if command.name == name)
    return import_module(f"kfm.cli.{package}.{name.replace('-', '_')}")


def meant(words: list[str]) -> str:
    """Return the command, to be typed after `kfm`, that an unknown word and its successor mean; "" if none is known."""
    return MEANT.get(" ".join(words[:2])) or MEANT.get(words[0], "")
