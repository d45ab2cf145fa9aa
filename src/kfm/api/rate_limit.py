"""How many requests each caller may make in a minute. Nothing is stored: a server that starts anew counts anew."""

from __future__ import annotations

import ipaddress
import math
import threading
from collections import OrderedDict
from collections.abc import Callable

from kfm.clock import SystemClock

MINUTE = 60.0
_ROUNDING = 1e-6  # seconds
MOST_CALLERS = 20_000  # that are counted at a time; the one that asked longest ago is forgotten first


class RateLimit:
    """Counts requests by caller. A caller may use a minute's requests at once, and then waits for each further one."""

    def __init__(self, *, monotonic: Callable[[], float] | None = None, most: int = MOST_CALLERS) -> None:
        self._monotonic = monotonic or SystemClock().monotonic
        self._most = most
        self._paid_until: OrderedDict[str, float] = OrderedDict()
        self._own = threading.Lock()

    def wait(self, caller: str, per_minute: int) -> int:
        """Count one request. Return 0 if it may be answered, else the seconds after which the caller may ask again."""
        now, each = self._monotonic(), MINUTE / per_minute
        with self._own:
            until = max(self._paid_until.get(caller, now), now) + each
            over = until - now - MINUTE
            if over > _ROUNDING:
                return max(1, math.ceil(over - _ROUNDING))
            self._paid_until[caller] = until
            self._paid_until.move_to_end(caller)
            while len(self._paid_until) > self._most:
                self._paid_until.popitem(last=False)
            return 0

    @property
    def counted(self) -> int:
        """How many callers are counted now."""
        return len(self._paid_until)


def network_of(address: str) -> str:
    """Return what counts as one caller: an IPv4 address, or the /64 network of an IPv6 one."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped) if mapped is not None else str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
