"""The only module that reads the time. All other code receives a Clock."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import Protocol

from kfm.errors import BadInput

_TWO = "([0-9]{2})"
_RFC3339 = rf"([0-9]{{4}})-{_TWO}-{_TWO}[Tt ]{_TWO}:{_TWO}:{_TWO}(?:\.([0-9]{{1,9}}))?(?:[Zz]|([+-]){_TWO}:{_TWO})"


class Clock(Protocol):
    def now_ms(self) -> int: ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class FixedClock:
    """The time stands still until a caller advances it: for reproducible artifacts and for tests."""

    def __init__(self, now_ms: int = 1_767_225_600_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.advance(round(seconds * 1000))

    def advance(self, ms: int) -> None:
        self._now_ms += ms


class StoppedClock(FixedClock):
    """The date stands still, but durations are real: the engine divides steps among threads by how long they take."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def processor_seconds() -> float:
    """Return the processor time of this process so far: of all its threads, and of the children that have ended."""
    _, _, user, system, _ = os.times()  # these two of children
    return time.process_time() + user + system


def rfc3339(ms: int) -> str:
    """Return the instant in UTC with exactly three digits of milliseconds, so that text order is time order."""
    return f"{_to_the_second(ms // 1000)}.{ms % 1000:03d}Z"


@lru_cache(maxsize=64)
def _to_the_second(epoch: int) -> str:
    days, seconds = divmod(epoch, 86_400)
    year, month, day = _civil(days)
    return f"{year:04d}-{month:02d}-{day:02d}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _civil(days: int) -> tuple[int, int, int]:
    # Howard Hinnant's days-to-civil algorithm: importing datetime would slow the cold start.
    days += 719_468
    era, doe = divmod(days, 146_097)
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = mp + 3 if mp < 10 else mp - 9
    return yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) // 5 + 1


def from_environment() -> Clock:
    """Return a clock that KFM_NOW (RFC 3339 or epoch seconds) or SOURCE_DATE_EPOCH stops, or else the system clock."""
    for name in ("KFM_NOW", "SOURCE_DATE_EPOCH"):
        text = os.environ.get(name)
        if text:
            return StoppedClock(parse_instant(text, name))
    return SystemClock()


def parse_instant(text: str, where: str) -> int:
    """Return the milliseconds since 1970 of an RFC 3339 text or of a number of seconds; finer digits are cut off.

    Raise BadInput, naming `where`, if the text is neither.
    """
    if text.isascii() and text.isdigit() and len(text) <= 11:
        return int(text) * 1000
    found = _ours(text) if len(text) == 24 and text[19] == "." and text[23] == "Z" else _instant(text)
    if found is None:
        raise BadInput(
            f"{where} is not an instant",
            hint="give RFC 3339 with a zone (2026-01-01T00:00:00Z) or seconds since 1970",
        )
    return found


def _ours(text: str) -> int | None:
    """Parse a text that `rfc3339` wrote. The second is cached, because most texts share it."""
    second, ms = _of_the_second(text[:19]), text[20:23]
    return second + int(ms) if second is not None and ms.isascii() and ms.isdigit() else _instant(text)


@lru_cache(maxsize=64)
def _of_the_second(text: str) -> int | None:
    return _instant(text + "Z")


def _instant(text: str) -> int | None:
    # Not datetime.fromisoformat: each Python version reads other spellings of ISO 8601, and other languages read fewer.
    import re

    found = re.fullmatch(_RFC3339, text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    hours, minutes = int(found[9] or 0), int(found[10] or 0)
    days = _days_before(year, month, day) if year and 1 <= month <= 12 else 0
    if _civil(days) != (year, month, day) or max(hour, hours) > 23 or max(minute, second, minutes) > 59:
        return None
    away = (hours * 60 + minutes) * (-1 if found[8] == "-" else 1)
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second - away * 60
    return seconds * 1000 + int((found[7] or "").ljust(3, "0")[:3])


def _days_before(year: int, month: int, day: int) -> int:
    era, yoe = divmod(year - (month <= 2), 400)
    doy = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719_468
