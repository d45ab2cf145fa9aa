"""One file says what an installation is: `kfm.yml`, strict, with a published schema.

Layers: what is built in, then the file, then `KFM_SECTION__KEY` in the environment. Relative paths
start at the folder of the file. Nothing here opens a store or imports an updater.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kfm.contract import names
from kfm.contract.declared import OutputConfig, check_outputs
from kfm.contract.records import DataContract, Record
from kfm.contract.redaction import redacted
from kfm.contract.referred import check_reference, check_secrets, referring
from kfm.contract.secret import SHORTEST, Secret
from kfm.documents import reading, scalars, shape
from kfm.documents.characters import is_printable, printable
from kfm.documents.reading import Document, Path, dotted
from kfm.errors import BadInput
from kfm.references import read_reference

FILE_NAMES = ("kfm.yml", "kfm.yaml", "kfm.json")
# Names the program itself reads; every other KFM_* name must be a setting, but for KFM_SECRET_*: what those hold
# is read only where the file refers to them.
RESERVED_ENV = frozenset({"KFM_ACTOR", "KFM_COLOR", "KFM_CONFIG", "KFM_LOG", "KFM_NOW"})

Format = Literal["csv", "json", "ndjson", "geojson", "stac", "text", "bytes"]
_Text = Annotated[str, Meta(min_length=1, max_length=4096)]
_Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
_Interval = Annotated[float, Meta(ge=0, le=31_536_000)]
_Days = Annotated[int, Meta(ge=1, le=36_500)]
_ID_PATTERN = "^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"


class NetworkConfig(Record, frozen=True):
    """What may be reached, and how long and how much it may take."""

    allow: Annotated[
        tuple[_Text, ...], Meta(description="host or host:port that may be reached although private or on another port")
    ] = ()
    timeout_s: Annotated[_Seconds, Meta(description="between two bytes")] = 30
    total_s: Annotated[_Seconds, Meta(description="for one whole source")] = 3600
    max_bytes: Annotated[int, Meta(ge=1, le=1 << 50, description="of one source, decompressed")] = 1 << 40
    revalidate_s: Annotated[
        _Interval, Meta(description="after this long the bytes are fetched whole, whatever the ETag says")
    ] = 86_400


class ExecuteConfig(Record, frozen=True):
    """How steps are run."""

    threads: Annotated[int, Meta(ge=1, le=64, description="steps that run at the same time")] = 4
    window: Annotated[
        int,
        Meta(
            ge=1,
            le=65_536,
            description="at most this many steps share one durable write and are in doubt after a crash",
        ),
    ] = 4096
    lease_s: Annotated[float, Meta(gt=0, le=86_400, description="how long a dead worker keeps others waiting")] = 60


class WebhookConfig(Record, frozen=True):
    """A source that may tell of a change by itself, at `POST /webhooks/<its name>`."""

    datasets: Annotated[tuple[_Text, ...], Meta(min_length=1, description="what is updated when it does")]
    secrets: Annotated[
        tuple[_Text, ...],
        Meta(
            min_length=1,
            max_length=2,
            description="env:NAME or file:PATH, of at least 32 bytes; two while one takes the place of the other",
        ),
    ]
    accept: Annotated[
        Literal["kfm", "github", "standard"],
        Meta(description="whose signature counts: kfm, github, or standard (Standard Webhooks)"),
    ] = "kfm"
    enabled: Annotated[bool, Meta(description="false: every request is refused")] = True
    tolerance_s: Annotated[float, Meta(gt=0, le=3600, description="how far the signed time may be from ours")] = 300


class GitHubConfig(Record, frozen=True):
    """How `publish: github:OWNER/REPOSITORY` reaches it."""

    token: Annotated[_Text, Meta(description="env:NAME or file:PATH; it may write the repository's contents")] = (
        "env:GITHUB_TOKEN"  # noqa: S105 the name of one
    )
    api: Annotated[_Text, Meta(description="of GitHub itself, or of an own server")] = "https://api.github.com"
    uploads: Annotated[_Text, Meta(description="where files are sent to")] = "https://uploads.github.com"


class WatchConfig(Record, frozen=True):
    """How `kfm watch` looks at sources, and how it gathers what asks for the same run."""

    poll_s: Annotated[
        _Interval, Meta(description="between two looks at a source; 0: only those that say so themselves")
    ] = 900
    jitter: Annotated[float, Meta(ge=0, le=1, description="at most this share of it is added by chance")] = 0.1
    host_pause_s: Annotated[_Interval, Meta(description="between two looks at one host")] = 1
    debounce_s: Annotated[
        _Interval, Meta(description="triggers of a dataset are gathered until none came for this long")
    ] = 2


class Extent(Record, frozen=True):
    """Where and when the data are, as in STAC."""

    bbox: Annotated[tuple[float, ...], Meta(description="west, south, east, north in degrees")] = ()
    interval: Annotated[tuple[str | None, ...], Meta(description="first and last instant; null: open")] = ()


class SourceConfig(Record, frozen=True):
    """One thing to read, and what it must look like."""

    uri: Annotated[_Text, Meta(description="http(s) URL, or a file path below the folder of this file")]
    format: Annotated[Format | None, Meta(description="how the bytes are read; the same as contract.format")] = None
    contract: Annotated[DataContract, Meta(description="what it must look like")] = DataContract()
    complete: Annotated[bool, Meta(description="this source is everything, so what it lacks may be deleted")] = False
    expect_hash: Annotated[str, Meta(description="sha256:<hex> the bytes must have")] = ""
    hosts: Annotated[tuple[_Text, ...], Meta(description="other hosts a redirect may lead to")] = ()
    headers: Annotated[
        dict[str, _Text], Meta(description="sent to its origin alone; each value is env:NAME or file:PATH")
    ] = {}
    query: Annotated[
        dict[str, _Text], Meta(description="parameters added to the URL; each value is env:NAME or file:PATH")
    ] = {}
    revalidate_s: Annotated[_Interval | None, Meta(description="as network.revalidate_s, for this source alone")] = None
    media_type: Annotated[str, Meta(description="instead of the one the server names")] = ""
    poll_s: Annotated[_Interval | None, Meta(description="as watch.poll_s, for this source alone; 0: never")] = None

    @property
    def known_as(self) -> str:
        """What records call it: with references where secrets go."""
        return referring(self.uri, self.headers, self.query)

    def data_contract(self) -> DataContract:
        """The contract with the format of the source in it."""
        return self.contract if self.format is None else msgspec.structs.replace(self.contract, format=self.format)


class DatasetConfig(Record, frozen=True):
    """One dataset: who updates it, what it is, and where it comes from.

    It has an `updater`, or else `outputs` and a `version`. What is said here about title, license and
    sensitivity is asked for when the dataset is promoted.
    """

    updater: Annotated[
        _Text | None, Meta(description="file.py:Class, or package.module:Class; null: what `outputs` says is done")
    ] = None
    version: Annotated[str, Meta(description="a semantic one, such as 1.0.0; change it whenever `outputs` do")] = ""
    outputs: Annotated[
        dict[str, OutputConfig],
        Meta(
            description="by their names, made without code",
            extra_json_schema={"propertyNames": {"pattern": _ID_PATTERN}},
        ),
    ] = {}
    title: Annotated[str, Meta(description="for people; asked for by `kfm promote`")] = ""
    description: Annotated[str, Meta(description="for people")] = ""
    license: Annotated[str, Meta(description="an SPDX id or a URL; asked for by `kfm promote`")] = ""
    sensitivity: Annotated[
        Literal["public", "restricted"] | None,
        Meta(description="only what is public is ever published; null: nobody said so"),
    ] = None
    attribution: Annotated[str, Meta(description="who is to be named as the source")] = ""
    extent: Annotated[Extent | None, Meta(description="where and when")] = None
    sources: Annotated[dict[str, SourceConfig], Meta(description="by the name that `sources.pin()` uses")] = {}
    publish_retention: Annotated[
        Annotated[int, Meta(ge=-1)] | None,
        Meta(description="how many superseded versions stay public; null: as for the installation"),
    ] = None

    def contracts(self) -> dict[str, DataContract]:
        """What each source must look like, by its name."""
        return {name: source.data_contract() for name, source in self.sources.items()}

    def metadata(self) -> dict[str, Any]:
        """What was declared, and only that."""
        said: dict[str, Any] = {
            "title": self.title,
            "description": self.description,
            "license": self.license,
            "sensitivity": self.sensitivity,
            "attribution": self.attribution,
            "extent": self.extent and {"bbox": list(self.extent.bbox), "interval": list(self.extent.interval)},
        }
        return {key: value for key, value in said.items() if value}


class Config(Record, frozen=True):
    """An installation."""

    datasets: Annotated[
        dict[str, DatasetConfig],
        Meta(description="by their names", extra_json_schema={"propertyNames": {"pattern": _ID_PATTERN}}),
    ]
    kfm: Annotated[Literal[1], Meta(description="the version of this format")] = 1
    schema_url: Annotated[str, Meta(description="for editors")] = msgspec.field(default="", name="$schema")
    state: Annotated[_Text, Meta(description="sqlite:PATH, jsonl:PATH or memory")] = "sqlite:.kfm/state.db"
    objects: Annotated[_Text, Meta(description="file:PATH")] = "file:.kfm/objects"
    publish: Annotated[_Text, Meta(description="file:PATH, github:OWNER/REPOSITORY or noop")] = "file:public"
    artifacts: Annotated[_Text, Meta(description="folder for the artifacts of each run")] = ".kfm/artifacts"
    accept_weak_storage: Annotated[
        bool, Meta(description="write to places that may lose what they acknowledged, such as tmpfs or NFS")
    ] = False
    network: Annotated[NetworkConfig, Meta(description="what may be reached, how long, how much")] = NetworkConfig()
    execute: Annotated[ExecuteConfig, Meta(description="how steps are run")] = ExecuteConfig()
    github: Annotated[GitHubConfig, Meta(description="how GitHub is reached")] = GitHubConfig()
    watch: Annotated[WatchConfig, Meta(description="how `kfm watch` looks at sources")] = WatchConfig()
    webhooks: Annotated[
        dict[str, WebhookConfig],
        Meta(
            description="who may tell of a change, by the name in the URL",
            extra_json_schema={"propertyNames": {"pattern": _ID_PATTERN}},
        ),
    ] = {}
    publish_retention: Annotated[
        int,
        Meta(
            ge=-1,
            description="how many superseded versions of a dataset stay public beside the current one; -1: all. "
            "What was withdrawn or taken back never does",
        ),
    ] = -1
    keep_days: Annotated[_Days, Meta(description="how long ended triggers and ids of webhooks' messages are kept")] = 90
    deletion_budget: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="share of its keys a dataset may lose in one run; --allow-deletions N lets one more go",
        ),
    ] = 0.1


_SCHEMES = {"state": ("sqlite", "jsonl", "memory"), "objects": ("file",), "publish": ("file", "github", "noop")}

msgspec.json.Decoder(Config)  # learned here, once: msgspec crashes if two threads learn one large type at the same time


class Resolved:
    """A configuration, the folder its paths start at, and where each value came from."""

    __slots__ = ("_origins", "config", "document", "path", "root")

    def __init__(self, config: Config, path: str, document: Document) -> None:
        self.config = config
        self.path = path
        self.root = os.path.dirname(path)
        self.document = document
        self._origins: dict[str, str] | None = None

    def at(self, path: str) -> str:
        """A path of the file, made absolute. It is UTF-8 on the disk too, whatever the locale says."""
        name = path if path.isascii() else os.fsdecode(path.encode("utf-8", "surrogateescape"))
        return os.path.normpath(os.path.join(self.root, name))

    def location(self, url: str) -> tuple[str, str]:
        """('sqlite', '/srv/kfm/state.db') for `sqlite:state.db`; the path is empty for memory and noop."""
        scheme, _, rest = url.partition(":")
        path = rest.removeprefix("//") if rest.startswith("///") else rest
        return scheme, self.at(path) if path else ""

    def secret(self, reference: str, env: Mapping[str, str], *, shortest: int = SHORTEST) -> Secret:
        """What `env:NAME` or `file:PATH` holds, or another store of secrets that is installed; see kfm.references."""
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
                dotted(path): "env " + moved[path] if path in moved else "file" if _given(raw, path) else "default"
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
    path = path or env.get("KFM_CONFIG") or _find(os.getcwd(), env)
    where = _shown_path(path)
    document = reading.read(_read(path, where), where, json=path.endswith(".json"))
    if not isinstance(document.value, dict):
        found = scalars.kind(document.value)
        document.refuse((), f"must be a mapping, found {found}", "`kfm init` writes an example")
    if document.value.get("kfm", 1) not in (1, True) and isinstance(document.value["kfm"], int):
        document.refuse(("kfm",), "is a newer format than this version reads", "install a newer kfm, or write kfm: 1")
    overrides = sorted(name for name in env if name.startswith("KFM_") and not _is_reserved(name))
    for name in overrides:
        from kfm.documents import environment

        environment.apply(document, Config, name, env[name], fixed=("kfm", "$schema"))
    config = shape.into(document, Config)
    _check(config, document)
    return Resolved(config, os.path.abspath(path), document)


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of the file, for editors and for `schemas/config.json`."""
    schema = msgspec.json.schema(Config)
    for definition in schema["$defs"].values():
        definition["description"] = " ".join(definition.get("description", "").split())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "kfm.yml", **schema}


