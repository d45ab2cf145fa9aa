"""Changes kfm.yml: one process at a time, whole or not at all.

The lock holds from reading the file to replacing it, so two commands at once both find their place. The new text is
checked as a run would read it, written next to the file, synced and given its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kfm.clock import Clock
from kfm.config.config_loader import Resolved, resolve
from kfm.errors import BadInput, Conflict, Refused
from kfm.fsio import Fs, failing_as_storage, write_apart
from kfm.parsing import documents
from kfm.parsing.yaml_edit import Block, NotEditable, YamlEdit, flow
from kfm.store.locks import FileLock

_TRIES, _WAIT_S = 100, 0.1


def with_dataset(body: bytes, where: str, dataset: str, block: Block) -> bytes:
    """Return the text of kfm.yml with one more dataset. Raise BadInput if it has one of that name, and Refused, with
    the lines to write, if the text cannot be changed in place."""
    if where.endswith(".json"):
        raise _cannot(where, f"under datasets: {flow({dataset: block})}")
    edit = YamlEdit(body, where)
    if not isinstance(edit.value, dict):
        raise BadInput(f"{where} is no mapping", hint="`kfm init` writes an example")
    if dataset in (edit.value.get("datasets") or {}):
        raise BadInput(f"kfm.yml has a dataset {dataset} already", hint="give another name: --name NAME")
    try:
        if "datasets" not in edit.value:
            edit.set(("datasets",), {})
        edit.set(("datasets", dataset), block)
        return edit.body()
    except NotEditable:
        raise _cannot(where, f"under datasets: {flow({dataset: block})}") from None


def without_dataset(body: bytes, where: str, dataset: str) -> bytes:
    """Return the text of kfm.yml without a dataset. Raise Refused if the text cannot be changed in place."""
    if where.endswith(".json"):
        raise _cannot(where, f"nothing under datasets: {dataset}")
    edit = YamlEdit(body, where)
    try:
        edit.remove(("datasets", dataset))
        return edit.body()
    except NotEditable:
        raise _cannot(where, f"nothing under datasets: {dataset}") from None


def resolved_with(body: bytes, path: str, env: Mapping[str, str]) -> Resolved:
    """Return the configuration that this text would be. Raise BadInput if it has a mistake."""
    where = os.path.basename(path)
    return resolve(documents.read(body, where, json=path.endswith(".json")), path, env)


@contextmanager
def config_lock(root: str, clock: Clock) -> Iterator[None]:
    """Hold the lock on kfm.yml. Raise Conflict if another command does not release it within ten seconds."""
    lock = FileLock(os.path.join(root, ".kfm", "config.lock"))
    try:
        with failing_as_storage("lock kfm.yml"):
            for _ in range(_TRIES):
                if lock.take():
                    break
                clock.sleep(_WAIT_S)
            else:
                raise Conflict("another command is changing kfm.yml", hint="nothing was written; try again")
        yield
    finally:
        lock.close()


def replace_config(path: str, body: bytes, others: Mapping[str, bytes] | None = None, fs: Fs | None = None) -> None:
    """Write kfm.yml, and before it other files that are not there yet. The file keeps its mode. Raise Refused if it may
    not be written: a rename alone would replace a file that is read-only."""
    fs = fs or Fs()
    mode = 0o644
    if os.path.lexists(path):
        if os.path.islink(path):
            path = os.path.realpath(path)
        if not os.access(path, os.W_OK) or not os.stat(path).st_mode & 0o200:
            raise Refused(f"{os.path.basename(path)} is read-only", hint=f"`chmod u+w {os.path.basename(path)}`")
        mode = os.stat(path).st_mode & 0o777
    with failing_as_storage("write kfm.yml"):
        for name, text in (others or {}).items():
            _write(fs, name, text, 0o644)
        _write(fs, path, body, mode)


def _write(fs: Fs, path: str, body: bytes, mode: int) -> None:
    write_apart(fs, f"{path}.new", [body], mode=mode)
    fs.replace(f"{path}.new", path)
    fs.sync_dir(os.path.dirname(path))


def _cannot(where: str, lines: str) -> Refused:
    return Refused(
        f"{where} is written in a way that this command does not change; write there yourself, {lines}",
        hint="or write `datasets:` as a block, a line for each name",
    )


def difference(before: bytes, after: bytes, where: str) -> str:
    """Return the difference of two texts of kfm.yml, as `diff -u` shows it."""
    import difflib

    old, new = (text.decode("utf-8", "replace").splitlines(keepends=True) for text in (before, after))
    return "".join(difflib.unified_diff(old, new, f"a/{where}", f"b/{where}"))
