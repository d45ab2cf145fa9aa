"""pgbouncer in transaction mode in front of the shared cluster: each transaction may get another server process."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.policy.tools import Absent
from tests.servers import postgres

_running: dict[int, int] = {}  # port of the pooler, by that of the server


def pooled(cluster: postgres.Cluster) -> int:
    """The port of a pooler in front of this cluster, which this process starts once."""
    if cluster.port not in _running:
        _running[cluster.port] = _start(cluster)
    return _running[cluster.port]


def _start(cluster: postgres.Cluster) -> int:
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise Absent("no pgbouncer on this machine: apt-get install pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="kfm-pgbouncer-"))
    port = postgres.free_port()
    users, settings = folder / "users", folder / "pgbouncer.ini"
    users.write_text(f'"{postgres.USER}" "{postgres.PASSWORD}"\n')
    settings.write_text(
        f"[databases]\npostgres = host=127.0.0.1 port={cluster.port}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = scram-sha-256\nauth_file = {users}\npool_mode = transaction\n"
        f"default_pool_size = 3\nserver_round_robin = 1\nlogfile = {folder / 'log'}\n"
    )
    postgres.own(folder, users, settings)
    process = subprocess.Popen(
        postgres.as_postgres([program, str(settings)]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
    )
    atexit.register(_stop, process, folder, os.getpid())
    for _ in range(500):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return port
        time.sleep(0.02)
    raise AssertionError((folder / "log").read_text())


def _stop(process: subprocess.Popen[bytes], folder: Path, pid: int) -> None:
    if pid == os.getpid():
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
