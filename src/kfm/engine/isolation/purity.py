"""The guard that keeps plan() pure.

While a plan is made, a profile hook sees every call of a C function and of impure code in the standard library, and an
audit hook sees every access to the operating system. The first call that is not allowed stops the plan, and the error
names it. Neither hook sees a value kept from an earlier call or the order of a set; the byte comparison of two plans
and the plan lock find those.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import BuiltinFunctionType, FrameType
from typing import Any

from kfm.errors import PlanImpure

# Modules whose C functions read the clock, randomness, the environment, files or the network.
_IMPURE_MODULES = {
    "time": {"strptime", "struct_time"},
    "_random": set(),
    "posix": {"fspath", "fsencode", "fsdecode"},
    "nt": set(),
    "_socket": {"htons", "ntohs", "htonl", "ntohl", "inet_aton", "inet_ntoa", "inet_pton", "inet_ntop"},
    "_ssl": set(),
    "_io": {"BytesIO", "StringIO"},
    "_uuid": set(),
    "_posixsubprocess": set(),
    "select": set(),
    "_thread": set(),
    "_sqlite3": set(),
    "apsw": set(),
    "_locale": set(),
    "_hashlib": None,
}
_IMPURE_BUILTINS = {
    "open",
    "input",
    "print",
    "id",
    "hash",
    "eval",
    "exec",
    "compile",
    "breakpoint",
    "__import__",
    "vars",
    "locals",
    "globals",
}
# Methods of C types, by the type they belong to.
_IMPURE_METHODS = {
    ("datetime.datetime", "now"), ("datetime.datetime", "utcnow"), ("datetime.datetime", "today"),
    ("datetime.date", "today"), ("datetime.datetime", "astimezone"), ("datetime.datetime", "timestamp"),
    ("datetime.datetime", "fromtimestamp"), ("datetime.date", "fromtimestamp"),
}  # fmt: skip
_PURE_IN_IO = {"BytesIO", "StringIO"}
# Python code of the standard library that is impure, from any caller.
_IMPURE_FILES = {
    "os.py": {"getenv", "__getitem__", "get", "environ", "walk", "scandir", "urandom", "__iter__", "getenvb", "copy"},
    "random.py": None,
    "secrets.py": None,
    "uuid.py": {"uuid1", "uuid4", "getnode", "uuid7", "uuid6"},
    "socket.py": None,
    "subprocess.py": None,
    "tempfile.py": None,
    "threading.py": {"start"},
    "pathlib.py": {"open", "read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "glob", "rglob", "stat",
                   "exists", "is_file", "is_dir", "cwd", "home", "resolve", "mkdir", "unlink", "touch"},
    "platform.py": None,
    "getpass.py": None,
    "glob.py": None,
    "locale.py": {"getlocale", "getdefaultlocale", "setlocale"},
}  # fmt: skip
_AUDITED = (
    "open", "os.", "socket.", "subprocess.", "shutil.", "tempfile.", "glob.", "pathlib.", "sqlite3.", "ctypes.",
    "urllib.", "http.", "ftplib.", "smtplib.", "fcntl.", "mmap.", "pty.", "syslog.", "time.sleep",
)  # fmt: skip
_hook_installed = False
_watching: set[int] = set()  # the threads that are making a plan
_collector = threading.Lock()
_collects = True  # whether the collector was enabled before the first of these plans
_pauses: list[None] = []  # one for each plan that is being made


def _audit(event: str, _arguments: tuple[Any, ...]) -> None:
    if _watching and event.startswith(_AUDITED) and _current_thread() in _watching:
        # Importing a module inside plan() opens files too; that is slow, not impure.
        if event == "open" and _importing():
            return
        raise PlanImpure(f"plan() may not touch the outside: it made the call {event}", hint=_HINT, call=event)


_HINT = "take what you need in inputs(), or do it in perform(); plan() sees only its inputs"


def _current_thread() -> int:
    import _thread

    return _thread.get_ident()


def _importing() -> bool:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _profile(frame: FrameType, event: str, argument: Any) -> None:
    if event == "c_call":
        name = argument.__name__
        owner = getattr(argument, "__self__", None)
        if type(argument) is BuiltinFunctionType and (owner is None or type(owner) is _MODULE):
            module = argument.__module__
            allowed = _IMPURE_MODULES.get(module or "", _NOT_IMPURE)
            if allowed is not _NOT_IMPURE and allowed is not None and name not in allowed:
                _refuse(f"{_spoken(module)}.{name}")
            elif module == "builtins" and name in _IMPURE_BUILTINS:
                _refuse(name)
        elif owner is not None:
            kind = owner if isinstance(owner, type) else type(owner)
            if kind.__module__ == "_random" or kind.__name__ in ("Random", "SystemRandom"):
                _refuse(f"random.{name}")
            for parent in kind.__mro__:
                if (f"{parent.__module__}.{parent.__qualname__}", name) in _IMPURE_METHODS:
                    _refuse(f"{parent.__module__}.{parent.__qualname__}.{name}")
            if kind.__module__ == "_io" and kind.__name__ not in _PURE_IN_IO:
                _refuse(f"io.{kind.__name__}.{name}")
    elif event == "call":
        code = frame.f_code
        path = code.co_filename
        if path.startswith("<frozen importlib"):
            return
        file = _library_file(path)
        listed = _IMPURE_FILES.get(file, _NOT_IMPURE)
        if listed is not _NOT_IMPURE and (listed is None or code.co_name in listed):
            name = {"__getitem__": "environ[…]", "get": "environ.get"}.get(code.co_name, code.co_name)
            _refuse(f"{file.removesuffix('.py')}.{name}")


_MODULE = type(sys)
_NOT_IMPURE: set[str] = {"\0"}
_LIBRARY = (sys.modules["os"].__file__ or "").rpartition("/")[0] + "/"


@cache
def _library_file(path: str) -> str:
    """Return the file name of a module of the standard library, such as `os.py`; for a package its name with `.py`,
    such as `pathlib.py`. Empty for any other path."""
    if path.startswith("<frozen "):
        return path[len("<frozen ") : -1] + ".py"
    inside = path[len(_LIBRARY) :] if path.startswith(_LIBRARY) else ""
    return "pathlib.py" if inside.startswith("pathlib/") else inside


def _spoken(module: str | None) -> str:
    return {
        "posix": "os",
        "nt": "os",
        "_random": "random",
        "_socket": "socket",
        "_io": "io",
        "_thread": "threading",
    }.get(module or "", module or "?")


def _refuse(call: str) -> None:
    sys.setprofile(None)
    raise PlanImpure(f"plan() may not touch the outside: it made the call {call}", hint=_HINT, call=call)


@contextmanager
def pure() -> Iterator[None]:
    """Raise PlanImpure if code inside uses the clock, randomness, the environment, files, sockets or processes."""
    global _hook_installed
    if not _hook_installed:
        sys.addaudithook(_audit)
        _hook_installed = True
    _pause_collector()
    profiled = sys.getprofile() is not None  # a profiler uses the hook; the audit hook still checks
    thread = _current_thread()
    _watching.add(thread)
    if not profiled:
        sys.setprofile(_profile)
    try:
        yield
    finally:
        if not profiled:
            sys.setprofile(None)
        _watching.discard(thread)
        _resume_collector()


def _pause_collector() -> None:
    """Disable the collector while any thread makes a plan: its finalisers and callbacks are not part of a plan."""
    global _collects
    with _collector:
        if not _pauses:
            _collects = gc.isenabled()
            gc.disable()
        _pauses.append(None)


def _resume_collector() -> None:
    with _collector:
        _pauses.pop()
        if not _pauses and _collects:
            gc.enable()
