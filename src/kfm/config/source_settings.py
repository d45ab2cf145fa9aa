"""The `sources` of a dataset."""

from __future__ import annotations

import posixpath
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kfm.config.network_settings import check_host
from kfm.config.s3_settings import is_object
from kfm.config.setting_values import Interval, Seconds, Text, given
from kfm.model import format_rules, names
from kfm.model.operation_target import REF
from kfm.model.records import DataContract, Record
from kfm.model.secret_refs import check_secrets, percent, referring
from kfm.model.source_formats import Format as Format
from kfm.model.transform_config import Expected
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document, Path

Zone = Literal["processed", "published"]
# Settings of fetched sources, and settings of sources that are datasets.
_FETCHED = (
    "expect_hash", "hosts", "headers", "query", "revalidate_s", "media_type", "mask", "poll_s",
    "unpack", "member", "timeout_s", "total_s", "max_bytes",
)  # fmt: skip
_DOTS = frozenset({".", ".."})
_READ = ("key", "version", "zone")


class SourceConfig(Record, frozen=True):
    """One source, and its data contract."""

    uri: Annotated[
        str,
        Meta(max_length=4096, description="http(s) URL, s3://BUCKET/KEY, or a path below the folder of this file"),
    ] = ""
    dataset: Annotated[
        str, Meta(max_length=4096, description="instead of a uri: a dataset of this file; its version is pinned")
    ] = ""
    zone: Annotated[Zone, Meta(description="of a dataset: read its processed or its published version")] = "processed"
    key: Annotated[
        tuple[Text, ...], Meta(description="of a dataset: the key to read, such as [tops]; empty: its only one")
    ] = ()
    version: Annotated[str, Meta(description="of a dataset: sha256:<hex> of the version to read")] = ""
    format: Annotated[Format | None, Meta(description="how the bytes are read; the same as contract.format")] = None
    contract: Annotated[DataContract, Meta(description="the data contract")] = DataContract()
    expect: Annotated[Expected | None, Meta(description="parquet, shapes, grids: further requirements")] = None
    complete: Annotated[bool, Meta(description="the source is complete, so keys that it lacks may be deleted")] = False
    expect_hash: Annotated[str, Meta(description="sha256:<hex> the bytes must have")] = ""
    hosts: Annotated[tuple[Text, ...], Meta(description="other hosts a redirect may lead to")] = ()
    headers: Annotated[
        dict[str, Text], Meta(description="sent only to its origin; each value is env:NAME or file:PATH")
    ] = {}
    query: Annotated[
        dict[str, Text], Meta(description="parameters added to the URL; each value is env:NAME or file:PATH")
    ] = {}
    revalidate_s: Annotated[Interval | None, Meta(description="like network.revalidate_s, for this source")] = None
    timeout_s: Annotated[
        Seconds | msgspec.UnsetType, Meta(description="like network.timeout_s, for this source; Python only")
    ] = msgspec.UNSET
    total_s: Annotated[
        Seconds | msgspec.UnsetType, Meta(description="like network.total_s, for this source; Python only")
    ] = msgspec.UNSET
    max_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=1 << 50)] | msgspec.UnsetType,
        Meta(description="like network.max_bytes, for this source; Python only"),
    ] = msgspec.UNSET
    media_type: Annotated[str, Meta(description="instead of the one the server names")] = ""
    unpack: Annotated[
        Literal["gzip"] | msgspec.UnsetType, Meta(description="the file is gzipped: read its content; Python only")
    ] = msgspec.UNSET
    member: Annotated[
        Annotated[str, Meta(min_length=1, max_length=1000)] | msgspec.UnsetType,
        Meta(description="the file is a zip or tar archive: read this member, e.g. data/wells.csv; Python only"),
    ] = msgspec.UNSET
    mask: Annotated[
        str, Meta(max_length=4096, description="path of the masking policy, which says what is made public")
    ] = ""
    poll_s: Annotated[Interval | None, Meta(description="like watch.poll_s, for this source; 0: never")] = None

    @property
    def known_as(self) -> str:
        """The URI of the source in records, with references in place of secrets."""
        if self.dataset:
            return f"{REF}{self.zone}/{names.dataset_id(self.dataset)}"
        return self.packed_as + self._inside

    @property
    def packed_as(self) -> str:
        """The URI of the archive in records, if a member of it is read."""
        return referring(self.uri, self.headers, self.query)

    @property
    def _inside(self) -> str:
        said = f"member={percent(self.member.encode())}" if self.member else f"unpack={self.unpack}"
        mark = "&" if "#" in self.packed_as else "#"
        return mark + said if self.is_packed else ""

    @property
    def is_packed(self) -> bool:
        return bool(self.member or self.unpack)

    def data_contract(self) -> DataContract:
        """Return the contract with the format of the source and its further requirements."""
        said = self.contract if self.format is None else msgspec.structs.replace(self.contract, format=self.format)
        return said if self.expect is None else format_rules.expecting(said, self.expect)


