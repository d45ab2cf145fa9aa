"""A Redis server of Debian on a free port of this machine, with everything that may happen to one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.abilities import lacking
from tests.servers.postgres import free_port


def redis_program() -> str:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        lacking("no redis-server and no valkey-server on this machine")
    return program


class RedisServer:
    """One server: its port stays the same over restarts."""

    def __init__(self, folder: Path, *, password: str = "", appendonly: bool = False) -> None:
        self._folder = folder
        self._password = password
        self._appendonly = appendonly
        self._program = redis_program()
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """The address as `queue:` takes it, without the password."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        settings = [
            f"port {self.port}", "bind 127.0.0.1", f"dir {self._folder}", 'save ""', "maxmemory-policy noeviction",
            f"appendonly {'yes' if self._appendonly else 'no'}", "appendfsync always", "enable-debug-command yes",
            *([f'requirepass "{self._password}"'] if self._password else []),
        ]  # fmt: skip
        config = self._folder / "redis.conf"  # not in the arguments: a password there would be seen by everyone
        config.write_text("\n".join(settings) + "\n", encoding="utf-8")
        self._process = subprocess.Popen([self._program, str(config)], stdout=subprocess.DEVNULL)
        for _ in range(500):
            with suppress(Exception):
                if self.client().info("server")["process_id"] == self._process.pid:  # and not another one's server
                    return
            assert self._process.poll() is None, "redis-server did not start"
            time.sleep(0.01)
        raise AssertionError("redis-server does not answer")

    def client(self, **more: Any) -> Any:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        return Redis(port=self.port, password=self._password or None, retry=Retry(NoBackoff(), 0), **more)

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop(self) -> None:
        """Freeze it with SIGSTOP: it holds its connections and answers nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def flush(self) -> None:
        self.client().flushall()

    def fill(self) -> None:
        """Leave it no memory: from now on it refuses every write that needs some."""
        self.client().config_set("maxmemory", 1)

    def empty(self) -> None:
        self.client().config_set("maxmemory", 0)


@contextmanager
def redis_server(folder: Path, *, password: str = "", appendonly: bool = False) -> Iterator[RedisServer]:
    folder.mkdir(parents=True, exist_ok=True)
    server = RedisServer(folder, password=password, appendonly=appendonly)
    try:
        yield server
    finally:
        server.kill()
