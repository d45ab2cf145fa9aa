"""Licences of datasets: SPDX expressions, or a custom licence that is declared with its text.

The ids are a list in this package instead of a library: the check must give the same answer in every installation, and
only commands that publish or check settings load it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kfm.parsing.characters import printable

CUSTOM = "LicenseRef-"
_CUSTOM_ID = re.compile(r"LicenseRef-[A-Za-z0-9.-]+")
_PART = re.compile(r"\(|\)|[^\s()]+")
_OPERATORS = ("AND", "OR", "WITH")
_MAX = 1000  # characters of an expression
# Other names that people write, in lower case and without punctuation, for ids that are not similar enough.
_OTHER_NAMES = {
    "uspd": "CC-PDM-1.0", "usgovernmentwork": "CC-PDM-1.0", "uspublicdomain": "CC-PDM-1.0",
    "publicdomain": "CC-PDM-1.0", "pd": "CC-PDM-1.0", "cc0": "CC0-1.0", "cczero": "CC0-1.0", "zero": "CC0-1.0",
    "ccby": "CC-BY-4.0", "ccbysa": "CC-BY-SA-4.0", "ccbync": "CC-BY-NC-4.0", "odbl": "ODbL-1.0",
    "odcby": "ODC-By-1.0", "pddl": "PDDL-1.0", "ogl": "OGL-UK-3.0", "apache": "Apache-2.0", "gpl": "GPL-3.0-or-later",
    "bsd": "BSD-3-Clause",
}  # fmt: skip
_ADDRESS = re.compile(r"https?://(?:www\.)?(?P<host>[a-z.]+)/(?P<path>.+?)/*")


class Expression(NamedTuple):
    """The parts of a valid expression: how it nests does not matter to its readers here."""

    ids: tuple[str, ...]
    offers_choice: bool  # one of the licences may be chosen


class _Unreadable(Exception):
    """Raised with the one thing that is wrong in an expression, and its cure."""

    def __init__(self, what: str, cure: str = "write an SPDX expression such as CC0-1.0 OR CC-BY-4.0") -> None:
        super().__init__(what)
        self.what, self.cure = what, cure


class LicenceProblem(NamedTuple):
    """What is wrong with a declared licence, and the cure."""

    what: str
    cure: str

    def __str__(self) -> str:
        return f"{self.what}; {self.cure}"


def problem_of(licence: str, text: str = "") -> LicenceProblem | None:
    """Return what is wrong with a declared licence; None if nothing is. A custom licence needs its text."""
    try:
        found = _parsed(licence)
    except _Unreadable as problem:
        return LicenceProblem(problem.what, problem.cure)
    custom = [each for each in found.ids if each.startswith(CUSTOM)]
    if custom and not text.strip():
        return LicenceProblem(f"{custom[0]} is a custom licence without a text", "add license_text")
    if text.strip() and not custom:
        cure = f"write license: {CUSTOM}NAME, or remove license_text"
        return LicenceProblem("license_text is for a custom licence", cure)
    return None


def expression_of(licence: str) -> Expression | None:
    """Return the parts of an SPDX expression; None if it is not one."""
    try:
        return _parsed(licence)
    except _Unreadable:
        return None


def _parsed(licence: str) -> Expression:
    said = licence.strip()
    if not said or len(said) > _MAX or "://" in said:
        raise _not_an_id(said[:_MAX])
    parts = _PART.findall(said)
    if len(parts) > 1 and not {*_OPERATORS, "(", ")"} & set(parts):
        raise _not_an_id(said)  # a name of several words
    reader = _Reader(parts)
    reader.alternatives()
    if reader.rest:
        raise _Unreadable(f"the expression has {printable(reader.rest[0], 60)} where AND, OR or its end should be")
    return Expression(tuple(reader.ids), "OR" in parts)


class _Reader:
    """Reads an expression by recursive descent: OR binds less than AND, AND less than WITH."""

    def __init__(self, parts: list[str]) -> None:
        self.rest = parts
        self.ids: list[str] = []
        self._depth = 0

    def alternatives(self) -> None:
        self._all_of()
        while self.rest[:1] == ["OR"]:
            self.rest = self.rest[1:]
            self._all_of()

    def _all_of(self) -> None:
        self._one()
        while self.rest[:1] == ["AND"]:
            self.rest = self.rest[1:]
            self._one()

    def _one(self) -> None:
        word = self._next()
        if word == "(":
            self._depth += 1
            if self._depth > 50:
                raise _Unreadable("the expression has too many parentheses")
            self.alternatives()
            if self._next() != ")":
                raise _Unreadable("the expression has a parenthesis that is not closed")
            self._depth -= 1
            return
        if word in (*_OPERATORS, ")"):
            raise _Unreadable(f"the expression has {word} where a licence should be")
        self.ids.append(_known(word))
        if self.rest[:1] == ["WITH"]:
            self.rest = self.rest[1:]
            _known_exception(self._next())

    def _next(self) -> str:
        if not self.rest:
            raise _Unreadable("the expression ends too early")
        word, *self.rest = self.rest
        return word


def _known(word: str) -> str:
    if _CUSTOM_ID.fullmatch(word):
        return word
    ids = _ids()
    if word in ids or (word.endswith("+") and word[:-1] in ids):
        return word
    raise _not_an_id(word)


def _known_exception(word: str) -> None:
    from kfm.parsing.spdx_ids import EXCEPTIONS

    known = EXCEPTIONS.split()
    if word not in known:
        near = _nearest(word, known) or "one of https://spdx.org/licenses/exceptions-index.html"
        raise _Unreadable(f"{printable(word, 60)} is no exception that SPDX lists", f"write {near}")


def _ids() -> list[str]:
    from kfm.parsing.spdx_ids import LICENSES

    return LICENSES.split()


def nearest_id(word: str) -> str:
    """Return the SPDX id that a name or the address of a licence probably means; empty if none is similar."""
    return _nearest(word, _ids())


def _not_an_id(word: str) -> _Unreadable:
    near = _nearest(word, _ids())
    own = re.sub(r"[^A-Za-z0-9.-]+", "-", word).strip("-.")[:40] or "NAME"
    cure = near or f"one such as CC0-1.0, or {CUSTOM}{own} with its text in license_text"
    return _Unreadable(f"{printable(word, 100)} is not an SPDX licence", f"write {cure}")


def _nearest(word: str, ids: list[str]) -> str:
    """Return the id that was probably meant; empty if none is similar."""
    from difflib import get_close_matches

    address = _ADDRESS.fullmatch(word.strip().lower())
    if address:
        return _at_address(address["host"], address["path"], ids)
    plain = re.sub(r"[^a-z0-9]", "", word.lower())
    by_plain = {re.sub(r"[^a-z0-9]", "", each.lower()): each for each in reversed(ids)}
    if plain in by_plain or plain in _OTHER_NAMES:
        return by_plain.get(plain) or _OTHER_NAMES[plain]
    by_lower = {each.lower(): each for each in ids}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[found[0]] if found else ""


def _at_address(host: str, path: str, ids: list[str]) -> str:
    """Return the id of a licence that is named by the address of its text."""
    words = path.removesuffix(".html").split("/")
    if host == "creativecommons.org" and len(words) >= 3:
        kind = {"zero": "CC0", "mark": "CC-PDM"}.get(words[1], f"CC-{words[1].upper()}")
        wanted = f"{kind}-{words[2]}"
    else:
        wanted = words[-1]
    by_lower = {each.lower(): each for each in ids}
    return by_lower.get(wanted.lower(), "")
