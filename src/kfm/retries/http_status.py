"""The HTTP status and the `Retry-After` of an exception, whichever client raised it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kfm.clock import parse_instant
from kfm.errors import BadInput, KfmError

LONGEST_S = 3600  # no wait that a server asks for is longer
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})"
_MONTH = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
# RFC 9110, 5.6.7: a sender writes the first form, a reader takes all three.
_IMF = re.compile(rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), ([0-9]{{2}}) {_MONTH} ([0-9]{{4}}) {_TIME} GMT")
_RFC850 = re.compile(rf"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, ([0-9]{{2}})-{_MONTH}-([0-9]{{2}}) {_TIME} GMT")
_ASCTIME = re.compile(rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_MONTH} ([ 0-9][0-9]) {_TIME} ([0-9]{{4}})")


def status_of(problem: BaseException) -> int | None:
    """Return the HTTP status of an exception of urllib, requests, httpx, aiohttp and the like; None if it has none."""
    for holder in (problem, getattr(problem, "response", None)):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if type(value) is int and 100 <= value <= 599:
                return value
    return None


def asked_wait_s(problem: BaseException, now_ms: int) -> float | None:
    """Return the seconds to wait that an exception carries: `retry_after_s` of an error of KFM, or the header
    `Retry-After`; None if there is none, or if it cannot be read."""
    if isinstance(problem, KfmError):
        asked = problem.fields.get("retry_after_s")
        return float(max(asked, 0)) if isinstance(asked, int) else None
    for holder in (problem, getattr(problem, "response", None)):
        text = _header(getattr(holder, "headers", None))
        if text is not None:
            return retry_after_s(text, now_ms)
    return None


def retry_after_s(text: str, now_ms: int) -> int | None:
    """Return the seconds to wait that `Retry-After` gives as a number or a date, at most an hour; None if it is
    unreadable."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]), LONGEST_S)
    moment = _moment(text, now_ms) if len(text) <= 64 else None
    if moment is None:
        return None
    return min(max((moment - now_ms) // 1000, 0), LONGEST_S)


def _header(headers: Any) -> str | None:
    if headers is None or not (isinstance(headers, Mapping) or hasattr(headers, "get")):
        return None
    for name in ("Retry-After", "retry-after"):  # most kinds of headers ignore the case, a dict does not
        value = headers.get(name)
        if isinstance(value, str):
            return value
    return None


def _moment(text: str, now_ms: int) -> int | None:
    """Return the milliseconds since 1970 of an HTTP date in one of its three forms."""
    if found := _IMF.fullmatch(text):
        day, month, year, *time = found.groups()
    elif found := _RFC850.fullmatch(text):
        day, month, short, *time = found.groups()
        year = _whole_year(int(short), now_ms)
    elif found := _ASCTIME.fullmatch(text):
        month, day, *time, year = found.groups()
    else:
        return None
    number = _MONTHS.index(month) // 3 + 1
    try:
        return parse_instant(f"{year}-{number:02}-{int(day):02}T{':'.join(time)}Z", "Retry-After")
    except BadInput:
        return None


def _whole_year(short: int, now_ms: int) -> str:
    """Return the year of two digits: not more than 50 years after this one."""
    from kfm.clock import rfc3339

    now = int(rfc3339(now_ms)[:4])
    year = now - now % 100 + short
    return f"{year - 100 if year > now + 50 else year:04}"
