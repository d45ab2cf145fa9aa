"""The contract of the API in the repository: its OpenAPI document, and the reference page of the same document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kfm.api.console.contract_page import kind_of
from kfm.api.openapi import document
from kfm.api.route_table import ROUTES

SCHEMA, PAGE = "schemas/openapi.json", "docs/reference/api.md"


def pages(notice: str) -> dict[str, str]:
    described = document(ROUTES)
    text = "\n".join(_page(described, notice))
    return {SCHEMA: json.dumps(described, indent=2, ensure_ascii=False) + "\n", PAGE: text}


def _page(described: dict[str, Any], notice: str) -> Iterator[str]:
    yield notice
    yield "# HTTP API\n"
    yield (
        f"{described['info']['description']}\n\nThe same as OpenAPI 3.1 is [schemas/openapi.json]"
        "(../../schemas/openapi.json); a server has it at `/v1/openapi.json`, and as a page at `/v1/docs`. "
        "[How to use it](../guides/api.md).\n"
    )
    for tag in described["tags"]:
        yield f"## {tag['name'].capitalize()}\n\n{tag.get('description', '')}\n"
        for path, operations in described["paths"].items():
            for method, operation in operations.items():
                if tag["name"] in operation["tags"]:
                    yield from _operation(f"{method.upper()} {path}", operation)
    yield "## Headers\n\n| header | what |\n|---|---|"
    for name, header in sorted(_headers(described).items()):
        yield f"| `{name}` | {header['description']} |"
    yield "\n## Records\n\nKeys that may be absent are in parentheses."
    for name, schema in described["components"]["schemas"].items():
        yield from _record(name, schema)
    yield ""


def _operation(title: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {title}\n\n{operation['summary']}. Operation `{operation['operationId']}`, for: " + (
        f"{', '.join(operation['x-kfm-audiences'])}.\n"
    )
    if operation["parameters"]:
        yield "| parameter | in | type | what |\n|---|---|---|---|"
        for each in operation["parameters"]:
            said = _values(each["schema"])
            yield f"| `{each['name']}` | {each['in']} | {said} | {_cell(each['description'])} |"
        yield ""
    body = operation.get("requestBody", {}).get("content", {})
    for media, content in body.items():
        yield f"The body is `{media}`: {_link(content['schema'])}.\n"
    yield "| answer | what | body |\n|---|---|---|"
    for status, answer in operation["responses"].items():
        kinds = [f"`{media}` {_link(of.get('schema', {}))}".strip() for media, of in answer.get("content", {}).items()]
        yield f"| {status} | {_cell(answer['description'])} | {', '.join(kinds)} |"
    yield ""


def _headers(described: dict[str, Any]) -> dict[str, Any]:
    operations = [operation for each in described["paths"].values() for operation in each.values()]
    answers = [answer for operation in operations for answer in operation["responses"].values()]
    return {name: header for answer in answers for name, header in answer.get("headers", {}).items()}


def _record(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"\n### {name}\n"
    if schema.get("description"):
        yield f"{schema['description']}\n"
    if schema.get("properties"):
        yield "| key | type |\n|---|---|"
        for key, value in schema["properties"].items():
            said = f"`{key}`" if key in schema.get("required", ()) else f"(`{key}`)"
            yield f"| {said} | {_cell(kind_of(value))} |"


def _link(schema: dict[str, Any]) -> str:
    name = schema.get("$ref", "").rpartition("/")[2]
    return f"[{name}](#{name.lower()})" if name else ""


def _values(schema: dict[str, Any]) -> str:
    said = kind_of(schema)
    if "minimum" in schema:
        said += f", {schema['minimum']} to {schema['maximum']}" if "maximum" in schema else f", {schema['minimum']} up"
    return said + (f", else {schema['default']}" if schema.get("default") else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