def _is_reserved(name: str) -> bool:
    return name in RESERVED_ENV or name.startswith("KFM_SECRET_")


def _find(start: str, env: Mapping[str, str]) -> str:
    folder = start
    while True:
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
        if here:
            found = os.path.relpath(paths[here[0]], start)
            if folder != start:
                _check_owner(folder, paths[here[0]], found, env)
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
            f"{_shown_path(shown)}, in a folder above, belongs to somebody else",
            hint="it names code that would be run as you: if you trust it, name it with --config",
        )


def _shown_path(path: str) -> str:
    return path if is_printable(path) and len(path) <= 200 else printable(path)


def _read(path: str, where: str) -> bytes:
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
        return file.read(reading.MAX_BYTES + 1)


# ------------------------------------------------------------------- what the types alone cannot say


def _check(config: Config, document: Document) -> None:
    for key, schemes in _SCHEMES.items():
        _check_location(document, key, getattr(config, key), schemes)
    _check_github(document, config)
    if not is_printable(config.artifacts):
        document.refuse(("artifacts",), "holds a control character", "use a plain path")
    for index, host in enumerate(config.network.allow):
        _check_host(document, ("network", "allow", index), host)
    for name, dataset in config.datasets.items():
        path: Path = ("datasets", name)
        try:
            names.check_id(name, "dataset")
        except BadInput as error:
            raise BadInput(f"{document.place(path)}: {error.message}", hint=error.hint, key="datasets") from None
        if name == "global":
            document.refuse(path, "cannot be told from the switch over all datasets", "call it something else")
        _check_work(document, path, dataset)
        if dataset.extent is not None:
            _check_extent(document, (*path, "extent"), dataset.extent)
        for key, source in dataset.sources.items():
            _check_source(document, (*path, "sources", key), source)
        if dataset.outputs:
            check_outputs(document, path, dataset.outputs, dataset.contracts())
    for name, hook in config.webhooks.items():
        _check_webhook(document, ("webhooks", name), hook, config.datasets)


