"""A real Neo4j for tests: one server for all of them, which can be killed and started again."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import neo4j
from neo4j.exceptions import Neo4jError, ServiceUnavailable

from tests.servers.postgres import free_port as free_port
from tests.sinks.graph import tools

USER, DATABASE = "neo4j", "neo4j"
_OPEN = ("java.nio", "java.io", "sun.nio.ch", "java.util.concurrent")
_CONF = """\
server.bolt.listen_address=127.0.0.1:{bolt}
server.bolt.advertised_address=127.0.0.1:{bolt}
server.http.listen_address=127.0.0.1:{http}
server.https.enabled=false
dbms.usage_report.enabled=false
db.tx_log.preallocate=false
server.memory.pagecache.size=64m
"""


def classes() -> Path:
    """What this Java makes of the jars, kept next to them when a server first ends: half the time of every start."""
    java = Path(tools.java()).resolve()
    kept = Path(f"{tools.fetched()}-{java.stat().st_mtime_ns:x}.jsa")
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
            made = Path(scratch, "classes")
            Neo4jServer(Path(scratch, "home"), f"-XX:ArchiveClassesAtExit={made}").stop()
            os.replace(made, kept)
    return kept


class Neo4jServer:
    """What is committed survives `kill`; `start` is back at the same address."""

    def __init__(self, home: Path, flag: str = "") -> None:
        self.home = home
        self._flag = flag or f"-XX:SharedArchiveFile={classes()}"
        self.port = free_port()
        self.url = f"neo4j://127.0.0.1:{self.port}"
        self.user = USER
        self.password = f"canary-{secrets.token_hex(12)}"
        self._known = "neo4j"  # the password that it takes now
        self._process: subprocess.Popen[bytes] | None = None
        (home / "conf").mkdir(parents=True)
        (home / "conf" / "neo4j.conf").write_text(_CONF.format(bolt=self.port, http=free_port()))
        self.start()
        with neo4j.GraphDatabase.driver(f"bolt://127.0.0.1:{self.port}", auth=(USER, "neo4j")) as driver:
            driver.execute_query(
                "ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO $password",
                password=self.password,
                database_="system",
            )
        self._known = self.password
        self._wait()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        if self.alive:
            return
        jars = tools.fetched()
        command = [tools.java(), self._flag, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", f"{jars}/*"]
        command += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPEN]
        command += ["org.neo4j.server.CommunityEntryPoint", f"--home-dir={self.home}", f"--config-dir={self.home}/conf"]
        with (self.home / "said").open("ab") as said:
            self._process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
        self._wait()

    def _wait(self) -> None:
        for _ in range(1200):
            assert self.alive, f"Neo4j did not start: {(self.home / 'said').read_text()[-2000:]}"
            if self._answers():
                return
            time.sleep(0.1)
        raise AssertionError("Neo4j does not answer")

    def _answers(self) -> bool:
        """Bolt, and the database behind it."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                pass
            self.ask("RETURN 1")
        except Neo4jError as problem:
            return "CredentialsExpired" in str(problem.code)  # the first password: it is up, and wants another
        except (OSError, ServiceUnavailable):
            return False
        return True

    def kill(self) -> None:
        """As a power cut does: at once."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """In its own time."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def ask(self, cypher: str, **parameters: Any) -> list[dict[str, Any]]:
        auth = (USER, self._known)
        with neo4j.GraphDatabase.driver(f"bolt://127.0.0.1:{self.port}", auth=auth) as driver:
            rows, _, _ = driver.execute_query(cypher, parameters, database_=DATABASE)
            return [row.data() for row in rows]

    def empty(self) -> None:
        """As it was when it was made: no nodes, no constraints."""
        self.ask("MATCH (n) DETACH DELETE n")
        for row in self.ask("SHOW CONSTRAINTS YIELD name"):
            self.ask(f"DROP CONSTRAINT `{row['name']}`")
