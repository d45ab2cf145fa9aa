"""The page of the API: every address with its parameters and answers, from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from kfm.api.console.frame import page


def contract_page(described: dict[str, Any], archive: str) -> bytes:
    """Return the page of an OpenAPI document. It has no script and loads nothing."""
    info = described["info"]
    body = [
        '<div class="hero"><div class="in"><p class="kind">OpenAPI 3.1: <a href="/v1/openapi.json">/v1/openapi.json</a>'
        f'</p><h1>{escape(info["title"])}</h1><p class="lead">{escape(info["description"])}</p></div></div>',
        '<div class="in one">',
    ]
    for tag in described["tags"]:
        name = tag["name"]
        body.append(f'<section><h2 id="{escape(name)}">{escape(name.capitalize())}</h2>')
        body.append(f"<p>{escape(tag.get('description', ''))}</p>")
        for path, operations in described["paths"].items():
            for method, operation in operations.items():
                if name in operation["tags"]:
                    body += _operation(method, path, operation)
        body.append("</section>")
    body += ['<section><h2 id="records">Records</h2>', *_records(described["components"]["schemas"])]
    body.append("</section></div>")
    return page("API", archive, body, "/v1/docs")


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f'<h3 id="{escape(operation["operationId"])}"><code>{method.upper()} {escape(path)}</code></h3>'
    yield f"<p>{escape(operation['summary'])}.</p>"
    if operation["parameters"]:
        rows = [(each["name"], f"{each['description']} ({each['in']})") for each in operation["parameters"]]
        yield from _table(f"Parameters of {operation['operationId']}", "parameter", rows)
    answers = [(status, answer["description"], answer) for status, answer in operation["responses"].items()]
    rows = [(status, about + _record_of(answer)) for status, about, answer in answers]
    yield from _table(f"Answers of {operation['operationId']}", "answer", rows)


def _record_of(answer: dict[str, Any]) -> str:
    kinds = [
        f"{media} {content.get('schema', {}).get('$ref', '').rpartition('/')[2]}".strip()
        for media, content in answer.get("content", {}).items()
    ]
    return f": {', '.join(kinds)}" if kinds else ""


def _table(label: str, first: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    yield f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0"><table>'
    yield f'<thead><tr><th scope="col">{first}</th><th scope="col">what</th></tr></thead><tbody>'
    for left, right in rows:
        yield f'<tr><th scope="row"><code>{escape(left)}</code></th><td>{escape(right)}</td></tr>'
    yield "</tbody></table></div>"


def _records(schemas: dict[str, Any]) -> Iterator[str]:
    for name, schema in schemas.items():
        yield f'<h3 id="record-{escape(name)}"><code>{escape(name)}</code></h3>'
        if schema.get("description"):
            yield f"<p>{escape(schema['description'])}</p>"
        rows = [(key, kind_of(value)) for key, value in schema.get("properties", {}).items()]
        if rows:
            yield from _table(f"Keys of {name}", "key", rows)


def kind_of(schema: dict[str, Any]) -> str:
    """Return the type of a JSON Schema in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(map(kind_of, schema["anyOf"]))
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "enum" in schema:
        return " or ".join(f'"{each}"' for each in schema["enum"])
    if schema.get("type") == "array":
        items = schema.get("items")
        return f"list of {kind_of(items)}" if isinstance(items, dict) and items else "list"
    kind = schema.get("type", "anything")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
