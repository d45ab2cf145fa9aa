"""The identity of a process that holds a lease or a scratch file, and whether it is still alive."""

from __future__ import annotations

import os
from functools import cache

from kfm.model.records import Lease


def this_process() -> str:
    """Return host:pid:start:namespace:boot. It identifies a dead holder on this host even if its pid was reused or
    means another process in another container."""
    return _names_of_self(os.getpid())


@cache
def _names_of_self(pid: int) -> str:
    return f"{os.uname().nodename}:{pid}:{_started(pid)}:{_namespace()}:{_boot()}"


@cache
def _namespace() -> str:
    """Return the id of this process's pid namespace: a container may have its own process ids."""
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


os.register_at_fork(after_in_child=_names_of_self.cache_clear)  # a forked child has another identity


def _started(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # A killed process whose parent has not waited for it is still listed; it counts as dead.
        return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
    except (OSError, IndexError):
        return ""


def holder_is_dead(holder: str) -> bool:
    """Return True only if the process that holds the lease is certainly dead: it ran on this host, and that exact
    process is gone."""
    return _is_alive(holder) is False


def is_held(lease: Lease, now_ms: int) -> bool:
    """Return whether the lease has not expired and its holder may be alive. If more time is left than its duration, the
    clock was set back: then it counts only if its holder is certainly alive."""
    if lease.expires_ms <= now_ms:
        return False
    alive = _is_alive(lease.holder)
    too_long = lease.ttl_ms and lease.expires_ms - now_ms > lease.ttl_ms
    return bool(alive) if too_long else alive is not False


def _is_alive(holder: str) -> bool | None:
    """Return whether the process that holds a lease is alive; None if this process cannot know."""
    host, pid, start, namespace, boot, *_ = *holder.split(":"), "", "", "", ""
    if host != os.uname().nodename or not pid.isdigit() or not start:
        return None
    if boot and boot != _boot():
        return False if _boot() else None  # the machine was restarted
    if namespace and namespace != _namespace():
        return None
    return _started(int(pid)) == start
