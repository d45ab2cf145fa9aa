"""Who holds a lease or a scratch file, and is that process still there?"""

from __future__ import annotations

import os
from functools import cache

from kfm.model.records import Lease


def this_process() -> str:
    """host:pid:start:namespace:boot, so that a dead holder on this host is recognised, and neither a recycled pid nor
    one that means another process to whoever looks."""
    return _names_of_self(os.getpid())


@cache
def _names_of_self(pid: int) -> str:
    return f"{os.uname().nodename}:{pid}:{_started(pid)}:{_namespace()}:{_boot()}"


@cache
def _namespace() -> str:
    """Whose numbers of processes are ours: a container may have its own."""
    try:
        return "".join(filter(str.isdigit, os.readlink("/proc/self/ns/pid")))
    except OSError:
        return ""


@cache
def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(8)
    except OSError:
        return ""


os.register_at_fork(after_in_child=_names_of_self.cache_clear)  # a forked child is another process


def _started(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # A killed process that nobody has waited for is still listed: as good as gone.
        return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
    except (OSError, IndexError):
        return ""


def holder_is_dead(holder: str) -> bool:
    """True only if it is certain: same host, and that very process is gone."""
    return _is_alive(holder) is False


def is_held(lease: Lease, now_ms: int) -> bool:
    """Its time is not over, and its holder may be at work. One that runs longer than it was given for was written
    before the clock was set back: it counts only if its holder is seen."""
    if lease.expires_ms <= now_ms:
        return False
    alive = _is_alive(lease.holder)
    too_long = lease.ttl_ms and lease.expires_ms - now_ms > lease.ttl_ms
    return bool(alive) if too_long else alive is not False


def _is_alive(holder: str) -> bool | None:
    """None: it cannot be known from here."""
    host, pid, start, namespace, boot, *_ = *holder.split(":"), "", "", "", ""
    if host != os.uname().nodename or not pid.isdigit() or not start:
        return None
    if boot and boot != _boot():
        return False if _boot() else None  # the machine was started anew
    if namespace and namespace != _namespace():
        return None
    return _started(int(pid)) == start
