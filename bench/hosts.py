"""Datasets whose servers answer after half a second: `kfm run` with one job, and with as many as it chooses.

python hosts.py serial|default N FOLDER
python hosts.py serve N                    answers on 127.0.0.1 to 127.0.0.N, on the port that it prints
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time

from probe import report

ANSWER_S = 0.5
DATASET = """\
  d{n:02}:
    version: "1.0.0"
    title: Numbers
    license: CC0-1.0
    sensitivity: public
    sources: {{s: {{uri: "http://127.0.0.{n}:{port}/rows.csv", format: csv, contract: {{columns: [{{name: id}}]}}}}}}
    outputs: {{all: {{from: s}}}}
"""


def answer(connection: socket.socket, host: int) -> None:
    with connection, connection.makefile("rb") as lines:
        while lines.readline() not in (b"\r\n", b"\n", b""):
            pass
        time.sleep(ANSWER_S)
        body = b"id,value\n" + b"".join(b"%d,%d\n" % (n, host) for n in range(100))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def accept(listener: socket.socket, host: int) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection, host), daemon=True).start()


def serve(n: int) -> None:
    first = socket.create_server(("127.0.0.1", 0), backlog=64)
    port = first.getsockname()[1]
    rest = [socket.create_server((f"127.0.0.{host}", port), backlog=64) for host in range(2, n + 1)]
    for host, listener in enumerate([first, *rest], 1):
        threading.Thread(target=accept, args=(listener, host), daemon=True).start()
    print(port, flush=True)
    threading.Event().wait()


def first_run(case: str, n: int, folder: str) -> None:
    """From the start of the process to its end: n datasets, each fetched for the first time."""
    with subprocess.Popen([sys.executable, __file__, "serve", str(n)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port = server.stdout.readline().strip()
            allow = ", ".join(f'"127.0.0.{host}:{port}"' for host in range(1, n + 1))
            with open(os.path.join(folder, "kfm.yml"), "w") as file:
                file.write(f"kfm: 1\npublish: noop\nnetwork: {{allow: [{allow}]}}\ndatasets:\n")
                file.writelines(DATASET.format(n=host, port=port) for host in range(1, n + 1))
            command = [sys.executable, "-m", "kfm", "run", "--quiet", *(["--jobs", "1"] if case == "serial" else [])]
            environ = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
            start = time.perf_counter()
            subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)
            report(1, time.perf_counter() - start, None, load=os.getloadavg()[0])
        finally:
            server.kill()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        first_run(sys.argv[1], int(sys.argv[2]), sys.argv[3])