def _check_webhook(document: Document, path: Path, hook: WebhookConfig, datasets: Mapping[str, DatasetConfig]) -> None:
    try:
        names.check_id(str(path[-1]), "webhook")
    except BadInput as error:
        raise BadInput(f"{document.place(path)}: {error.message}", hint=error.hint, key="webhooks") from None
    for index, name in enumerate(hook.datasets):
        if name not in datasets:
            document.refuse((*path, "datasets", index), "names no dataset of this file", "correct it")
    for index, reference in enumerate(hook.secrets):
        check_reference(document, (*path, "secrets", index), reference)


def _check_location(document: Document, key: str, url: str, schemes: tuple[str, ...]) -> None:
    scheme, colon, rest = url.partition(":")
    known = " or ".join(name if name in ("memory", "noop") else f"{name}:PATH" for name in schemes)
    if scheme not in schemes or not (colon or scheme in ("memory", "noop")):
        document.refuse((key,), "names no store this version has", f"use {known}")
    if scheme in ("memory", "noop"):
        if rest:
            document.refuse((key,), f"has text after {scheme}:", "nothing belongs there")
    elif not rest.strip("/.") or not is_printable(rest) or (rest.startswith("//") and not rest.startswith("///")):
        document.refuse((key,), "has no usable path", f"write {scheme}:some/path, or {scheme}:///absolute/path")


