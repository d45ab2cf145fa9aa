"""Reads dates by a format of `%` and letters; every implementation accepts the same texts.

    %Y 2026   %y 26 (1969 to 2068)   %m 1 to 12   %b Jan   %B January   %d 1 to 31   %j 1 to 366, the day of the year
    %H 0 to 23   %I 1 to 12   %p am or pm   %M %S 0 to 59   %f 1 to 6 digits   %z Z, +hh:mm or +hhmm
    %a Mon   %A Monday (not compared with the date)   %% a percent sign

Names are English, in any case; a leading zero may be left out. A space in the format matches one or more spaces of
any kind; other characters match themselves. Parts that the format does not have are those of 1900-01-01.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from kfm.parsing.lazy_regex import pattern

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
SPACE = r"[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"


def _any_case(words: tuple[str, ...]) -> str:
    return "|".join("".join(f"[{letter.upper()}{letter}]" for letter in word) for word in words)


_PARTS: dict[str, tuple[str, str]] = {  # letter: the part of a date, and its pattern
    "Y": ("year", r"[0-9]{4}"),
    "y": ("year", r"[0-9]{2}"),
    "m": ("month", r"1[0-2]|0[1-9]|[1-9]"),
    "b": ("month", _any_case(tuple(name[:3] for name in _MONTHS))),
    "B": ("month", _any_case(_MONTHS)),
    "d": ("day", r"3[01]|[12][0-9]|0[1-9]|[1-9]| [1-9]"),
    "j": ("day of the year", r"36[0-6]|3[0-5][0-9]|[12][0-9]{2}|0[1-9][0-9]|00[1-9]|[1-9][0-9]|0[1-9]|[1-9]"),
    "a": ("weekday", _any_case(tuple(name[:3] for name in _WEEKDAYS))),
    "A": ("weekday", _any_case(_WEEKDAYS)),
    "H": ("hour", r"2[0-3]|[01][0-9]|[0-9]"),
    "I": ("hour", r"1[0-2]|0[1-9]|[1-9]"),
    "p": ("half of the day", _any_case(("am", "pm"))),
    "M": ("minute", r"[0-5][0-9]|[0-9]"),
    "S": ("second", r"[0-5][0-9]|[0-9]"),
    "f": ("fraction", r"[0-9]{1,6}"),
    "z": ("offset", r"Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9]"),
}
_TAKEN = {"Y": "Y", "y": "y", "m": "m", "b": "b", "B": "b", "d": "d", "j": "j"}  # letter: its group


def date_format_problem(format_: str) -> str:
    """Return why a text is not a date format, as the end of a sentence that begins with "date_format"; empty if it is
    one."""
    said: set[str] = set()
    for letter, text in _pieces(format_):
        if text:
            continue
        if letter not in _PARTS:
            known = " ".join(f"%{name}" for name in _PARTS)
            return f"has a % without one of these letters after it: {known} %%"
        what = _PARTS[letter][0]
        if what in said or (what == "day of the year" and said & {"month", "day"}):
            return f"says the {what} twice"
        said.add(what)
        if what in ("month", "day") and "day of the year" in said:
            return "says the day of the year twice"
    return "" if said else "has no part of a date in it"


@lru_cache(maxsize=64)
def date_reader(format_: str) -> Callable[[str], bool]:
    """Return a function that says whether a text is a date in this format. The format must be valid."""
    written = ""
    for letter, text in _pieces(format_):
        if text:
            written += f"{SPACE}+" if text.isspace() else re.escape(text)
        elif letter in _TAKEN:
            written += f"(?P<{_TAKEN[letter]}>{_PARTS[letter][1]})"
        else:
            written += f"(?:{_PARTS[letter][1]})"
    match = re.compile(written).fullmatch

    def reads(text: str) -> bool:
        found = match(text)
        return found is not None and _exists(found.groupdict())

    return reads


def _pieces(format_: str) -> list[tuple[str, str]]:
    """Split the format into letters after a percent sign and texts; white space is a piece of its own."""
    cut = re.compile(rf"%%|%(?P<letter>.?)|(?P<space>{SPACE}+)|(?P<text>.)", re.DOTALL)
    return [
        (found["letter"] or "", "%" if found[0] == "%%" else found["space"] or found["text"] or "")
        for found in cut.finditer(format_)
    ]


def _exists(parts: dict[str, str]) -> bool:
    year = 1900
    if "Y" in parts:
        year = int(parts["Y"])
    elif "y" in parts:
        year = int(parts["y"]) + (1900 if int(parts["y"]) >= 69 else 2000)
    if "j" in parts:
        return year >= 1 and int(parts["j"]) <= 365 + is_leap(year)
    month = int(parts.get("m", "1"))
    if "b" in parts:
        short = parts["b"][:3].lower()
        month = next(number for number, name in enumerate(_MONTHS, 1) if name.startswith(short))
    return is_day(year, month, int(parts.get("d", "1")))


def is_day(year: int, month: int, day: int) -> bool:
    """Return whether this day exists, from the year 1 to 9999."""
    if not (1 <= year <= 9999 and 1 <= month <= 12):
        return False
    return 1 <= day <= _DAYS[month - 1] + (month == 2 and is_leap(year))


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


_DATE = pattern(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MOMENT = pattern(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])?"
)


def is_date(text: str) -> bool:
    """Return whether the text is YYYY-MM-DD and that day exists."""
    return _is_there(_DATE, text)


def is_moment(text: str) -> bool:
    """Return whether the text is YYYY-MM-DD, `T` or a space, hh:mm[:ss[.f]], and Z, an offset or nothing."""
    return _is_there(_MOMENT, text)


def day_of(text: str) -> str:
    """Return the day of a date or moment as YYYY-MM-DD; empty if the text is neither."""
    return text[:10] if is_date(text) or is_moment(text) else ""


def _is_there(form: re.Pattern[str], text: str) -> bool:
    found = form.fullmatch(text)
    return found is not None and is_day(int(found[1]), int(found[2]), int(found[3]))
