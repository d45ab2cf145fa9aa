"""The reference pages, made from the code itself: commands, configuration, errors."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from typing import Any

from kfm import config, errors
from kfm.cli.parser import EXIT_TEXT, build
from kfm.model.records import NONDET
from kfm.store.state_tables import CATALOGUE, WHOLE, StateTable
from tests.project import api_pages, job_catalog, mutations
from tests.project.json_shapes import ERROR, NOT_JSON, SHAPES, Shape

NOTICE = "<!-- Made by `make schemas` from the code; change the code, not this page. -->\n"


def pages() -> dict[str, str]:
    return {
        **api_pages.pages(NOTICE),
        "docs/reference/cli.md": _at_width("100", _commands),
        "docs/reference/config.md": _configuration(),
        "docs/reference/errors.md": _errors(),
        "docs/reference/jobs.md": job_catalog.page(NOTICE),
        "docs/reference/json.md": _json(),
        "docs/reference/records.md": f"{NOTICE}\n{mutations.page()}",
        "docs/reference/state.md": _state(),
    }


def _at_width(columns: str, made: Callable[[], str]) -> str:
    """The width of a help text must not depend on the terminal, nor anything else on this."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = columns
    try:
        return made()
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


def _commands() -> str:
    parts = [NOTICE, "# Commands\n"]
    parts.append(
        "Data goes to stdout, everything for people to stderr; `--json` makes the data JSON ([its shape](json.md)). "
        "Exit codes are on [their own page](errors.md#exit-codes).\n"
    )
    for name, parser in commands():
        parts.append(f"## {name}\n\n{_cell(parser.description or '')}\n")
        rows = [_argument(action) for action in parser._actions if action.help not in (None, argparse.SUPPRESS)]
        children = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        rows += [(f"`{c.dest}`", c.help or "") for action in children for c in action._choices_actions]
        if rows:
            parts.append("| argument | what |\n|---|---|")
            parts += [f"| {left} | {_cell(right)} |" for left, right in rows]
            parts.append("")
    return "\n".join(parts)


def commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command with its parser, groups too."""
    return _parsers(build())


def _argument(action: argparse.Action) -> tuple[str, str]:
    """By hand: how argparse formats its help differs between versions of Python."""
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    takes = "" if action.nargs == 0 else f" {metavar}"
    if action.choices is not None and not isinstance(action, argparse._SubParsersAction):
        takes = " {" + ",".join(str(choice) for choice in action.choices) + "}"
    left = ", ".join(f"`{flag}{takes}`" for flag in action.option_strings) or f"`{metavar}`"
    return left, (action.help or "").replace("%%", "%")


def _parsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield parser.prog, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _parsers(child)


def _configuration() -> str:
    schema = config.json_schema()
    parts = [NOTICE, "# Configuration\n"]
    parts.append(
        "One YAML or JSON file, `kfm.yml`, found upward from where you are or named by `--config`. Unknown keys "
        "are refused. `KFM_SECTION__KEY` in the environment overrides a key, e.g. `KFM_EXECUTE__THREADS=8`; "
        "`kfm config show --resolved` shows each value and where it came from. The JSON Schema is "
        "[`schemas/config.json`](../../schemas/config.json).\n"
    )
    definitions = schema["$defs"]
    top = definitions.get("Config", schema)
    for title, part in [("The file", top), *((name, d) for name, d in definitions.items() if name != "Config")]:
        if "properties" not in part:
            continue
        parts.append(f"## {title}\n")
        if part.get("description"):
            parts.append(part["description"] + "\n")
        parts.append("| key | type | default | what |\n|---|---|---|---|")
        for key, value in part["properties"].items():
            default = "required" if key in part.get("required", ()) else _default(value)
            parts.append(f"| `{key}` | {_kind(value)} | {default} | {_cell(value.get('description', ''))} |")
        parts.append("")
    parts.append("## Environment\n\n| name | what |\n|---|---|")
    parts += [f"| `{name}` | {_cell(what)} |" for name, what in ENVIRONMENT.items()]
    parts.append("")
    return "\n".join(parts)


ENVIRONMENT = {
    "KFM_SECTION__KEY": "a setting, e.g. `KFM_NETWORK__TIMEOUT_S=5` or `KFM_PUBLISH=noop`; lists and mappings as YAML",
    "KFM_CONFIG": "the file, where `--config` is not given",
    "KFM_ACTOR": "who goes into the ledger, where `--actor` is not given; else the user's name",
    "KFM_REASON": "why, for every command that wants a reason, where `--reason` is not given; for scripts",
    "KFM_LOG": "`jsonl`: with `--verbose` the events are JSON lines and nothing else is said on stderr but errors; "
    "`debug`: tracebacks of what an updater raised, values and all",
    "KFM_COLOR": "`always` or `never`, whatever stdout is",
    "KFM_WORKER_IMAGE": "the image of the container that runs KFM, for worker receipts; `kfm runners write` sets it",
    "KFM_NOW": "an instant (RFC 3339, or seconds since 1970) at which the clock is fixed: the same run gives "
    "the same bytes, timestamps too",
    "SOURCE_DATE_EPOCH": "the same in seconds, where KFM_NOW is not given",
    "NO_COLOR": "not empty: no colours",
}


def _default(value: dict[str, Any]) -> str:
    import json

    if isinstance(value.get("default"), dict) and value["default"]:
        return "its defaults"
    return f"`{json.dumps(value['default'])}`" if "default" in value else ""


def _kind(value: dict[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for choice in ("anyOf", "allOf"):
        if choice in value:
            return " or ".join(_kind(part) for part in value[choice])
    if "enum" in value:
        return " or ".join(f"`{item}`" for item in value["enum"])
    kind = value.get("type", "anything")
    if kind == "array":
        return "list of " + _kind(value.get("items") or {}) if value.get("items") else "list"
    if kind == "object" and isinstance(value.get("additionalProperties"), dict):
        return "mapping of names to " + _kind(value["additionalProperties"])
    return str(kind)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _errors() -> str:
    parts = [NOTICE, "# Errors and exit codes\n", "## Exit codes\n", "| code | name | meaning |\n|---|---|---|"]
    for name, code in sorted(errors.EXIT_CODES.items(), key=lambda item: item[1]):
        parts.append(f"| {code} | {name} | {EXIT_TEXT[name]} |")
    parts.append("\n## Errors\n\nSorted by what the caller does next:\n\n```text")
    doc = errors.__doc__ or ""
    parts.append(doc[doc.index("    KfmError") : doc.index("A message says")].rstrip())
    parts.append("```\n\n| code | exit code | class |\n|---|---|---|")
    for kind in _tree(errors.KfmError):
        parts.append(f"| `{kind.code}` | {kind.exit_code} | `{kind.__name__}` |")
    parts.append("\n## Outcomes of a run\n\n| status | outcome | meaning |\n|---|---|---|")
    for status, outcome, meaning in OUTCOMES:
        parts.append(f"| {status} | {outcome} | {meaning} |")
    parts.append(
        "\n## Fields that two runs of the same work may differ in\n\n"
        + ", ".join(f"`{name}`" for name in sorted(NONDET))
        + ". Everything else is the same, byte for byte.\n"
    )
    return "\n".join(parts)


def _json() -> str:
    parts = [NOTICE, "# JSON\n"]
    parts.append(
        "With `--json` a command writes one JSON document to stdout, and nothing else. The records in it have "
        "schemas in [`schemas/`](../../schemas/) (`kfm config schema NAME`). Later versions may add keys; no key below "
        "changes its meaning.\n"
    )
    parts.append(
        '## An error\n\n`{"error": {…}}`, and the exit code shows the kind of error:\n\n| key | what |\n|---|---|'
    )
    parts += [f"| `{key}` | {what} |" for key, what in ERROR.items()]
    parts.append("\nSome errors have more keys.\n")
    for name, shape in SHAPES.items():
        parts.append(_shape(name, shape))
    parts.append("## What is no such document\n\n| command | what it writes |\n|---|---|")
    parts += [f"| `{name}` | {_cell(what)} |" for name, what in NOT_JSON.items()]
    parts.append("")
    return "\n".join(parts)


def _shape(name: str, shape: Shape) -> str:
    what = "A list of objects." if shape.many else "An object."
    lines = [f"## {name}\n", f"{what} {shape.about}".strip() + "\n", "| key | what |\n|---|---|"]
    return "\n".join(lines + [f"| `{key}` | {_cell(text)} |" for key, text in shape.keys.items()] + [""])


def _state() -> str:
    parts = [NOTICE, "# State\n"]
    parts.append(
        "The state is a set of sorted maps, the same in SQLite and in a JSONL journal (see "
        "[decision 3](../decisions/0003-state-is-sorted-maps.md)). Every row carries a checksum. Commands show all of "
        "it. No user needs to read the tables, and only KFM may write them.\n"
    )
    parts.append("## Refs\n\nNames that point to a version or hold a freeze flag.\n\n| ref | what |\n|---|---|")
    parts += [f"| `{name}` | {what} |" for name, what in REFS.items()]
    parts.append(
        "\n## Tables\n\nNode writes all of them but "
        + " and ".join(f"`{table.name}`" for table in CATALOGUE if not table.node)
        + ".\n\n| table | what is in it | key | row |\n|---|---|---|---|"
    )
    parts += [f"| `{table.name}` | {table.about} | {table.key} | {_row_of(table)} |" for table in CATALOGUE]
    parts.append(
        "\nA run that was killed and resumed leaves the same rows as one that was not, except for these:\n\n"
        "| table | field | why |\n|---|---|---|"
    )
    parts += [
        f"| `{table.name}` | {'all' if field == WHOLE else f'`{field}`'} | {why} |"
        for table in CATALOGUE
        for field, why in table.differs.items()
    ]
    parts.append("\n## Files\n\n| place | what |\n|---|---|")
    parts += [f"| `{name}` | {what} |" for name, what in FILES.items()]
    parts.append("")
    return "\n".join(parts)


def _row_of(table: StateTable) -> str:
    return table.row if isinstance(table.row, str) else table.row.__name__


REFS = {
    "raw/<dataset>/<n>": "the bytes of its n-th source, as last fetched",
    "raw/<dataset>/<partition>/<n>": "the same for a run of a partition",
    "quarantine/<dataset>": "the report on what is quarantined now; absent if nothing is: `kfm quarantine`",
    "quarantine/<dataset>/<partition>": "the same for a partition; its next run, or one of the dataset, removes it",
    "processed/<dataset>": "the version that the last run made; `kfm publish` publishes it",
    "published/<dataset>": "the version that is public",
    "search/<alias>": "the published version of an index, which `kfm search` reads; it moves with the published ref",
    "cache/<dataset>": "a count: one more whenever what is public of an index or of tiles changes, or of their sources",
    "switch/global": "`frozen` or `open`, for everything",
    "switch/dataset/<dataset>": "`frozen` or `open`, for one dataset",
    "maintenance/<operation>": "the last report of such an operation: see [records](records.md)",
}
FILES = {
    ".kfm/state.db": "the state, with `state.db-wal` and `state.db-shm` while a command runs",
    ".kfm/state.db.ack": "how many commits were acknowledged: a state that has fewer is refused",
    ".kfm/state.jsonl": "the state if `state:` says jsonl, with `.ack` next to it (a `!` behind its number: a torn end "
    "is being cut off), and `.lock`, taken by the command that writes",
    ".kfm/objects": "objects larger than 64 KiB, by digest",
    ".kfm/receipts": "receipts as files: exports, made again from the state",
    ".kfm/events": "one file for every publication, for programs that wait for one",
    ".kfm/artifacts": "`run.jsonl`, `event_log.jsonl`, `idempotency.json`, `publisher_trace.jsonl` of the last run",
    ".kfm/checked": "the digest of the schedules and backfills that `kfm run` checked last; without it the "
    "next run checks them again",
    ".kfm/publish.lock": "taken by the command that publishes",
    "public/datasets/<dataset>/current.json": "which version is public",
    "public/datasets/<dataset>/versions/<v>": "the files of a version of up to 128 files and 64 MiB; `<v>` is the "
    "start of its digest",
    "public/datasets/<dataset>/versions/<v>.ndjson": "its listing: one line for each file, with key, digest, size "
    "and type; its SHA-256 is the version. That of a larger version names parts",
    "public/datasets/<dataset>/files": "the files of larger versions, which share them; the start of a file's digest "
    "is in its name",
    "public/datasets/<dataset>/parts": "the parts of the listings of larger versions, by the start of their digests; "
    "`tools/version_of.py` follows them",
}

OUTCOMES = (
    ("SUCCESS", "done", "committed; a ref moved"),
    ("SUCCESS", "unchanged", "committed; the content is the same as before, so no ref moved"),
    ("SKIPPED", "noop", "the same work is committed and its result is still live"),
    ("SKIPPED", "frozen", "a freeze flag is set; the trigger is kept"),
    ("FAILED", "held", "a source is in quarantine; nothing was published"),
    ("FAILED", "denied", "a gate or the deletion budget refused it"),
    ("FAILED", "failed", "a step, a plan or a source failed; the receipt says which"),
    ("FAILED", "superseded", "a later run over other inputs replaced it before it finished"),
)


def _tree(kind: type[errors.KfmError]) -> Iterator[type[errors.KfmError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == "kfm.errors":
            yield from _tree(child)
