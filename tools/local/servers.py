"""Postgres, Redis and SeaweedFS as processes of this machine, on 127.0.0.1, with their data in one folder.

Each outlives the command that started it, and is found again by the file of its process id. No password is in the
arguments of a process: everyone on the machine can read those.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.policy.tools import Absent
from tests.servers import postgres, seaweed_program
from tests.servers.seaweed import signed

PATIENCE_S = 60.0
BUCKETS = ("kfm-objects", "kfm-public")
PACKAGES = {"postgres": "postgresql", "redis": "redis-server", "setpriv": "util-linux"}


class Trouble(Exception):
    """Why a server cannot be started, and what to do about it."""


class Ports(NamedTuple):
    """Where the servers listen. SeaweedFS also takes the three ports after its own, and those 10,000 above: all of them
    below those that the system gives to connections."""

    postgres: int = 25432
    redis: int = 26379
    s3: int = 21333


class Site(NamedTuple):
    """The folder of the installation, and its ports."""

    folder: Path
    ports: Ports

    def secret(self, name: str) -> str:
        return (self.folder / "secrets" / name).read_text().strip()


def make_secrets(folder: Path) -> None:
    """Write passwords that nobody chose into files for this user alone. Those that are there stay."""
    place = folder / "secrets"
    place.mkdir(mode=0o700, exist_ok=True)
    for name in ("postgres", "redis", "s3-access", "s3-secret"):
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(place / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(20) + "\n")


def private(path: Path, text: str) -> None:
    """Write a file for this user alone."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def answers(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(1)
        return one.connect_ex(("127.0.0.1", port)) == 0


