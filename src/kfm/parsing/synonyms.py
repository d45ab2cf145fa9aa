"""Other words that people write for keys and values of a configuration, and the line to write instead.

A synonym is never accepted in place of the real word, because other readers of the file would not know it. The error
message names the line to write.
"""

from __future__ import annotations

import re
from typing import Any

_EVERY_HOUR, _EVERY_MONTH = 'cron: "0 * * * *"', 'cron: "0 0 1 * *"'
# For each key that is known somewhere, what it is also called.
_KEYS = {
    "uri": ("url", "path", "file", "href", "link", "location", "address", "download_url"),
    "license": ("licence", "licences", "licenses", "rights"),
    "title": ("label", "display_name"),
    "updater": ("class", "handler", "code"),
    "format": ("type", "kind", "filetype", "file_format"),
    "columns": ("fields", "cols", "schema", "properties"),
    "sources": ("inputs", "source", "input"),
    "datasets": ("data", "tables", "dataset"),
    "sensitivity": ("classification", "visibility", "access"),
    "cadence": ("every", "interval", "frequency", "repeat"),
    "timezone": ("tz", "time_zone"),
    "minimum": ("min",),
    "maximum": ("max",),
    "pattern": ("regex", "regexp"),
    "values": ("enum", "allowed", "choices"),
    "required": ("mandatory", "not_null"),
    "date_format": ("strftime",),
    "delimiter": ("separator", "sep"),
    "encoding": ("charset",),
    "expect_hash": ("sha256", "checksum", "digest", "hash"),
    "threads": ("workers", "parallelism", "concurrency"),
    "state": ("database", "db"),
}
# For each word of a choice, what it is also called.
_WORDS = {
    "text": ("string", "str", "varchar", "char"),
    "number": ("float", "double", "decimal", "numeric", "real", "float64", "float32"),
    "integer": ("int", "long", "bigint", "int64", "int32"),
    "boolean": ("bool", "logical"),
    "datetime": ("timestamp", "timestamptz", "date-time", "instant"),
    "annual": ("yearly", "annually", "every year"),
    "daily": ("day", "every day", "nightly"),
    "weekly": ("week", "every week"),
    "real-time": ("realtime", "live", "continuous"),
    "static": ("once", "never"),
    "public": ("open",),
    "generalised": ("generalized", "masked"),
    "restricted": ("private", "internal"),
    "closed": ("secret", "confidential"),
    "discard-row": ("drop", "skip", "drop-row"),
    "csv": ("tsv", "txt"),
    "ndjson": ("jsonl", "jsonlines"),
    "auto": ("automatic",),
}
# For each word of a cadence that is none, what says the same.
_CRON = {
    "hourly": _EVERY_HOUR, "every hour": _EVERY_HOUR, "hour": _EVERY_HOUR,
    "monthly": _EVERY_MONTH, "every month": _EVERY_MONTH, "month": _EVERY_MONTH,
    "quarterly": 'cron: "0 0 1 */3 *"',
}  # fmt: skip
_CADENCES = ("real-time", "daily", "weekly", "annual", "static")
_SHOWN = frozenset({"uri", "license", "format", "sensitivity"})  # keys whose values may stand in a message
_HARMLESS = re.compile(r"(?:https?://)?[A-Za-z0-9][A-Za-z0-9._/-]{0,100}")


def key_meant(name: str, known: list[str]) -> str:
    """Return the known key that `name` is another word for; empty if there is none."""
    plain = name.replace("-", "_").lower()[:80]
    return next((key for key, others in _KEYS.items() if key in known and plain in others), "")


def word_meant(word: str, known: list[str]) -> str:
    """Return the allowed word that `word` is another word for; empty if there is none."""
    plain = word.strip().lower()[:80]
    alike = next((each for each in known if each.lower() == plain), "")
    return alike or next((each for each, others in _WORDS.items() if each in known and plain in others), "")


def line(key: str, value: Any) -> str:
    """Return the line to write for a key, with the value, or with dots if the value may hold a secret."""
    shown = key in _SHOWN and isinstance(value, str) and _HARMLESS.fullmatch(value)
    return f"{key}: {value if shown else '…'}"


def schedule_line(key: str, value: Any) -> str:
    """Return the line to write for a schedule that was given as one word or as five fields of cron; empty if it is
    neither."""
    if not isinstance(value, str):
        return ""
    word = value.strip().lower()
    if word in _CRON:
        return f"{key}: {{{_CRON[word]}}}"
    cadence = word if word in _CADENCES else word_meant(word, list(_CADENCES))
    if cadence:
        return f"{key}: {{cadence: {cadence}}}"
    if re.fullmatch(r"(?:[0-9*,/-]+ ){4}[0-9A-Za-z*,/-]+", word):
        return f'{key}: {{cron: "{value.strip()}"}}'
    return ""


def cadence_line(value: str) -> str:
    """Return the `cron` line to write for a word that is no cadence, such as hourly; empty if the word is not known."""
    return _CRON.get(value.strip().lower(), "")
