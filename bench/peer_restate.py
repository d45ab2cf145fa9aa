"""Restate server and Python SDK: python peer_restate.py CASE N FOLDER SERVER_BINARY

A journal entry is durable when `ctx.run` returns. The server is linked statically, so the shim
neither counts nor slows its syncs.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any

from probe import Stopwatch, marks_so_far, report


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


class Cluster:
    """One server and one service endpoint, both ours, both killed at the end."""

    def __init__(self, folder: str, binary: str) -> None:
        self.folder, self.binary = os.path.abspath(folder), binary
        self.ingress, self.admin, self.node, self.service = free_ports(4)
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        environ = {
            **os.environ,
            "RESTATE_BASE_DIR": os.path.join(self.folder, "restate"),
            "RESTATE_NODE_NAME": "bench",
            "RESTATE_CLUSTER_NAME": "bench",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_LOG_FILTER": "error",
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self.ingress}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self.admin}",
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{self.node}",
            "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{self.node}",
        }
        environ.pop("LD_PRELOAD", None)
        server = [self.binary]
        if os.environ.get("BENCH_STRACE"):
            calls = "trace=fsync,fdatasync,sync_file_range,msync,syncfs"
            server = ["strace", "-f", "-qq", "-o", os.path.join(self.folder, "trace"), "-e", calls, *server]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.processes = [
                subprocess.Popen(server, env=environ, stdout=log, stderr=log, cwd=self.folder),
                subprocess.Popen(
                    [sys.executable, "-m", "hypercorn", "--workers", "0", "--bind", f"127.0.0.1:{self.service}",
                     "peer_restate_service:app"],
                    cwd=os.path.dirname(os.path.abspath(__file__)), stdout=log, stderr=log,
                ),
            ]  # fmt: skip

    def register(self) -> None:
        body = {"uri": f"http://127.0.0.1:{self.service}", "force": True}
        for _ in range(300):
            try:
                post(f"http://127.0.0.1:{self.admin}/deployments", body)
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise SystemExit("restate did not accept the deployment; see its log")
        for _ in range(300):
            try:
                self.call("chain", 1)
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("restate did not answer the first call")

    def call(self, handler: str, body: Any, key: str = "", send: bool = False) -> Any:
        url = f"http://127.0.0.1:{self.ingress}/work/{handler}{'/send' if send else ''}"
        return post(url, body, {"idempotency-key": key} if key else {})

    def traced(self) -> int:
        """Syncs of the server so far, where it runs under strace."""
        try:
            with open(os.path.join(self.folder, "trace")) as file:
                return sum("(" in line and "resumed" not in line for line in file)
        except FileNotFoundError:
            return 0

    def kill(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
        for process in self.processes:
            process.wait()


def post(url: str, body: Any, headers: dict[str, str] | None = None) -> Any:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"} | (headers or {})
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.loads(answer.read() or b"null")


async def calls(port: int, bodies: list[tuple[str, str]]) -> None:
    """POSTs one after another over one kept-alive connection, so that dialling is not what we time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for body, key in bodies:
        extra = f"idempotency-key: {key}\r\n" if key else ""
        head = f"POST /work/chain HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{extra}"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        status = await reader.readline()
        if b" 200 " not in status:
            raise SystemExit(f"restate answered {status!r}")
        length = 0
        while (line := await reader.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        await reader.readexactly(length)
    writer.close()


def main() -> None:
    case, n, folder, binary = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    cluster = Cluster(folder, binary)
    cluster.start()
    try:
        cluster.register()
        if case == "resume":
            return resume(cluster, n)
        cluster.call("chain", 50)
        before = cluster.traced()
        with Stopwatch() as watch:
            if case in ("chain", "wide"):
                cluster.call(case, n)
            elif case == "one":
                asyncio.run(calls(cluster.ingress, [("1", "")] * n))
            elif case == "skip":
                cluster.call("chain", 100, key="finished")
                watch.__enter__()
                asyncio.run(calls(cluster.ingress, [("100", "finished")] * n))
            else:
                raise SystemExit(f"unknown case {case}")
        report(
            n, watch.seconds, None, traced_syncs=cluster.traced() - before if os.environ.get("BENCH_STRACE") else None
        )
    finally:
        cluster.kill()


def resume(cluster: Cluster, n: int) -> None:
    """SIGKILL server and service at half of a chain, start both, time until the first new step."""
    marks = os.path.join(cluster.folder, "marks")
    cluster.call("marked", {"n": n, "marks": marks}, send=True)
    while marks_so_far(marks) < n // 2:
        time.sleep(0.002)
    cluster.kill()
    done = marks_so_far(marks)
    start = time.time()
    cluster.start()
    while marks_so_far(marks) <= done:
        if time.time() - start > 120:
            raise SystemExit("no new step within two minutes of the kill")
        time.sleep(0.002)
    with open(marks) as file:
        begun = float(file.read().splitlines()[done].split()[1])
    report(1, begun - start, None, finished_steps=done, plan_steps=n)


if __name__ == "__main__":
    main()
