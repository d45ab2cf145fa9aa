"""Names that may become keys, refs and file names. Anything else is refused, not repaired."""

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
# Printable as Unicode has it, yet nothing is seen: two names with and without one look the same.
_UNSEEN = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"


def check_id(text: str, what: str) -> str:
    """An updater or dataset id: lower case letters, digits, dot, dash, underscore; 63 at most."""
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
    """A part of a dataset, such as a day, a tile or a station: what a part of a ref may be."""
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
    """The id inside kfm://dataset/<id>; a bare id is accepted too."""
    return check_id(dataset.removeprefix(_DATASET), "dataset")


def dataset_uri(dataset: str) -> str:
    return _DATASET + dataset_id(dataset)


def check_path(text: str) -> str:
    """A relative path below a root that every file system keeps as it is: each part a safe file name."""
    if len(text) > 1000 or not all(map(is_file_name, text.split("/"))):
        raise BadInput(
            f"{printable(text)} is not a safe relative path",
            hint="use plain names joined by '/', none starting with a dot",
        )
    return text


def is_file_name(text: str) -> bool:
    """Whether this may be one part of a path: not hidden, at most 200 bytes, and no file system would read
    it as another name (reserved ones, other normal forms of Unicode, a dot or space at its end).

    Letter case is left alone: whoever writes names that others chose must not write two that differ in it.
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
    """Whether this is a semantic version as semver.org 2.0.0 writes them: 1.2.0, 1.2.0-rc.1, 1.2.0+build.5."""
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
    """Whether code may have such a name. Of characters past ASCII it is not asked which of them are letters: that
    depends on the version of Unicode, and a name that is none is not found."""
    if text.isascii():
        return text.isidentifier()
    # Letters, digits and "_", told by what of ASCII is none of them: large sets take long to compile.
    named = re.match(r"[^\x00-@\[-^`{-\x7f][^\x00-/:-@\[-^`{-\x7f]*\Z", text)
    return named is not None and is_printable(text)


def _is_device(text: str) -> bool:
    return text.partition(".")[0].rstrip(" ").lower() in _RESERVED


def _has_one_form(text: str) -> bool:
    from unicodedata import combining, is_normalized

    # NFKC leaves neither a second spelling of a letter nor one of a dot, slash or digit.
    return is_normalized("NFKC", text) and not combining(text[0]) and not re.search(_UNSEEN, text)
