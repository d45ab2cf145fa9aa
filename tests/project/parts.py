"""The long suite in named parts, each of at most some 20 minutes on two cores: `make test-long PART=kills-1`.

A part runs every test of its files, the long ones too. A file belongs to the part that names it, or else to the part
that names the nearest folder above it. A part that would take too long is cut into shares of about equal size. Each
run of a part writes what it tried into build/promises; `make promises` takes it into docs/promises.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = "long or not long"

# Part: in how many shares it is cut, and which files and folders it runs. docs/promises.md says how long each one took.
TABLE: dict[str, tuple[int, tuple[str, ...]]] = {
    "kills": (2, ("tests/crash/test_kills.py",)),
    "faults": (6, ("tests/crash/test_disk_faults.py",)),
    "crash": (1, ("tests/crash",)),
    "power": (3, ("tests/power",)),
    "damage": (2, ("tests/damage",)),
    "store": (1, ("tests/store", "tests/golden", "tests/crash/test_migrations.py")),
    "engine": (2, ("tests/engine",)),
    "determinism": (1, ("tests/engine/test_determinism.py", "tests/engine/test_purity.py", "tests/testing")),
    "partitions": (2, ("tests/engine/test_partition_kills.py", "tests/app/backfills")),
    "node": (3, ("tests/node",)),
    "sources": (1, ("tests/sources", "tests/api", "tests/sinks/github")),
    "contract": (
        2,
        (
            "tests/api/test_schemathesis.py",
            "tests/api/test_hostile_requests.py",
            "tests/api/test_absent_or_forbidden.py",
        ),
    ),
    "formats": (1, ("tests/validation",)),
    "masking": (1, ("tests/masking", "tests/engine/protected", "tests/app/governance")),
    "attacker": (1, ("tests/attacker",)),
    "ledger": (1, ("tests/crypto",)),
    "policy": (1, ("tests/policy", "tests/app/serving")),
    "jobs": (2, ("tests/app/jobs", "tests/app/derived_jobs")),
    "servers": (1, ("tests/app/servers", "tests/sinks/test_publishers.py", "tests/sinks/test_file_trees.py")),
    "on-servers": (
        5,
        (
            "tests/crash/test_on_servers.py",
            "tests/engine/test_rollback_on_servers.py",
            "tests/engine/test_dry_run_on_servers.py",
        ),
    ),
    "workers": (1, ("tests/workers",)),
    "queue": (1, ("tests/app/jobs_queue",)),
    "retries": (1, ("tests/retries",)),
    "move": (1, ("tests/app/move", "tests/app/backup", "tests/app/interventions", "tests/app/gc")),
    "objectives": (1, ("tests/app/objectives", "tests/app/energy", "tests/app/notices")),
    "scheduling": (2, ("tests/scheduling", "tests/app/daemon", "tests/app/dependencies")),
    "previews": (1, ("tests/app/previews", "tests/app/discovery")),
    "graph": (
        1,
        ("tests/sinks/graph", "tests/sinks/otel", "tests/delivery", "tests/projections", "tests/app/provenance"),
    ),
    "commands": (1, ("tests/cli", "tests/client")),
    "browser": (1, ("tests/browser",)),
    "runners": (1, ("tests/app/runners",)),
    "deploy": (1, ("tests/deploy",)),
    "records": (1, ("tests/model", "tests/parsing", "tests/config", "tests/conformance", "tests/telemetry")),
    "project": (1, ("tests/project",)),
    "seeded": (4, ("tests/seeded",)),
}


class Part(NamedTuple):
    name: str
    family: str
    share: int  # from 1
    shares: int

    def holds(self, nodeid: str) -> bool:
        """True if this test is in this share: the same tests at every commit, whatever is added."""
        return zlib.crc32(nodeid.encode()) % self.shares == self.share - 1


PARTS = {
    part.name: part
    for family, (shares, _) in TABLE.items()
    for share in range(1, shares + 1)
    for part in [Part(family if shares == 1 else f"{family}-{share}", family, share, shares)]
}


def family_of(file: str) -> str | None:
    """The family of parts that runs this test file: the one that names the longest path to it."""
    named = [(path, family) for family, (_, paths) in TABLE.items() for path in paths]
    return max(((p, f) for p, f in named if file == p or file.startswith(p + "/")), default=(None, None))[1]


def parts_of(file: str) -> list[str]:
    """The names of the parts that run tests of this file."""
    family = family_of(file)
    return [part.name for part in PARTS.values() if part.family == family]


def test_files() -> list[str]:
    """Every test file there is now."""
    return sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("test_*.py"))


def files_of(part: Part) -> list[str]:
    """The test files of which this part runs tests."""
    return [file for file in test_files() if family_of(file) == part.family]


def chosen(wanted: Iterable[str]) -> list[Part]:
    """The parts of these names; the name of a family stands for its shares. Raises ValueError for an unknown name."""
    found: list[Part] = []
    for name in wanted:
        parts = [part for part in PARTS.values() if name in (part.name, part.family)]
        if not parts:
            raise ValueError(f"there is no part {name!r}; the parts are: {', '.join(PARTS)}")
        found += parts
    return found or list(PARTS.values())


def command(part: Part, workers: int) -> list[str]:
    """The command line that runs one part."""
    how = ["-n", str(workers), "--dist", "loadgroup", "-m", EVERYTHING, "--part", part.name]
    return [sys.executable, "-m", "pytest", *how, *files_of(part)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make test-long", description="Run parts of the long suite, or list them.")
    parser.add_argument("part", nargs="*", help="a part, or a family of parts; all of them if none is named")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="list the parts and run nothing")
    given = parser.parse_args(arguments)
    try:
        parts = chosen(given.part)
    except ValueError as problem:
        print(f"make: {problem}", file=sys.stderr)
        return 2
    if given.list or not given.part:
        for part in parts:
            print(f"  {part.name:<14}{' '.join(TABLE[part.family][1])}")
    if given.list:
        return 0
    failed = []
    for part in parts:
        print(f"part {part.name}", flush=True)
        if subprocess.run(command(part, given.workers), cwd=ROOT, check=False).returncode:
            failed.append(part.name)
    if failed:
        print(f"make: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
