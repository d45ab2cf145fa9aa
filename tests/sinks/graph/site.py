"""An installation whose runs go to a graph and to a file of events."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.store.state_tables import CATALOGUE
from tests.engine.crowds import Installation

TABLES = [table.name for table in CATALOGUE if table.name not in ("outbox", "meta", "guard")]  # how far sinks are


class Site(Installation):
    def __init__(self, folder: Path, graph: str, more: str = "", *, state: str = "sqlite") -> None:
        super().__init__(folder, state, ("demo", "other"))
        settings = f"graph: {graph}\nneo4j: {{timeout_s: 20}}\nopenlineage: {{file: events.ndjson}}\n{more}"
        (folder / "kfm.yml").write_text(settings + (folder / "kfm.yml").read_text())

    def rows(self) -> dict[str, bytes]:
        """All that a sink must leave as it is, byte for byte."""
        with self.open("read") as session:
            found = {f"{table}/{key}": value for table in TABLES for key, value in session.tables.scan(table)}
        for path in sorted((self.folder / ".kfm" / "receipts").rglob("*.json")):
            found[str(path)] = path.read_bytes()
        return found

    def some_runs(self, session: Session, count: int, *, dataset: str = "demo") -> None:
        for n in range(count):
            self.source(f"{dataset} of {n}", dataset)
            run_trigger(session, new_trigger(session, dataset))
            if n % 2:
                run_operation(session, "promote", dataset, reason="an edition")


@contextmanager
def forwarding(port: int, to: int) -> Iterator[None]:
    """What comes to the one port goes to the other."""

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(1 << 16):
                target.sendall(chunk)
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.create_connection(("127.0.0.1", to))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", port)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield
        listening.shutdown(socket.SHUT_RDWR)
