"""`kfm` for a shell, without the wait: a loaded process forks a child for each command that is typed.

The command that is typed hands its folder, its environment and its three open files to that process, passes on every
signal it gets and ends as the child does.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.engine.installations import ROOT, environment

# Run by a bare interpreter: what it imports is what a command costs.
_TYPED = """\
import _socket, array, os, signal, sys

server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
server.connect(sys.argv[1])
child = []


def pass_on(number, _frame):
    if child:
        os.kill(child[0], number)
    else:
        os._exit(128 + number)


for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, pass_on)
settings = [name + b"=" + value for name, value in os.environb.items()]
words = [os.fsencode(word) for word in sys.argv[2:]]
parts = [os.getcwdb(), b"%d" % len(words), *words, *settings]
files = array.array("i", [0, 1, 2])
server.sendmsg([b"\\0".join(parts)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
child.append(int(server.recv(64)))
code = int(server.recv(64) or b"-9")
if code < 0:
    if code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@cache
def _server() -> tuple[Path, Path]:
    """The program that is typed, and where the process listens that it asks."""
    folder = tempfile.TemporaryDirectory(prefix="kfm-typed-")
    typed, socket = Path(folder.name, "typed.py"), Path(folder.name, "socket")
    typed.write_text(_TYPED)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.forking", str(socket)],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()  # it listens

    def end() -> None:
        process.kill()
        process.communicate()
        folder.cleanup()

    atexit.register(end)
    return typed, socket


def script() -> str:
    """A shell script that is the command `kfm`."""
    typed, socket = _server()
    return f'#!/bin/sh\nexec "{sys.executable}" -I -S "{typed}" "{socket}" "$@"\n'
