"""Installs the peers we measure against, each into an environment of its own, and says which are there.

    python bench/peers.py install [NAME…]
    python bench/peers.py list

A peer that does not install is absent, with a reason; nothing fails because of it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOM = HERE / ".peers"
PINS = HERE / "peers-requirements"
NAMES = ("dbos", "restate", "luigi", "prefect", "dagster", "polars", "duckdb")
TITLES = {
    "dbos": "DBOS", "restate": "Restate", "luigi": "Luigi", "prefect": "Prefect", "dagster": "Dagster",
    "polars": "Polars", "duckdb": "DuckDB",
}  # fmt: skip
PACKAGES = {"restate": "restate-sdk"}
QUIET = {"SCARF_ANALYTICS": "false", "DO_NOT_TRACK": "1", "NO_UPDATE_NOTIFIER": "1"}


def python_of(name: str) -> Path:
    return ROOM / name / "bin" / "python"


def restate_server() -> Path:
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "none")
    package = f"restate-server-{sys.platform}-{machine}"
    return ROOM / "restate-npm" / "node_modules" / "@restatedev" / package / "bin" / "restate-server"


def present(name: str) -> bool:
    """Installed from exactly the pins that are here now."""
    stamp = ROOM / f"{name}.installed"
    return stamp.exists() and stamp.read_text() == _pins(name) and (name != "restate" or restate_server().exists())


def version(name: str) -> str:
    """As pinned, e.g. 3.3.0; for Restate that of the server."""
    if name == "restate":
        return (PINS / "restate.npm").read_text().strip().rpartition("@")[2]
    package = PACKAGES.get(name, name)
    for line in (PINS / f"{name}.txt").read_text().splitlines():
        if line.startswith(f"{package}=="):
            return line.partition("==")[2]
    return ""


def install(name: str) -> str:
    """Empty if it is there now, else why not."""
    if present(name):
        return ""
    ROOM.mkdir(exist_ok=True)
    home = ROOM / name
    shutil.rmtree(home, ignore_errors=True)
    commands: list[list[str]] = [
        [sys.executable, "-m", "venv", str(home)],
        [str(python_of(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
         "--only-binary", ":all:", "--requirement", str(PINS / f"{name}.txt")],
    ]  # fmt: skip
    if name == "restate":
        npm = shutil.which("npm")
        if npm is None:
            return "no npm to install its server with"
        folder = ROOM / "restate-npm"
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n')
        pin = (PINS / "restate.npm").read_text().strip()
        commands.append(
            [npm, "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", "--silent", pin]
        )
    for command in commands:
        try:
            done = subprocess.run(
                command, env={**os.environ, **QUIET}, capture_output=True, text=True, check=False, timeout=900
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            return type(problem).__name__
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            return f"{Path(command[0]).name} exited with {done.returncode}: {last[:160]}"
    if name == "restate" and not restate_server().exists():
        return "its package has no server for this machine"
    (ROOM / f"{name}.installed").write_text(_pins(name))
    return ""


def _pins(name: str) -> str:
    text = "".join(path.read_text() for path in sorted(PINS.glob(f"{name}.*")))
    return hashlib.sha256((text + sys.version).encode()).hexdigest()


def main(arguments: list[str]) -> int:
    verb, names = (arguments[0], arguments[1:] or NAMES) if arguments else ("list", NAMES)
    if verb not in ("install", "list") or any(name not in NAMES for name in names):
        print(__doc__, file=sys.stderr)
        return 2
    for name in names:
        if verb == "install" and not present(name):
            print(f"installing {TITLES[name]} {version(name)} …", file=sys.stderr, flush=True)
            why = install(name)
            if why:
                print(f"{TITLES[name]} is absent: {why}", file=sys.stderr)
        print(f"{name}\t{version(name)}\t{'installed' if present(name) else 'absent'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
