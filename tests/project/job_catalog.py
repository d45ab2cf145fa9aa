"""The page docs/reference/jobs.md: every type of job that KFM brings, made from the registry."""

from __future__ import annotations

from typing import Any

import msgspec

from kfm.app.jobs.job_types import OWN, JobType


def page(notice: str) -> str:
    rows = [f"| [`{each.name}`](#{_anchor(each.name)}) | {_cell(each.purpose)} | {_cell(each.triggers)} | "
            f"{_cell(each.inputs)} | {_cell(each.outputs)} |" for each in OWN]  # fmt: skip
    head = [
        notice,
        "# Job types\n",
        "`kfm jobs types` lists these and those of installed packages. A job is a run of a dataset: it is safe to "
        "repeat, because the versions it reads and its parameters are the name of its work, and every run leaves a "
        "receipt under `receipts/<type>/`. [How to use them](../guides/derived-datasets.md).\n",
        "| job type | purpose | triggers | inputs | outputs |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]
    return "\n".join([*head, *(part for each in OWN for part in _section(each))])


def _anchor(name: str) -> str:
    return name.replace(".", "")


def _section(job: JobType) -> list[str]:
    found = [f"## {job.name}\n"]
    if job.settings is not None:
        found += ["`parameters:` of the dataset in `kfm.yml`:\n", *_table(job.settings)]
    found += ["`parameters` of a request (`kfm jobs enqueue`):\n", *_table(job.parameters)]
    return found


def _table(record: type[msgspec.Struct]) -> list[str]:
    schema = msgspec.json.schema(record)
    lines = ["| key | type | default | what |", "|---|---|---|---|"]
    others = []
    definitions = schema["$defs"]
    for key, value in definitions[record.__name__].get("properties", {}).items():
        default = f"`{msgspec.json.encode(value['default']).decode()}`" if "default" in value else "required"
        lines.append(f"| `{key}` | {_kind(value)} | {default} | {_cell(value.get('description', ''))} |")
    for name, part in definitions.items():
        if name != record.__name__:
            keys = ", ".join(
                f"`{key}` ({_cell(each.get('description', ''))})" for key, each in part["properties"].items()
            )
            others.append(f"A {name} has {keys}.\n")
    return [*lines, "", *others]


def _kind(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    if "anyOf" in value:
        return " or ".join(_kind(each) for each in value["anyOf"])
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if value.get("type") == "array":
        return f"list of {_kind(value['items'])}" if isinstance(value.get("items"), dict) else "list"
    if value.get("type") == "object":
        return f"mapping of {_kind(value['additionalProperties'])}" if "additionalProperties" in value else "mapping"
    low, high = value.get("minimum"), value.get("maximum")
    bounds = f" {low} to {high}" if low is not None and high is not None else f" from {low}" if low is not None else ""
    return f"{value.get('type', 'any')}{bounds}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
