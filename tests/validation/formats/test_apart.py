"""A reader of another library runs in its own process: whatever it does is one finding, and this process goes on."""

from __future__ import annotations

import io
import os
import socket
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kfm.engine.isolation import sandbox
from kfm.engine.isolation.sandbox import in_memory
from kfm.errors import Unavailable
from kfm.model.records import DataContract
from kfm.validation.source_check import Inspection
from tests.validation.formats.tables import quakes, written

CONTRACT = DataContract(format="parquet")
BODY = written(quakes().slice(0, 5))


def written_by(what: str) -> str:
    """To wherever its answers may go."""
    return f"import os\nfor fd in range(3, 20):\n  try: os.write(fd, {what})\n  except OSError: pass"


# What stands in the place of the library, and what is told of it.
READERS = {
    "loops": ("while True:\n    pass", "took more time or memory than it may"),
    "sleeps": ("import time\ntime.sleep(600)", "took more time than it may"),
    "eats memory": ("held = []\nwhile True:\n    held.append(bytearray(1 << 24))", "took more memory than it may"),
    "maps memory": ("import mmap\nheld = [mmap.mmap(-1, 1 << 30) for _ in range(999)]", "ended before it had read it"),
    "segfaults": ("import ctypes\nctypes.string_at(0)", "crashed over it"),
    "aborts": ("import os\nos.abort()", "crashed over it"),
    "is killed": ("import signal\nsignal.raise_signal(9)", "took more time or memory than it may"),
    "ends": ("import os\nos._exit(0)", "ended before it had read it"),
    "exits": ("raise SystemExit(7)", "ended before it had read it"),
    "raises": ("raise RuntimeError('a value')", "ended before it had read it"),
    "writes garbage": (written_by("b'g' * 99"), "crashed over it"),
    "answers nonsense": (written_by("b'r' + bytes(7) + b'\\x02{}'"), "crashed over it"),
    "announces an exabyte": (written_by("b'a\\x0f' + bytes(7)"), "crashed over it"),
}  # fmt: skip


def look(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes = BODY) -> Inspection:
    """With `code` in the place of pyarrow."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "pyarrow.py").write_text(code + "\n")
    monkeypatch.syspath_prepend(str(packages))
    return sandbox.inspect_apart(io.BytesIO, lambda: io.BytesIO(body), CONTRACT, "week", lambda _: None, lambda _: None)


OFTEN = ("sleeps", "eats memory", "segfaults", "announces an exabyte")  # the others with all that takes long


@pytest.mark.parametrize(
    "kind", [kind if kind in OFTEN else pytest.param(kind, marks=pytest.mark.long) for kind in READERS]
)
def test_a_reader_that_fails_holds_its_source(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 1)
    monkeypatch.setattr(sandbox, "MEMORY", 128 << 20)
    code, told = READERS[kind]
    found = look(code, tmp_path, monkeypatch)
    assert found.held and found.cause is not None
    assert found.cause.rule == "parquet.limits"
    assert found.cause.message == f"the reader of parquet {told}; the source is held"


def attempt(*codes: str) -> str:
    """Tells in the place of a missing library what came of each."""
    return (
        f"import os\nfrom kfm.errors import Unavailable\ntold = []\nfor code in {codes!r}:\n"
        "    try:\n        exec(code)\n        told.append('done')\n"
        "    except OSError as problem:\n        told.append(f'errno {problem.errno}')\n"
        "raise Unavailable('; '.join(told))"
    )


@pytest.mark.usefixtures("confinement")
def test_a_reader_reaches_nothing_but_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("kept")
    with socket.create_server(("127.0.0.1", 0)) as server:
        codes = [
            "open('/etc/passwd').read()",
            "os.listdir('/')",
            f"open('{tmp_path}/secret').read()",
            f"open('{tmp_path}/secret', 'w')",
            f"open('{tmp_path}/other', 'w')",
            f"open('/proc/{os.getpid()}/environ').read()",
            f"os.unlink('{tmp_path}/secret')",
            "os.execv('/bin/true', ['true'])",
            "import socket; socket.socket()",
            f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}))",
            f"os.kill({os.getpid()}, 0)",
        ]
        with pytest.raises(Unavailable) as told:
            look(attempt(*codes), tmp_path, monkeypatch)
    assert told.value.message.split("; ") == ["errno 13"] * len(codes)
    assert (tmp_path / "secret").read_text() == "kept"
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("own", [True, False])
def test_its_file_can_be_opened_by_a_path(own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it has a place on a disk, and not in memory."""
    code = attempt("assert open('/proc/self/fd/0', 'rb').read(4) == b'PAR1'")
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "pyarrow.py").write_text(code)
    monkeypatch.syspath_prepend(str(packages))
    scratch: Any = partial((tmp_path / "scratch").open, "w+b") if own else io.BytesIO
    with pytest.raises(Unavailable, match="done"):
        sandbox.inspect_apart(scratch, lambda: io.BytesIO(BODY), CONTRACT, "week", lambda _: None, lambda _: None)


def test_what_a_library_prints_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match="errno"):
        look(attempt("os.write(1, b'r' * 99)"), tmp_path, monkeypatch)


def test_a_descriptor_in_memory_holds_what_it_was_given() -> None:
    fd = in_memory(b"abc")
    try:
        assert os.read(fd, 9) == b"abc"
    finally:
        os.close(fd)
