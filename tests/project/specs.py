"""The tables in pages that are written by hand but for them: made of the records and classes they speak of.

    <!-- made of: WalRecord -->
    …
    <!-- end -->

`make schemas` writes what is between the two lines. What the table says of a field is the comment next to it in the
code, so a page cannot say of a record what the record does not.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from kfm.model import records, updater
from kfm.model.public_run import PublicArtifact, PublicInput, PublicLabels, PublicRun
from kfm.model.reports.operation_telemetry import OperationTelemetry
from kfm.projections import cypher
from tests.project.bans import ROOT

_MADE = re.compile(r"(?<=<!-- made of: )([\w. ]+)( -->\n)(.*?)(?=<!-- end -->)", re.S)
_FIELD = re.compile(r"^    (\w+): ([^#=]+?)(?: = ([^#]+?))?(?:  # (.+))?$", re.M)


def pages(root: Path = ROOT) -> dict[str, str]:
    """Every page that has such a table, as the code of today makes it."""
    found = {}
    for page in sorted((root / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if "<!-- made of: " in text:
            found[page.relative_to(root).as_posix()] = filled(text)
    return found


def filled(text: str) -> str:
    return _MADE.sub(lambda made: f"{made[1]}{made[2]}\n{TABLES[made[1]]()}\n", text)


def fields(kind: type[Any]) -> str:
    """A row a field: its name, what it may be, and what the code says of it."""
    shapes = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"]
    rows = ["| field | type | what |\n|---|---|---|"]
    for name, _, default, comment in _FIELD.findall(inspect.getsource(kind)):
        if name in shapes:
            rows.append(f"| `{name}` | {shape(shapes[name])} | {_cell(comment or _otherwise(default))} |")
    missing = set(shapes) - {name for row in rows[1:] for name in re.findall(r"^\| `(\w+)`", row)}
    if missing:
        raise ValueError(f"{kind.__name__}: no row for {sorted(missing)}")
    return "\n".join(rows) + "\n"


def _otherwise(default: str) -> str:
    return f"`{default}` unless given" if default and default not in ('""', "()", "{}", "[]") else ""


def shape(schema: dict[str, Any]) -> str:
    """What a JSON Schema lets a value be, in a word or two."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        return " or ".join(shape(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        inner = schema.get("items")
        return f"list of {shape(inner)}" if isinstance(inner, dict) and inner else "list"
    return kind


def attributes() -> str:
    """What the class of an updater may say of itself."""
    rows = ["| field | type | default | what |\n|---|---|---|---|"]
    for name, kind, default, comment in _FIELD.findall(inspect.getsource(updater.Updater)):
        rows.append(f"| `{name}` | `{_cell(kind)}` | `{_cell(default)}` | {_cell(comment)} |")
    return "\n".join(rows) + "\n"


def methods() -> str:
    """What may be written of it, and what happens where it is not."""
    rows = ["| method | who writes it | what |\n|---|---|---|"]
    for one in _methods(updater.Updater):
        arguments = ", ".join(each.arg for each in [*one.args.args[1:], *one.args.kwonlyargs])
        returns = f" → {ast.unparse(one.returns)}" if one.returns is not None else ""
        who = "the author" if _is_open(one) else "has a default"
        rows.append(f"| `{one.name}({arguments})`{returns} | {who} | {_cell(_first(ast.get_docstring(one)))} |")
    return "\n".join(rows) + "\n"


def _methods(kind: type[Any]) -> Iterator[ast.FunctionDef]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    for one in tree.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
            yield one


def _is_open(one: ast.FunctionDef) -> bool:
    return isinstance(one.body[-1], ast.Raise) and "NotImplementedError" in ast.unparse(one.body[-1])


def _first(text: str | None) -> str:
    """Its first paragraph."""
    return " ".join((text or "").partition("\n\n")[0].split())


def _cell(text: str) -> str:
    return text.strip().replace("|", "\\|").replace("\n", " ")


_LABELS = {"r": "Run", "a": "Asset", "d": "Dataset"}  # of the letters in the statements


def statements() -> str:
    """What is sent to the graph: the constraints once, then each statement with rows as its one parameter."""
    texts = ["\n".join(f"{one};" for one in cypher.CONSTRAINTS), *_statements()]
    return "\n".join(f"```cypher\n{text}\n```\n" for text in texts)


def _statements() -> list[str]:
    found = [value for name, value in vars(cypher).items() if name.isupper() and not name.startswith("_")]
    return [text for text in found if isinstance(text, str) and text.startswith("UNWIND")]


def properties() -> str:
    """Of each label, the names that the statements write or merge by."""
    keys = re.findall(r"\((\w):\w+ {([^}]+)}", "\n".join(_statements()))
    wrote = re.findall(r"\b([rad])\.(\w+) = ", "\n".join(_statements()))
    rows = ["| label | known by | and has |\n|---|---|---|"]
    for letter, label in _LABELS.items():
        by = _unique(name.split(":")[0].strip() for one, text in keys if one == letter for name in text.split(","))
        has = [name for name in _unique(name for one, name in wrote if one == letter) if name not in by]
        rows.append(f"| `{label}` | {_listed(by)} | {_listed(has)} |")
    return "\n".join(rows) + "\n"


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


_RECORDS: tuple[type[Any], ...] = (
    records.WalRecord,
    records.RunTelemetry,
    records.TelemetryBundle,
    OperationTelemetry,
    records.SourceRef,
    records.Step,
    records.Lease,
    records.SinkPosition,
    records.LedgerEntry,
    PublicRun,
    PublicInput,
    PublicArtifact,
    PublicLabels,
)
TABLES: dict[str, Callable[[], str]] = {
    **{kind.__name__: lambda kind=kind: fields(kind) for kind in _RECORDS},  # type: ignore[misc]
    "the fields of Updater": attributes,
    "the methods of Updater": methods,
    "the statements of the graph": statements,
    "the properties of the graph": properties,
}
