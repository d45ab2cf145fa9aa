"""Find kfm.yml, read it and apply the environment."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from copy import copy
from typing import Any

import msgspec

from kfm.config import config_file, store_settings
from kfm.config.config_file import Config, check
from kfm.config.setting_values import given, leaves
from kfm.errors import BadInput
from kfm.model.redaction import redacted
from kfm.model.secret import SHORTEST, Secret
from kfm.parsing import documents, record_shape, yaml_scalars
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.documents import Document, dotted
from kfm.secret_references import read_reference

_learning = threading.Lock()  # msgspec crashes if two threads prepare one large type at the same time
USUAL_SLOS = "slos"  # the folder of objectives, unless kfm.yml names another; it need not be there
FILE_NAMES = ("kfm.yml", "kfm.yaml", "kfm.json")
# Names that the program itself reads. Every other KFM_* name must be a setting, except KFM_SECRET_*, which is read only
# where the file refers to it.
RESERVED_ENV = frozenset(
    {"KFM_ACTOR", "KFM_COLOR", "KFM_CONFIG", "KFM_LOG", "KFM_NOW", "KFM_REASON", "KFM_WORKER_IMAGE"}
)


class Resolved:
    """A configuration, the folder its paths start at, and the origin of each value.

    `tree` is the folder that paths of datasets start at. It differs from `root` while a branch is previewed; then
    `proposed` is the branch's labels file, which counts in addition to the labels in force. `only_closes` says that the
    command only takes away or closes, so that it works in an installation that is damaged.
    """

    __slots__ = ("__weakref__", "_origins", "config", "document", "only_closes", "path", "proposed", "root", "tree")

    def __init__(self, config: Config, path: str, document: Document) -> None:
        self.config = config
        self.path = path
        self.root = self.tree = os.path.dirname(path)
        self.proposed = ""
        self.only_closes = False
        self.document = document
        self._origins: dict[str, str] | None = None

    @property
    def mistakes(self) -> list[BadInput]:
        """The mistakes that the loader ignored. If there are any, this configuration may only be used to take away or
        close."""
        return self.document.mistakes or []

    @property
    def is_proposal(self) -> bool:
        """Say whether this is the configuration of a branch preview, which is not approved yet."""
        return self.tree != self.root

    @property
    def has_objectives(self) -> bool:
        """Say whether there is a folder of objectives, or should be: one that kfm.yml names. It is not read."""
        return self.config.slos != USUAL_SLOS or os.path.lexists(self.at(self.config.slos))

    def at(self, path: str) -> str:
        """Return a path of the file as an absolute path, encoded in UTF-8 whatever the locale is."""
        return self._below(self.root, path)

    def in_tree(self, path: str) -> str:
        """Return a path that a dataset names as an absolute path."""
        return self._below(self.tree, path)

    def _below(self, folder: str, path: str) -> str:
        name = path if path.isascii() else os.fsdecode(path.encode("utf-8", "surrogateescape"))
        return os.path.normpath(os.path.join(folder, name))

    def elsewhere(self, **settings: str | bool) -> Resolved:
        """Return the same settings but for these, as given: what follows from them is not set anew."""
        other = copy(self)
        other.config = msgspec.structs.replace(self.config, **settings)
        return other

    def location(self, url: str) -> tuple[str, str]:
        """Return ('sqlite', '/srv/kfm/state.db') for `sqlite:state.db`; the path is "" for memory and noop. For a
        server it is the rest of the address: ('s3', 'bucket/prefix')."""
        scheme, _, rest = url.partition(":")
        if scheme in store_settings.SERVERS:
            return scheme, rest.removeprefix("//").rstrip("/")
        path = rest.removeprefix("//") if rest.startswith("///") else rest
        return scheme, self.at(path) if path else ""

    def secret(self, reference: str, env: Mapping[str, str], *, shortest: int = SHORTEST) -> Secret:
        """Return the secret at `env:NAME`, `file:PATH` or in an installed secret store (see kfm.secret_references).
        Raise BadInput if it is too short.
        """
        value = read_reference(reference, env, self.at)
        if len(value) < shortest:
            raise BadInput(
                f"the secret {reference} is {f'shorter than {shortest} bytes' if value else 'empty'}",
                hint="set it" if shortest < SHORTEST else "create one with `openssl rand -hex 32`",
            )
        return Secret(value)

    @property
    def origins(self) -> dict[str, str]:
        """Return, for each setting by its dotted key, where its value comes from: `default`, `file` or `env NAME`."""
        if self._origins is None:
            raw, moved = self.document.value, self.document.moved
            self._origins = {
                dotted(path): "env " + moved[path] if path in moved else "file" if given(raw, path) else "default"
                for path, _ in leaves(msgspec.to_builtins(self.config), ())
            }
        return self._origins

    def shown(self) -> dict[str, Any]:
        """Return the settings as plain values without secrets."""
        shown: dict[str, Any] = redacted(msgspec.to_builtins(self.config))
        shown["datasets"] = shown.pop("datasets")  # last, because it is the longest
        return shown


def load(path: str | None, env: Mapping[str, str]) -> Resolved:
    """Read the file (KFM_CONFIG, or the nearest one upward, if none is named) and apply the environment."""
    path = named(path, env)
    where = shown_path(path)
    return resolve(documents.read(read_file(path, where), where, json=path.endswith(".json")), path, env)


def named(path: str | None, env: Mapping[str, str]) -> str:
    """Return the path of the configuration file: the given path, else KFM_CONFIG, else the nearest kfm.yml upward."""
    return path or env.get("KFM_CONFIG") or _find(os.getcwd(), env)


def resolve(document: Document, path: str, env: Mapping[str, str]) -> Resolved:
    """Return the configuration of a document, with the settings of the environment applied. Raise BadInput at the first
    mistake. If the document collects mistakes, return the configuration as it was probably meant."""
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
    """Return the document as a configuration. Raise BadInput if it has a mistake."""
    with _learning:
        config = config_file.with_defaults(record_shape.into(document, Config), document)
    check(config, document)
    return config


def _is_reserved(name: str) -> bool:
    return name in RESERVED_ENV or name.startswith("KFM_SECRET_")


def file_in(folder: str) -> str:
    """Return the configuration file in a folder; folders above are not searched."""
    found = _here(folder, folder)
    if not found:
        raise BadInput(f"there is no kfm.yml in {shown_path(folder)}", hint="write one with `kfm init`")
    return found


def _here(folder: str, start: str) -> str:
    paths = {name: os.path.join(folder, name) for name in FILE_NAMES}
    for path in paths.values():
        if os.path.islink(path) and not os.path.exists(path):  # skipping it would use another installation
            raise BadInput(
                f"{os.path.relpath(path, start)} is a broken link",
                hint="repair or remove it, or name another file with --config",
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
    """Raise BadInput if a file found in a folder above belongs to another user. It names code to run, so only the
    caller's own or the administrator's is used.
    """
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
        # Without O_NONBLOCK, opening a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise BadInput(f"{where} does not exist", hint="write one with `kfm init`, or correct --config") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "not a file name"
        raise BadInput(f"{where} cannot be read: {reason}", hint="check the path and its permissions") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadInput(f"{where} is not a file", hint="name a YAML or JSON file with --config")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(documents.MAX_BYTES + 1)
