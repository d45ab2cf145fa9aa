"""Answers every GET with the same body of MIB MiB (0: a few bytes), and 304 to whoever has it.

    python body_server.py MIB

Prints its port. Serves until it is killed; several connections at a time.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

ETAG = '"one"'


def answer(connection: socket.socket, mib: int, block: bytes) -> None:
    with connection, connection.makefile("rb") as lines:
        while True:
            request = lines.readline()
            if not request:
                return
            known = False
            while (line := lines.readline()) not in (b"\r\n", b"\n", b""):
                known = known or (line.lower().startswith(b"if-none-match:") and ETAG.encode() in line)
            size = mib << 20 or len(block)
            if known:
                connection.sendall(f"HTTP/1.1 304 Not Modified\r\nETag: {ETAG}\r\n\r\n".encode())
                continue
            connection.sendall(f"HTTP/1.1 200 OK\r\nETag: {ETAG}\r\nContent-Length: {size}\r\n\r\n".encode())
            for _ in range(max(1, mib)):
                connection.sendall(block)


def main() -> None:
    mib = int(sys.argv[1])
    block = os.urandom(1 << 20) if mib else b"nothing new\n"
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection, mib, block), daemon=True).start()


if __name__ == "__main__":
    main()
