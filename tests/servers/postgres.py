"""A private Postgres cluster from Debian's packages, on a free port of this machine.

The processes of one test run share one cluster: the first that needs it starts it, the last that ends stops it. A test
gets a schema of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn

import pytest

from tests.policy.tools import Absent

_is_child = "TESTED_RUN" in os.environ  # started by a test: the test's own process stops the servers
RUN = os.environ.setdefault("TESTED_RUN", os.environ.get("PYTEST_XDIST_TESTRUNUID", "")[:16] or str(os.getpid()))
USER, PASSWORD, DATABASE = "kfm", "a password of tests", "kfm"
_FAST = ("fsync=off", "synchronous_commit=on", "full_page_writes=off")
_SAFE = ("fsync=on", "synchronous_commit=on", "full_page_writes=on")
_numbers = itertools.count()


def programs() -> Path:
    """The folder of the server's programs. Raises Absent if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise Absent("no Postgres server on this machine: apt-get install postgresql")
    return Path(on_path).parent


def as_postgres(command: list[str]) -> list[str]:
    """The server refuses to run as root."""
    return (
        ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command] if not os.getuid() else command
    )


def own(*paths: Path) -> None:
    """Give files to the server's user."""
    for path in paths if not os.getuid() else ():
        shutil.chown(path, "postgres", "postgres")


def free_port() -> int:
    """Return a port for a server that is started later. It is not one that the system gives to outgoing connections: a
    client that tries again and again while the server is down would be given it some day, and be connected to itself.
    Nor is it one of SeaweedFS, or the one that hypothesis, which seeds `random`, lets every process draw."""
    while True:
        with socket.socket() as one, contextlib.suppress(OSError):
            port = random.SystemRandom().randrange(22_700, 30_000)
            one.bind(("127.0.0.1", port))
            return port


