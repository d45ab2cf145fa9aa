"""A message that wakes a worker: a Celery task with the id of a trigger. It is read here without Celery, so that
nothing in a message is unpacked, imported or run, and a message of another form is known before it is believed."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error

from kfm.parsing.characters import is_printable

TASK = "kfm.wake"
MOST_BYTES = 4096  # of a message as Celery writes it; one with an id has some 950
MOST_BODY = 1024
MOST_ID = 200  # characters


def trigger_of(message: bytes) -> str | None:
    """Return the id of the trigger that a message names; None for one that is too long, no JSON, or of another task."""
    if len(message) > MOST_BYTES:
        return None
    try:
        found = json.loads(message)
        headers, properties = found["headers"], found["properties"]
        is_ours = headers["task"] == TASK and found["content-type"] == "application/json"
        if not is_ours or headers.get("compression") or properties["body_encoding"] != "base64":
            return None
        body = b64decode(found["body"], validate=True)
        named = json.loads(body)[0][0] if len(body) <= MOST_BODY else None
    except (Error, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return None
    fits = isinstance(named, str) and 0 < len(named) <= MOST_ID and is_printable(named)
    return named if fits else None