def check_source(document: Document, path: Path, source: SourceConfig) -> None:
    if not path[-1] or not is_printable(str(path[-1])) or len(str(path[-1])) > 63:
        document.refuse(path, "is not a name for a source", "use a short plain name")
    if bool(source.uri) == bool(source.dataset):
        document.refuse(path, "needs one of uri and dataset", "write uri: https://… or dataset: NAME")
    else:
        _check_kind(document, path, source)
    uri = source.uri
    if not is_printable(uri) or uri != uri.strip():
        document.refuse((*path, "uri"), "holds a space or control character at an edge", "use a plain URL or path")
    scheme = uri.partition("://")[0] if "://" in uri else "file"
    if scheme not in ("http", "https", "file", "s3"):
        document.refuse(
            (*path, "uri"), "has a scheme that this version cannot read", "use http, https, s3 or a file path"
        )
    if scheme == "s3" and not is_object(uri):
        document.refuse((*path, "uri"), "does not name an S3 object", "write s3://BUCKET/KEY, without ? and #")
    if "://" in uri and "@" in uri.partition("://")[2].partition("/")[0]:
        document.refuse(
            (*path, "uri"),
            "holds a user name or password",
            "give them as references under `headers:`",
        )
    check_secrets(document, path, uri, source.headers, source.query)
    if source.is_packed:
        _check_packed(document, path, source)
    if source.expect_hash and not names.is_digest(source.expect_hash):
        document.refuse((*path, "expect_hash"), "is not a digest", "write sha256: and 64 hex digits")
    if source.mask and not is_printable(source.mask):
        document.refuse((*path, "mask"), "holds a control character", "use a plain path")
    for index, host in enumerate(source.hosts):
        check_host(document, (*path, "hosts", index), host)
    declared = given(document.value, (*path, "contract", "format"))
    if source.format is not None and declared and source.contract.format != source.format:
        document.refuse((*path, "format"), "and contract.format differ", "say it once")
    _check_contract(document, (*path, "contract"), source.contract)
    if source.expect is not None:
        if source.data_contract().format not in format_rules.GEOGRAPHIC:
            hint = f"it is for {', '.join(format_rules.GEOGRAPHIC)}"
            document.refuse((*path, "expect"), "has no meaning for this format", hint)
        elif problem := format_rules.problem_of(source.expect, source.data_contract().format):
            document.refuse((*path, "expect", problem[0]), problem[1], problem[2])


def check_folder(document: Document, path: Path, folder: str) -> None:
    plain = folder.startswith("/") and not folder.startswith("//") and posixpath.normpath(folder) == folder
    if not plain or folder == "/" or not is_printable(folder):
        document.refuse(path, "is not the absolute path of a folder", "write a plain path, e.g. /mnt/archive")


def _check_kind(document: Document, path: Path, source: SourceConfig) -> None:
    """Raise BadInput for a setting of fetched sources on a dataset, or the other way round."""
    kind, others = ("a dataset", _FETCHED) if source.dataset else ("a uri", _READ)
    nothing = SourceConfig()
    for name in others:
        if getattr(source, name) != getattr(nothing, name):
            document.refuse((*path, name), f"has no meaning next to {kind}", "remove it")
    if source.version and not names.is_digest(source.version):
        document.refuse((*path, "version"), "is not a digest", "write sha256: and 64 hex digits")


def _check_packed(document: Document, path: Path, source: SourceConfig) -> None:
    if source.member and source.unpack:
        document.refuse((*path, "unpack"), "has no meaning next to a member", "remove it: a gzipped tar is recognized")
    member = source.member or ""
    if (
        not is_printable(member)
        or member.startswith("/")
        or "\\" in member
        or not set(member.split("/")).isdisjoint(_DOTS)
    ):
        document.refuse(
            (*path, "member"),
            "is not a path within an archive",
            "write it as the archive lists it, e.g. data/wells.csv",
        )
    if "#" in source.uri:
        document.refuse((*path, "uri"), "of an archive holds '#'", "rename the file, or leave the fragment out")


def _check_contract(document: Document, path: Path, contract: DataContract) -> None:
    from kfm.parsing.encodings import KNOWN, encoding_of, is_delimiter

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
            from kfm.parsing.patterns import pattern_flaw  # slow to load, and few contracts have a pattern

            if flaw := pattern_flaw(column.pattern):
                document.refuse((*here, "pattern"), flaw, "correct it; test it on one value")
        if column.minimum is not None and column.maximum is not None and column.minimum > column.maximum:
            document.refuse((*here, "minimum"), "is above maximum", "swap them")
