"""Reads the energy counters that a processor keeps: RAPL, in /sys/class/powercap.

Only the domains of whole packages count. Cores and memory controllers are parts of a package, `psys` contains the
packages, and `intel-rapl-mmio` shows them a second time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from kfm.clock import SystemClock

# The power of one package is less. A counter that could have wrapped around twice since the last reading says nothing,
# and neither does one that seems to have gone further than that: it was reset.
MOST_WATTS = 1000
SLACK_S = 0.1  # a counter moves in steps
IDLE = "/proc/uptime"
_DOMAIN = re.compile(r"intel-rapl:[0-9]+\Z")
_PACKAGE = re.compile(r"package-[0-9]+(-die-[0-9]+)?\Z")
_MOST = 64  # bytes of a counter


class Package:
    """The counter of one package."""

    def __init__(self, folder: str) -> None:
        self.range_uj = _number(_text(os.path.join(folder, "max_energy_range_uj")))
        if self.range_uj <= 0:
            raise ValueError
        self._fd = os.open(os.path.join(folder, "energy_uj"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.last_uj = self._read()
        except BaseException:
            os.close(self._fd)
            raise

    def used_uj(self) -> int:
        """Return the energy since the last reading. A counter that is lower than it was has begun again."""
        now = self._read()
        before, self.last_uj = self.last_uj, now
        return now - before if now >= before else now - before + self.range_uj

    def _read(self) -> int:
        return _number(os.pread(self._fd, _MOST, 0))

    def close(self) -> None:
        os.close(self._fd)


class Rapl:
    """The counters of all packages of this machine, and the share of this process in them."""

    def __init__(
        self,
        packages: list[Package],
        *,
        monotonic: Callable[[], float] | None = None,
        idle_s: Callable[[], float] | None = None,
        cores: int = 0,
    ) -> None:
        self.packages = packages
        self.problem = ""  # why it can no longer be read
        self._monotonic, self._idle_s = monotonic or SystemClock().monotonic, idle_s or machine_idle_s
        self._cores = cores or os.cpu_count() or 1
        self._longest_s = min(each.range_uj for each in packages) / 1e6 / MOST_WATTS
        self._at, self._idle, self._cpu = self._monotonic(), self._idle_s(), 0.0

    def age_s(self) -> float:
        """Return the time since the last reading."""
        return self._monotonic() - self._at

    def step(self, cpu_s: float) -> float | None:
        """Return the joules of this process since the last reading, by its processor time `cpu_s` so far: its share of
        what all processes used. None if that cannot be known; `problem` says why if it never can again."""
        if self.problem:
            return None
        try:
            used_j = sum(each.used_uj() for each in self.packages) / 1e6
            idle = self._idle_s()
        except (OSError, ValueError) as problem:
            self.problem = reason(problem)
            self.close()
            return None
        now = self._monotonic()
        elapsed, idled, own = now - self._at, idle - self._idle, max(0.0, cpu_s - self._cpu)
        self._at, self._idle, self._cpu = now, idle, cpu_s
        if elapsed > self._longest_s or used_j > len(self.packages) * MOST_WATTS * (elapsed + SLACK_S):
            return None
        # The kernel counts idle time in hundredths of a second, so a short interval may seem too idle or too busy.
        busy = max(own, min(self._cores * elapsed, self._cores * elapsed - idled))
        return used_j * own / busy if busy > 0 else 0.0

    def close(self) -> None:
        for each in self.packages:
            each.close()
        self.packages = []


def open_rapl(folder: str) -> Rapl | str:
    """Return the counters below a folder, or why they cannot be read."""
    packages: list[Package] = []
    try:
        for name in sorted(os.listdir(folder)):
            if _DOMAIN.match(name) and _PACKAGE.match(_text(os.path.join(folder, name, "name")).decode().strip()):
                packages.append(Package(os.path.join(folder, name)))
        if not packages:
            return "it has no counter of a processor package"
        return Rapl(packages)
    except (OSError, ValueError) as problem:
        for each in packages:
            each.close()
        return reason(problem)


def reason(problem: OSError | ValueError) -> str:
    """Return why counters cannot be read, in words that quote no file."""
    if isinstance(problem, PermissionError):
        return "permission denied"
    if isinstance(problem, OSError):
        return (problem.strerror or "it cannot be read").lower()
    return "it is not a number"


def machine_idle_s() -> float:
    """Return the seconds that the processors of this machine were idle so far, all together."""
    with open(IDLE, "rb") as file:
        words = file.read(200).split()
    if len(words) != 2:
        raise ValueError
    return float(words[1])


def _text(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_MOST)


def _number(body: bytes) -> int:
    if not re.fullmatch(rb"[0-9]{1,20}\s*", body):
        raise ValueError
    return int(body)