class Cluster:
    """One server with its own data folder."""

    def __init__(self, folder: Path, *, port: int = 0, fsync: bool = False, settings: tuple[str, ...] = ()) -> None:
        self.bin = programs()
        self.folder = folder
        self.data = folder / "data"
        self.port = port or free_port()
        self._settings = (*(_SAFE if fsync else _FAST), *settings)

    def make(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        secret = self.folder / "password"
        secret.write_text(PASSWORD + "\n")
        own(self.folder, secret)
        command = [str(self.bin / "initdb"), "-D", str(self.data), "-U", USER, "-N", "-E", "UTF8", "--locale=C"]
        self._run([*command, "-A", "scram-sha-256", f"--pwfile={secret}"])
        lines = [
            "listen_addresses = '127.0.0.1'",
            f"port = {self.port}",
            "unix_socket_directories = ''",
            "shared_buffers = 32MB",
            "max_connections = 60",
            "max_wal_size = 256MB",
            "autovacuum_naptime = 10s",
            "log_min_messages = fatal",
            "restart_after_crash = on",
            *(setting.replace("=", " = ", 1) for setting in self._settings),
        ]
        with (self.data / "postgresql.conf").open("a") as file:
            file.write("\n".join(lines) + "\n")

    def copy_of(self, source: str) -> None:
        """Make this the standby of another server."""
        self._run([str(self.bin / "pg_basebackup"), "-D", str(self.data), "-R", "-c", "fast", "-d", source])
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"port = {self.port}\n")

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(as_postgres(command), capture_output=True, text=True, timeout=120, check=False, cwd="/")
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    def control(self, *words: str) -> None:
        self._run([str(self.bin / "pg_ctl"), "-D", str(self.data), "-s", *words])

    def start(self) -> None:
        self.control("start", "-w", "-t", "60", "-l", str(self.folder / "log"))

    def stop(self, mode: str = "immediate") -> None:
        self.control("stop", "-m", mode, "-w", "-t", "60")

    def restart(self, mode: str = "immediate") -> None:
        self.stop(mode)
        self.start()

    @property
    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split("\n")[0])

    def kill(self) -> None:
        """SIGKILL of the postmaster. Its children notice and end; only then may another one start."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        while self._lives():
            time.sleep(0.005)
        (self.data / "postmaster.pid").unlink()  # if nobody reaps the dead process, the next one believes it alive

    def _lives(self) -> bool:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", self.port)) == 0:
                return True
        shared = subprocess.run(
            ["pgrep", "-f", f"postgres: .*|{self.data}"], capture_output=True, text=True, check=False
        )  # the children carry no folder in their title: ask for their working directory
        for pid in shared.stdout.split():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/cwd") == str(self.data):
                    return True
        return False

    def dsn(self, **more: str | int) -> dict[str, str | int]:
        return {
            "host": "127.0.0.1", "port": self.port, "dbname": "postgres", "user": USER, "password": PASSWORD, **more
        }  # fmt: skip

    def execute(self, statement: str, **more: str | int) -> list[tuple[object, ...]]:
        """The rows of a statement, over a connection of its own."""
        import psycopg

        with psycopg.connect(autocommit=True, **self.dsn(**more)) as connection:  # type: ignore[arg-type]
            cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []


_FOLDER = Path(tempfile.gettempdir(), f"kfm-postgres-{RUN}")
_shared: Cluster | None = None
_users: IO[str] | None = None


def shared() -> Cluster:
    """The cluster of this test run, without fsync. It is stopped when the last process of the run ends."""
    global _shared
    if _shared is None:
        _shared = _join()
    return _shared


def _join() -> Cluster:
    """Start the cluster of this test run, or use the one that another process of it started."""
    global _users
    programs()
    _FOLDER.mkdir(exist_ok=True)
    _users = (_FOLDER / "users").open("a")
    fcntl.flock(_users, fcntl.LOCK_SH)  # until this process ends
    with (_FOLDER / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = Cluster(_FOLDER / "cluster")
        port = _FOLDER / "port"
        if port.exists():
            cluster.port = int(port.read_text())
        else:
            cluster.make()
            cluster.start()
            port.write_text(str(cluster.port))
    return cluster


def _leave(pid: int) -> None:
    """Stop the cluster if no other process of this test run uses it."""
    if pid != os.getpid() or not _FOLDER.exists():
        return
    with contextlib.suppress(OSError, AssertionError), (_FOLDER / "users").open("a") as users:
        if _users is not None:
            _users.close()
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        Cluster(_FOLDER / "cluster").stop()
        shutil.rmtree(_FOLDER, ignore_errors=True)


if not _is_child:
    atexit.register(_leave, os.getpid())


def new_schema() -> str:
    return f"t{os.getpid()}_{next(_numbers)}"


def place(path: Path) -> tuple[dict[str, str | int], str]:
    """The server and the schema for tests of a path, the same ones every time, also in another process."""
    note = path.with_name(path.name + ".postgres")
    note.parent.mkdir(parents=True, exist_ok=True)
    with note.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = file.read().split()
        if known:
            return Cluster(path, port=int(known[0])).dsn(), known[1]
        try:
            cluster = shared()
        except Absent as problem:
            absent(problem)
        file.write(f"{cluster.port} {new_schema()}")
        file.seek(0)
        return cluster.dsn(), file.read().split()[1]


def absent(problem: Absent) -> NoReturn:
    """A missing server is a failure in CI, and a skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(str(problem))
    pytest.skip(str(problem))


@contextlib.contextmanager
def private(*, fsync: bool = True, settings: tuple[str, ...] = ()) -> Iterator[Cluster]:
    """A cluster of one test, which may be killed. The folders of tests are closed to the server's user."""
    folder = Path(tempfile.mkdtemp(prefix="kfm-postgres-"))
    try:
        cluster = Cluster(folder, fsync=fsync, settings=settings)
    except Absent as problem:
        absent(problem)
    cluster.make()
    cluster.start()
    try:
        yield cluster
    finally:
        with contextlib.suppress(AssertionError):
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
