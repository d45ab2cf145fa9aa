"""Finding the file, reading it, and applying the environment: from a path to what is in force."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from kfm.config.config_file import Config, check
from kfm.config.setting_values import given, leaves
from kfm.errors import BadInput
from kfm.model.redaction import redacted
from kfm.model.secret import SHORTEST, Secret
from kfm.parsing import documents, record_shape, yaml_scalars
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.documents import Document, dotted
from kfm.secret_references import read_reference

_learning = threading.Lock()  # msgspec crashes if two threads learn one large type at the same time
FILE_NAMES = ("kfm.yml", "kfm.yaml", "kfm.json")
# Names the program itself reads; every other KFM_* name must be a setting, but for KFM_SECRET_*: what those hold
# is read only where the file refers to them.
RESERVED_ENV = frozenset({"KFM_ACTOR", "KFM_COLOR", "KFM_CONFIG", "KFM_LOG", "KFM_NOW"})


class Resolved:
    """A configuration, the folder its paths start at, and where each value came from.

    `tree` is the folder that paths of datasets start at: another one while a branch is previewed, and `proposed` the
    file of labels that the branch has then: what it says counts beside what is in force.
    """

    __slots__ = ("__weakref__", "_origins", "config", "document", "path", "proposed", "root", "tree")

    def __init__(self, config: Config, path: str, document: Document) -> None:
        self.config = config
        self.path = path
        self.root = self.tree = os.path.dirname(path)
        self.proposed = ""
        self.document = document
        self._origins: dict[str, str] | None = None

    @property
    def is_proposal(self) -> bool:
        """Is this what a branch would have, and nobody has agreed to yet?"""
        return self.tree != self.root

    def at(self, path: str) -> str:
        """A path of the file, made absolute. It is UTF-8 on the disk too, whatever the locale says."""
        return self._below(self.root, path)

    def in_tree(self, path: str) -> str:
        """The same, of what a dataset names."""
        return self._below(self.tree, path)

    def _below(self, folder: str, path: str) -> str:
        name = path if path.isascii() else os.fsdecode(path.encode("utf-8", "surrogateescape"))
        return os.path.normpath(os.path.join(folder, name))

    def location(self, url: str) -> tuple[str, str]:
        """('sqlite', '/srv/kfm/state.db') for `sqlite:state.db`; the path is empty for memory and noop."""
        scheme, _, rest = url.partition(":")
        path = rest.removeprefix("//") if rest.startswith("///") else rest
        return scheme, self.at(path) if path else ""

    def secret(self, reference: str, env: Mapping[str, str], *, shortest: int = SHORTEST) -> Secret:
        """What `env:NAME` or `file:PATH` holds, or a secret store that is installed
        (see kfm.secret_references)."""
        value = read_reference(reference, env, self.at)
        if len(value) < shortest:
            raise BadInput(
                f"the secret {reference} is {f'shorter than {shortest} bytes' if value else 'empty'}",
                hint="set it" if shortest < SHORTEST else "make one with `openssl rand -hex 32`",
            )
        return Secret(value)

    @property
    def origins(self) -> dict[str, str]:
        """For each setting, as a dotted key: `default`, `file` or `env NAME`."""
        if self._origins is None:
            raw, moved = self.document.value, self.document.moved
            self._origins = {
                dotted(path): "env " + moved[path] if path in moved else "file" if given(raw, path) else "default"
                for path, _ in leaves(msgspec.to_builtins(self.config), ())
            }
        return self._origins

    def shown(self) -> dict[str, Any]:
        """The settings as plain values, with nothing secret in them."""
        shown: dict[str, Any] = redacted(msgspec.to_builtins(self.config))
        shown["datasets"] = shown.pop("datasets")  # last, being the longest
        return shown


def load(path: str | None, env: Mapping[str, str]) -> Resolved:
    """Read the file (KFM_CONFIG, or the nearest one upward, if none is named) and apply the environment."""
    path = named(path, env)
    where = shown_path(path)
    return resolve(documents.read(read_file(path, where), where, json=path.endswith(".json")), path, env)


def named(path: str | None, env: Mapping[str, str]) -> str:
    """The path of the file that is meant."""
    return path or env.get("KFM_CONFIG") or _find(os.getcwd(), env)


def resolve(document: Document, path: str, env: Mapping[str, str]) -> Resolved:
    """The document, with the environment over it, as what is in force. BadInput at the first mistake; from a document
    that collects mistakes, the configuration as it may have been meant."""
    if not isinstance(document.value, dict):
        found = yaml_scalars.kind(document.value)
        raise document.mistake((), f"must be a mapping, found {found}", "`kfm init` writes an example")
    if document.value.get("kfm", 1) not in (1, True) and isinstance(document.value["kfm"], int):
        document.refuse(("kfm",), "is a newer format than this version reads", "install a newer kfm, or write kfm: 1")
        document.assumed.add(("kfm",))
    overrides = sorted(name for name in env if name.startswith("KFM_") and not _is_reserved(name))
    with _learning:
        for name in overrides:
            from kfm.parsing import environment

            with document:
                environment.apply(document, Config, name, env[name], fixed=("kfm", "$schema"))
    config = checked(document)
    return Resolved(config, os.path.abspath(path), document)


def checked(document: Document) -> Config:
    """The document as a configuration, if it is a good one."""
    with _learning:
        config = record_shape.into(document, Config)
    check(config, document)
    return config


def _is_reserved(name: str) -> bool:
    return name in RESERVED_ENV or name.startswith("KFM_SECRET_")


def file_in(folder: str) -> str:
    """The file of the installation in a folder; none above it is looked for."""
    found = _here(folder, folder)
    if not found:
        raise BadInput(f"there is no kfm.yml in {shown_path(folder)}", hint="write one with `kfm init`")
    return found


def _here(folder: str, start: str) -> str:
    paths = {name: os.path.join(folder, name) for name in FILE_NAMES}
    for path in paths.values():
        if os.path.islink(path) and not os.path.exists(path):  # passing over it would take another installation
            raise BadInput(
                f"{os.path.relpath(path, start)} is a link that leads nowhere",
                hint="mend or remove it, or name another file with --config",
            )
    here = [name for name, path in paths.items() if os.path.isfile(path)]
    if len(here) > 1:
        raise BadInput(f"{here[0]} and {here[1]} are both here", hint="keep one, or name it with --config")
    return paths[here[0]] if here else ""


def _find(start: str, env: Mapping[str, str]) -> str:
    folder = start
    while True:
        if path := _here(folder, start):
            found = os.path.relpath(path, start)
            if folder != start:
                _check_owner(folder, path, found, env)
            return found
        above = os.path.dirname(folder)
        if above == folder:
            raise BadInput(
                "no kfm.yml here or in a folder above", hint="write one with `kfm init`, or name it with --config"
            )
        folder = above


def _check_owner(folder: str, path: str, shown: str, env: Mapping[str, str]) -> None:
    """What is found in a folder above names code to run: only ours, or the administrator's."""
    ours = {0, os.geteuid()}
    if os.geteuid() == 0 and (behind := env.get("SUDO_UID", "")).isdecimal():
        ours.add(int(behind))
    if not {os.lstat(folder).st_uid, os.lstat(path).st_uid, os.stat(path).st_uid} <= ours:
        raise BadInput(
            f"{shown_path(shown)}, in a folder above, belongs to somebody else",
            hint="it names code that would be run as you: if you trust it, name it with --config",
        )


def shown_path(path: str) -> str:
    return path if is_printable(path) and len(path) <= 200 else printable(path)


def read_file(path: str, where: str) -> bytes:
    import stat

    try:
        # Without O_NONBLOCK a named pipe would keep us waiting for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise BadInput(f"{where} does not exist", hint="write one with `kfm init`, or correct --config") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "not a file name"
        raise BadInput(f"{where} cannot be read: {reason}", hint="look at the path and its permissions") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadInput(f"{where} is not a file", hint="name a YAML or JSON file with --config")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(documents.MAX_BYTES + 1)
