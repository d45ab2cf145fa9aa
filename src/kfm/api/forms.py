"""Bodies that people and programs send: forms and JSON, as records."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec

from kfm.api.problems import HttpProblem

T = TypeVar("T")
MOST_FIELDS = 50


def form_of(body: bytes) -> dict[str, str]:
    """Return the fields of a form. HttpProblem 400 if a field is given twice or is no text."""
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise HttpProblem(400, "the form cannot be read; send it URL-encoded in UTF-8", "input.bad") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise HttpProblem(400, "a field of the form is given twice; give it once", "input.bad")
    return found


def record_of(body: bytes, kind: type[T]) -> T:
    """Return a JSON body as a record. HttpProblem 400 if it has another form. What it holds is not quoted."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        fields = ", ".join(each.encode_name for each in msgspec.structs.fields(kind))  # type: ignore[arg-type]
        raise HttpProblem(400, f"the body is not JSON with these fields: {fields}", "input.bad") from None