def _check_github(document: Document, config: Config) -> None:
    import re

    scheme, _, repository = config.publish.partition(":")
    if scheme == "github" and not re.match(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+\Z", repository):
        document.refuse(("publish",), "names no repository", "write github:OWNER/REPOSITORY")
    if not config.github.token.startswith(("env:", "file:")):
        document.refuse(("github", "token"), "is not a reference", "write env:NAME or file:PATH")
    for key in ("api", "uploads"):
        url = getattr(config.github, key)
        local = re.match(r"http://(?:127\.0\.0\.1|localhost)(?::[0-9]+)?(?:/|\Z)", url)
        if not re.match(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._/-]*)?\Z", url) or url.endswith("/"):
            document.refuse(("github", key), "is not an address", "write https://api.github.com")
        if url.startswith("http://") and not local:
            document.refuse(("github", key), "is not encrypted", "a token goes there: use https")


def _check_host(document: Document, path: Path, host: str) -> None:
    import re

    if not re.match(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?\Z", host):
        document.refuse(path, "is not a host", "write example.org, or 127.0.0.1:8931 with a port")


def _check_work(document: Document, path: Path, dataset: DatasetConfig) -> None:
    """Either code or a declaration, never both, never neither."""
    if dataset.updater is None:
        if not dataset.outputs:
            document.refuse(path, "has neither an updater nor outputs", "add updater: file.py:Class, or outputs")
        if not dataset.version:
            document.refuse(path, "has outputs and no version", 'add a line like version: "1.0.0"')
        if len(dataset.version) > 100 or not is_printable(dataset.version):
            document.refuse((*path, "version"), "is not a short printable text", 'write one like "1.0.0"')
        return
    _check_updater(document, (*path, "updater"), dataset.updater)
    if dataset.outputs:
        document.refuse((*path, "outputs"), "stand beside an updater", "keep one of the two")
    if dataset.version:
        document.refuse((*path, "version"), "stands beside an updater, whose class has its own", "remove it")


def _check_updater(document: Document, path: Path, spec: str) -> None:
    module, _, name = spec.rpartition(":")
    dots = all(map(names.is_identifier, module.split(".")))
    if not names.is_identifier(name) or not is_printable(module) or not (module.endswith(".py") or dots):
        document.refuse(path, "does not name an updater", "write updaters/stations.py:Stations")


def _check_extent(document: Document, path: Path, extent: Extent) -> None:
    box = extent.bbox
    if box:
        if len(box) != 4:
            document.refuse((*path, "bbox"), "must hold four numbers", "west, south, east, north")
        west, south, east, north = box
        if not (-180 <= west <= 180 and -180 <= east <= 180 and -90 <= south <= north <= 90):
            document.refuse((*path, "bbox"), "is not on the globe", "west, south, east, north in degrees")
    if extent.interval:
        if len(extent.interval) != 2:
            document.refuse((*path, "interval"), "must hold two instants", "first and last; null for an open end")
        from kfm.clock import parse_instant

        for index, text in enumerate(extent.interval):
            try:
                parse_instant("0" if text is None else text, "")
            except BadInput as error:
                document.refuse((*path, "interval", index), "is not an instant", error.hint)


def _check_source(document: Document, path: Path, source: SourceConfig) -> None:
    if not path[-1] or not is_printable(str(path[-1])) or len(str(path[-1])) > 63:
        document.refuse(path, "is not a name for a source", "use a short plain name")
    uri = source.uri
    if not is_printable(uri) or uri != uri.strip():
        document.refuse((*path, "uri"), "holds a space or control character at an edge", "use a plain URL or path")
    scheme = uri.partition("://")[0] if "://" in uri else "file"
    if scheme not in ("http", "https", "file"):
        document.refuse((*path, "uri"), "is of a kind this version does not read", "use http, https or a file path")
    if "://" in uri and "@" in uri.partition("://")[2].partition("/")[0]:
        document.refuse(
            (*path, "uri"),
            "holds a user name or password",
            "give them by reference under `headers:`",
        )
    check_secrets(document, path, uri, source.headers, source.query)
    if source.expect_hash and not names.is_digest(source.expect_hash):
        document.refuse((*path, "expect_hash"), "is not a digest", "write sha256: and 64 hex digits")
    for index, host in enumerate(source.hosts):
        _check_host(document, (*path, "hosts", index), host)
    declared = _given(document.value, (*path, "contract", "format"))
    if source.format is not None and declared and source.contract.format != source.format:
        document.refuse((*path, "format"), "and contract.format differ", "say it once")
    _check_contract(document, (*path, "contract"), source.contract)


def _check_contract(document: Document, path: Path, contract: DataContract) -> None:
    from kfm.documents.encodings import KNOWN, encoding_of, is_delimiter

    if not encoding_of(contract.encoding):
        document.refuse((*path, "encoding"), "is not an encoding", f"use one of {', '.join(KNOWN)}")
    if not is_delimiter(contract.delimiter):
        document.refuse((*path, "delimiter"), "must be one character", 'write "," or "\\t" in double quotes')
    seen: set[str] = set()
    for index, column in enumerate(contract.columns):
        here: Path = (*path, "columns", index)
        if not column.name or column.name in seen:
            document.refuse((*here, "name"), "is empty or given twice", "name each column once")
        seen.add(column.name)
        if column.pattern:
            from kfm.documents.patterns import pattern_flaw  # not free to load, and few contracts have one

            if flaw := pattern_flaw(column.pattern):
                document.refuse((*here, "pattern"), flaw, "correct it; test it on one value")
        if column.minimum is not None and column.maximum is not None and column.minimum > column.maximum:
            document.refuse((*here, "minimum"), "is above maximum", "swap them")


# ------------------------------------------------------------------------------------ telling and hiding


def leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every single setting with its path; lists of plain values are one setting."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, (list, tuple)) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value


def _given(raw: Any, path: Path) -> bool:
    for part in path:
        in_mapping = isinstance(raw, dict) and part in raw
        in_list = isinstance(raw, list) and isinstance(part, int) and part < len(raw)
        if not in_mapping and not in_list:
            return False
        raw = raw[part]
    return True