def need(program: str, server: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise Trouble(f"there is no {program} on this machine: apt-get install {PACKAGES[server]}")
    return found


def need_free(port: int, server: str) -> None:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            is_taken = True
        else:
            is_taken = answers(port)  # by a program that listens everywhere
    if is_taken:
        raise Trouble(f"another program listens on port {port}: choose another with LOCAL='--{server}-port N'")


# -- processes


def pid_of(site: Site, server: str) -> int:
    """The process of a server that was started here, or 0 if it runs no more."""
    note = site.folder / f"{server}.pid"
    try:
        pid, started = note.read_text().split()
        return int(pid) if _started(int(pid)) == started else 0
    except (OSError, ValueError):
        return 0


def _started(pid: int) -> str:
    """When a process began, so that a number that was given out again is not taken for it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _launch(site: Site, server: str, command: list[str], is_ready: Callable[[], bool]) -> None:
    with (site.folder / f"{server}.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=site.folder, start_new_session=True
        )
    (site.folder / f"{server}.pid").write_text(f"{process.pid} {_started(process.pid)}\n")
    until = time.monotonic() + PATIENCE_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise Trouble(f"{server} did not start: see {site.folder / f'{server}.log'}")
        time.sleep(0.05)


def _end(site: Site, server: str) -> bool:
    """Stop a process. SeaweedFS is given less time: its volumes are safe at once, and the rest waits for nothing."""
    pid = pid_of(site, server)
    if not pid:
        return False
    os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + (5.0 if server == "s3" else PATIENCE_S)
    while pid_of(site, server):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    return True


# -- Postgres


def start_postgres(site: Site) -> bool:
    """Start it, and make its cluster the first time. False if it ran already."""
    try:
        programs = postgres.programs()
    except Absent as problem:
        raise Trouble(str(problem)) from None
    folder = site.folder / "postgres"
    cluster = folder / "data"
    if postgres_runs(site):
        return False
    need_free(site.ports.postgres, "postgres")
    folder.mkdir(exist_ok=True)
    own(folder)
    if not (cluster / "PG_VERSION").exists():
        note = folder / "password"
        private(note, site.secret("postgres") + "\n")
        own(note)
        words = ["-U", "kfm", "-E", "UTF8", "--locale=C", "-A", "scram-sha-256", f"--pwfile={note}"]
        as_server([str(programs / "initdb"), "-D", str(cluster), *words])
        note.unlink()
    options = f"-c listen_addresses=127.0.0.1 -c port={site.ports.postgres} -c unix_socket_directories=''"
    control = [str(programs / "pg_ctl"), "-D", str(cluster), "-s", "-w", "-t", str(int(PATIENCE_S))]
    as_server([*control, "-l", str(folder / "log"), "-o", options, "start"])
    _make_database(site)
    return True


def _make_database(site: Site) -> None:
    import psycopg

    where = {"host": "127.0.0.1", "port": site.ports.postgres, "user": "kfm", "password": site.secret("postgres")}
    with psycopg.connect(autocommit=True, dbname="postgres", **where) as connection:  # type: ignore[arg-type]
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'kfm'").fetchall():
            connection.execute("CREATE DATABASE kfm")


def postgres_runs(site: Site) -> bool:
    cluster = site.folder / "postgres" / "data"
    if not (cluster / "PG_VERSION").exists():
        return False
    done = subprocess.run(
        postgres_user([str(postgres.programs() / "pg_ctl"), "-D", str(cluster), "status"]),
        capture_output=True, check=False, cwd="/",
    )  # fmt: skip
    return done.returncode == 0


def stop_postgres(site: Site) -> bool:
    if not postgres_runs(site):
        return False
    cluster = site.folder / "postgres" / "data"
    as_server([str(postgres.programs() / "pg_ctl"), "-D", str(cluster), "-s", "-m", "fast", "-w", "stop"])
    return True


def own(path: Path) -> None:
    """Give a path to the user as whom the server runs: it refuses to be root."""
    if not os.getuid():
        shutil.chown(path, "postgres", "postgres")


def postgres_user(command: list[str]) -> list[str]:
    if os.getuid():
        return command
    return [need("setpriv", "setpriv"), "--reuid=postgres", "--regid=postgres", "--init-groups", *command]


def as_server(command: list[str]) -> None:
    done = subprocess.run(postgres_user(command), capture_output=True, text=True, check=False, cwd="/")
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()] or ["it said nothing"]
        raise Trouble(f"{Path(command[0]).name} failed: {said[-1].strip()}")


def reachable(site: Site) -> None:
    """Trouble if the folder lies where the user of Postgres cannot go."""
    if os.getuid():
        return
    looked = subprocess.run(postgres_user(["test", "-x", str(site.folder)]), capture_output=True, check=False, cwd="/")
    if looked.returncode:
        raise Trouble(
            f"the user postgres cannot reach {site.folder}: choose another with LOCAL='--folder /var/tmp/kfm-local'"
        )


# -- Redis


def start_redis(site: Site) -> bool:
    program = need("redis-server", "redis")
    if pid_of(site, "redis"):
        return False
    need_free(site.ports.redis, "redis")
    data = site.folder / "redis"
    data.mkdir(mode=0o700, exist_ok=True)
    lines = (
        f"port {site.ports.redis}", "bind 127.0.0.1", f"dir {data}", "appendonly yes", "maxmemory-policy noeviction",
        f"requirepass {site.secret('redis')}",
    )  # fmt: skip
    private(data / "redis.conf", "\n".join(lines) + "\n")
    _launch(site, "redis", [program, str(data / "redis.conf")], lambda: answers(site.ports.redis))
    return True


# -- SeaweedFS


def start_s3(site: Site) -> bool:
    try:
        weed = seaweed_program.fetched()
    except Absent as problem:
        raise Trouble(str(problem)) from None
    if pid_of(site, "s3"):
        return False
    first = site.ports.s3
    for port in (first, first + 10_000):
        for each in range(port, port + 4):
            need_free(each, "s3")
    data = site.folder / "s3"
    data.mkdir(mode=0o700, exist_ok=True)
    keys = {"accessKey": site.secret("s3-access"), "secretKey": site.secret("s3-secret")}
    identities = [{"name": "kfm", "credentials": [keys], "actions": ["Admin"]}]
    private(data / "s3.json", json.dumps({"identities": identities}))
    command = [
        str(weed), "server", f"-dir={data}", "-ip=127.0.0.1", "-s3", f"-s3.port={first}", f"-s3.config={data}/s3.json",
        f"-filer.port={first + 1}", f"-master.port={first + 2}", f"-volume.port={first + 3}",
        "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.preStopSeconds=0",
        "-master.volumeSizeLimitMB=256", "-volume.max=0",
    ]  # fmt: skip
    _launch(site, "s3", command, lambda: _has_buckets(site))
    return True


def _has_buckets(site: Site) -> bool:
    keys = {"access": site.secret("s3-access"), "secret": site.secret("s3-secret")}
    try:
        for bucket in BUCKETS:
            signed(f"http://127.0.0.1:{site.ports.s3}", f"/{bucket}", b"", **keys)
        signed(f"http://127.0.0.1:{site.ports.s3}", f"/{BUCKETS[0]}/.ready", b"ready", **keys)
    except urllib.error.HTTPError as problem:
        return problem.code == 409  # the bucket is there
    except OSError:
        return False
    return True


START: dict[str, Callable[[Site], bool]] = {"postgres": start_postgres, "redis": start_redis, "s3": start_s3}


def stop(site: Site, server: str) -> bool:
    """Stop a server; its data stays. False if it did not run."""
    return stop_postgres(site) if server == "postgres" else _end(site, server)
