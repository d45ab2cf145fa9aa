"""The reference pages, made from the code itself: commands, configuration, errors."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

from kfm import config, errors
from kfm.cli.parser import EXIT_TEXT, build
from kfm.contract.records import NONDET

NOTICE = "<!-- Made by `make schemas` from the code; change the code, not this page. -->\n"


def pages() -> dict[str, str]:
    os.environ["COLUMNS"] = "100"  # the width of a help text must not depend on the terminal
    return {
        "docs/reference/cli.md": _commands(),
        "docs/reference/config.md": _configuration(),
        "docs/reference/errors.md": _errors(),
    }


def _commands() -> str:
    parts = [NOTICE, "# Commands\n"]
    parts.append(
        "Data goes to stdout, everything for people to stderr; `--json` makes the data JSON. "
        "Exit codes are on [their own page](errors.md#exit-codes).\n"
    )
    for name, parser in _parsers(build()):
        parts.append(f"## {name}\n\n{_cell(parser.description or '')}\n")
        rows = [_argument(action) for action in parser._actions if action.help not in (None, argparse.SUPPRESS)]
        children = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        rows += [(f"`{c.dest}`", c.help or "") for action in children for c in action._choices_actions]
        if rows:
            parts.append("| argument | what |\n|---|---|")
            parts += [f"| {left} | {_cell(right)} |" for left, right in rows]
            parts.append("")
    return "\n".join(parts)


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
        "`kfm config show --resolved` tells each value and where it came from. The JSON Schema is "
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
    return "\n".join(parts)


def _default(value: dict[str, Any]) -> str:
    import json

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
    parts.append("\n`130` and `143`: interrupted by SIGINT or SIGTERM; a run under way is left resumable.\n")
    parts.append("## Errors\n\nSorted by what the caller does next:\n\n```text")
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


OUTCOMES = (
    ("SUCCESS", "done", "committed; a ref moved"),
    ("SUCCESS", "unchanged", "committed; the content is what was there before, so no ref moved"),
    ("SKIPPED", "noop", "the same work is committed and what it made is still live"),
    ("SKIPPED", "frozen", "a switch is set; the trigger is kept"),
    ("FAILED", "held", "a source is in quarantine; nothing was published"),
    ("FAILED", "denied", "a gate or the deletion budget said no"),
    ("FAILED", "failed", "a step, a plan or a source failed; the receipt says which"),
    ("FAILED", "superseded", "unfinished when a later run over other inputs took its place"),
)


def _tree(kind: type[errors.KfmError]) -> Iterator[type[errors.KfmError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == "kfm.errors":
            yield from _tree(child)
