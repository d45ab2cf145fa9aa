"""Names that may become keys, refs and file names. Other names are refused and never repaired."""

from __future__ import annotations

import re
from functools import lru_cache

from kfm.errors import BadInput
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.lazy_regex import pattern

_ID = pattern(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?\Z")
_REF = pattern(r"[a-z]+(?:/[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?){1,8}\Z")
_DIGEST = pattern(r"sha256:[0-9a-f]{64}\Z")
_DATASET = "kfm://dataset/"
_RESERVED = {"con", "prn", "aux", "nul", "conin$", "conout$", "clock$"} | {
    f"{device}{digit}" for device in ("com", "lpt") for digit in range(10)
}
_NOT_IN_FILE_NAMES = frozenset('\\:*?"<>|')
# Printable by Unicode but invisible: two names that differ only in one of these look the same.
_UNSEEN = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"


def check_id(text: str, what: str) -> str:
    """Return an updater or dataset id: at most 63 lower-case letters, digits, dots, dashes and underscores.

    Raise BadInput otherwise.
    """
    if not _ID.match(text) or ".." in text or _is_device(text):
        raise BadInput(
            f"{what} {printable(text)} is not a valid name",
            hint="use lower-case letters, digits, '-', '_' and '.', at most 63 of them",
        )
    return text


def check_ref(text: str) -> str:
    if not _REF.match(text) or ".." in text or any(map(_is_device, text.split("/"))):
        raise BadInput(
            f"{printable(text)} is not a ref",
            hint="a ref looks like processed/noaa-stations; see `kfm refs list`",
        )
    return text


def check_partition(text: str) -> str:
    """Return the name of a partition, such as a day, a tile or a station. Raise BadInput if a ref could not contain
    it."""
    if not _REF.match(f"raw/{text}") or "/" in text or ".." in text or _is_device(text):
        raise BadInput(
            f"partition {printable(text)} is not a valid name",
            hint="use letters, digits, '-', '_' and '.', at most 128 of them",
        )
    return text


def is_digest(text: str) -> bool:
    return _DIGEST.match(text) is not None


@lru_cache(maxsize=1024)
def dataset_id(dataset: str) -> str:
    """Return the id of a dataset, given as kfm://dataset/<id> or as a bare id. Raise BadInput if it is not valid."""
    return check_id(dataset.removeprefix(_DATASET), "dataset")


def dataset_uri(dataset: str) -> str:
    return _DATASET + dataset_id(dataset)


def check_path(text: str) -> str:
    """Return a relative path that every file system stores unchanged. Raise BadInput otherwise."""
    if len(text) > 1000 or not all(map(is_file_name, text.split("/"))):
        raise BadInput(
            f"{printable(text)} is not a safe relative path",
            hint="use plain names joined by '/', none starting with a dot",
        )
    return text


def is_file_name(text: str) -> bool:
    """Return whether this may be one part of a path: not hidden, at most 200 bytes, and no file system reads it as
    another name (reserved names, other normal forms of Unicode, a dot or space at the end).

    Case is not checked: a caller that writes names chosen by others must not write two that differ only in case.
    """
    return (
        is_printable(text)
        and not text.startswith((".", " "))
        and not text.endswith((".", " "))
        and _NOT_IN_FILE_NAMES.isdisjoint(text)
        and "/" not in text
        and 0 < len(text.encode()) <= 200
        and not _is_device(text)
        and (text.isascii() or _has_one_form(text))
    )


def is_semantic(text: str) -> bool:
    """Return whether this is a semantic version (semver.org 2.0.0): 1.2.0, 1.2.0-rc.1, 1.2.0+build.5."""
    core, plus, build = text.partition("+")  # by hand: a pattern takes longer to compile than a run can spare
    core, dash, before = core.partition("-")
    numbers, marks = core.split("."), before.split(".") if dash else []
    return (
        len(numbers) == 3
        and all(part.isdecimal() for part in numbers)
        and all(map(_is_mark, marks + build.split(".") if plus else marks))
        and not any(part.isdecimal() and part[0] == "0" != part for part in numbers + marks)
        and text.isascii()
    )


def _is_mark(part: str) -> bool:
    return part.replace("-", "0").isalnum()


def is_identifier(text: str) -> bool:
    """Return whether code may have such a name. Characters beyond ASCII are all accepted, because which of them are
    letters depends on the version of Unicode; a name that does not exist is not found anyway."""
    if text.isascii():
        return text.isidentifier()
    # Letters, digits and "_", as the complement of the other ASCII characters: large sets compile slowly.
    named = re.match(r"[^\x00-@\[-^`{-\x7f][^\x00-/:-@\[-^`{-\x7f]*\Z", text)
    return named is not None and is_printable(text)


def _is_device(text: str) -> bool:
    return text.partition(".")[0].rstrip(" ").lower() in _RESERVED


def _has_one_form(text: str) -> bool:
    from unicodedata import combining, is_normalized

    # NFKC has one spelling of each letter, dot, slash and digit.
    return is_normalized("NFKC", text) and not combining(text[0]) and not re.search(_UNSEEN, text)
