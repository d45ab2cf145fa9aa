"""The settings of a Postgres server on which the durability of the state depends, and the verdicts on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.store.filesystem_check import CheckResult

if TYPE_CHECKING:
    from kfm.store.postgres.rows import PostgresRows

_SKEW_MS = 5000
_NAMES = ("server_version", "fsync", "full_page_writes", "synchronous_commit", "default_transaction_read_only")


def server_settings(stored: PostgresRows) -> dict[str, str]:
    """Return the settings in force, how far the server's clock is from this machine's, and whether the connection goes
    through a pooler."""
    from kfm.store.postgres.connection import Statement, as_number

    columns = ", ".join(f"current_setting('{name}')" for name in _NAMES)
    with stored.lock:
        before_ms = stored.clock.now_ms()
        row = stored.query(
            Statement(
                f"SELECT {columns}, pg_is_in_recovery()::text, pg_backend_pid()::bigint, "  # noqa: S608
                "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
            )
        )[0]
        here_ms = (before_ms + stored.clock.now_ms()) // 2
        found = {name: (value or b"").decode() for name, value in zip(_NAMES, row, strict=False)}
        in_recovery, process, now_ms = row[len(_NAMES) :]
        return {
            "postgres": found.pop("server_version").partition(" ")[0],
            **found,
            "standby": "yes" if in_recovery == b"true" else "no",
            "clock_ahead_ms": str(as_number(now_ms) - here_ms),
            # A pooler has a process number of its own. One that passes the server's on cannot be told from none.
            "pooler": "no" if as_number(process) == stored.link.process_id else "yes",
        }


def server_verdicts(settings: dict[str, str]) -> list[CheckResult]:
    """Return the results of the checks of these settings."""
    wanted = {
        "fsync": "a power cut may damage the whole state: set `fsync = on` at the server",
        "full_page_writes": "a power cut may damage pages: set `full_page_writes = on` at the server",
    }
    commits = settings["synchronous_commit"]
    ahead_ms = int(settings["clock_ahead_ms"])
    is_skewed = abs(ahead_ms) > _SKEW_MS
    return [
        _verdict("version", int(settings["postgres"].partition(".")[0]) >= 13, settings["postgres"], "upgrade to 13"),
        *(_verdict(name, settings[name] == "on", settings[name], why) for name, why in wanted.items()),
        CheckResult(
            check="postgres.synchronous_commit",
            ok=True,
            found=commits,
            why="KFM turns it on for every commit that it acknowledges" if commits == "off" else "",
        ),
        _verdict("standby", settings["standby"] == "no", settings["standby"], "name the primary server in `state`"),
        _verdict(
            "read_only",
            settings["default_transaction_read_only"] == "off",
            settings["default_transaction_read_only"],
            "this user or server takes no writes: set `default_transaction_read_only = off`",
        ),
        CheckResult(
            check="postgres.clock",
            ok=True,
            found=f"{abs(ahead_ms)} ms {'ahead' if ahead_ms >= 0 else 'behind'}",
            why="leases use the server's clock, other times this machine's: synchronise both" if is_skewed else "",
        ),
        CheckResult(check="postgres.pooler", ok=True, found=settings["pooler"]),
    ]


def _verdict(name: str, ok: bool, found: str, why: str) -> CheckResult:
    return CheckResult(check=f"postgres.{name}", ok=ok, found=found, why="" if ok else why)
