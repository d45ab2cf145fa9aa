"""A connector for STAC: it publishes every asset of the items and collections that kfm.yml names, unchanged.

    sources:
      scene: {uri: https://stac.example.org/collections/c/items/scene.json, format: stac}

A document is an item, an item collection, or a collection; a collection stands for its own assets and the items that
it links to. The key of an asset is its item and its name there. The author of a document is not the author of
kfm.yml: an address in it must be on the document's own host or on one of `hosts`, and no foreign document leads to
this machine or into a bucket that our keys open.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, NamedTuple

from kfm.errors import Refused
from kfm.model.connector import (
    Capabilities,
    Check,
    Connector,
    Context,
    RawManifest,
    ValidationReport,
    WorkArtifacts,
)
from kfm.model.records import SourceRef
from kfm.model.updater import Output, Reader
from kfm.parsing.characters import is_printable
from kfm.parsing.strict_json import decode

CHUNK = 1 << 20
MOST_ITEMS = 1000
MOST_ASSETS = 10_000
_SHA256 = "1220"  # the start of a SHA-256 multihash


class Found(NamedTuple):
    """An asset and the address that a document gives for it."""

    key: tuple[str, str]
    address: str
    digest: str  # the required digest; empty: none is given


class Assets(Connector):
    """The connector for STAC. A subclass may allow more `hosts`, or publish only the assets with certain `names`."""

    version = "1.0.0"
    hosts: ClassVar[tuple[str, ...]] = ()  # hosts of assets and items besides that of their document
    names: ClassVar[tuple[str, ...]] = ()  # the names of the wanted assets; empty: all

    def discover(self, ctx: Context) -> Capabilities:
        """Pin the documents and the assets they name. The documents of kfm.yml come first."""
        found: list[Found] = []
        items = 0
        for name in ctx.sources.names():
            ref = ctx.sources.pin(name)
            document = _read(ctx, ref)
            found += self._assets(document, ref)
            for link in _items(document):
                items += 1
                if items > MOST_ITEMS:
                    raise Refused(f"a collection links to more than {MOST_ITEMS} items", hint="name fewer of them")
                there = ctx.sources.pin(self._address(link, ref))
                found += self._assets(_read(ctx, there), there)
        if len(found) > MOST_ASSETS:
            raise Refused(
                f"there are more than {MOST_ASSETS} assets", hint="name some of them in a subclass, as `names`"
            )
        for asset in found:
            ctx.sources.pin(asset.address, partition=asset.key, expect_hash=asset.digest)
        return Capabilities(())

    def transform(self, ctx: Context, manifest: RawManifest) -> WorkArtifacts:  # noqa: ARG002
        made = {}
        for position, ref in enumerate(manifest.sources):
            if ref.partition:
                if ref.partition in made:
                    raise Refused("two items have one id", hint="ask the publisher of the catalog")
                made[ref.partition] = partial(_copied, position, ref.media_type)
        named = [ref for ref in manifest.sources if ref.name]
        return WorkArtifacts(made, complete=bool(named) and all(ref.complete for ref in named))

    def validate(self, ctx: Context, work: WorkArtifacts) -> ValidationReport:
        wanted = {ref.partition for ref in ctx.read.inputs if ref.partition}
        return ValidationReport(
            (Check("assets.some", bool(wanted)), Check("assets.all", wanted == set(work.artifacts)))
        )

    def _assets(self, document: dict[str, Any], ref: SourceRef) -> Iterator[Found]:
        members = document.get("features") if document.get("type") == "FeatureCollection" else [document]
        for item in members if isinstance(members, list) else []:
            assets = item.get("assets") if isinstance(item, dict) else None
            for name, asset in (assets if isinstance(assets, dict) else {}).items():
                if self.names and name not in self.names:
                    continue
                if not isinstance(asset, dict) or not _is_name(item.get("id")) or not _is_name(name):
                    raise Refused("an asset has no plain id or name", hint="ask the publisher of the catalog")
                said = asset.get("file:checksum", "")
                plain = isinstance(said, str) and said[:4] == _SHA256 and len(said) == 68
                yield Found(
                    (item["id"], name), self._address(asset.get("href"), ref), f"sha256:{said[4:]}" if plain else ""
                )

    def _address(self, href: Any, ref: SourceRef) -> str:
        """Return the address of an asset or item in a document. Raise Refused if it is not allowed."""
        if not isinstance(href, str) or not href or len(href) > 4000 or not is_printable(href):
            raise Refused(
                "a STAC document names an asset or item without an address", hint="ask the publisher of the catalog"
            )
        base = ref.uri.partition("#")[0].partition("?")[0]
        scheme = href.partition(":")[0].lower() if ":" in href.partition("/")[0] else ""
        if "://" not in base:  # a file, so its assets are files too
            if scheme in ("http", "https"):
                return self._allowed(href, "")
            if scheme or href.startswith("/"):
                raise _elsewhere()
            path = posixpath.normpath(posixpath.join(posixpath.dirname(base), href.partition("#")[0]))
            return path if path.startswith("/") else f"./{path}"  # so that it is not taken for the name of a source
        from urllib.parse import urljoin

        joined = _joined(base, href) if base.startswith("s3://") else urljoin(base, href)
        return self._allowed(joined.partition("#")[0], base)

    def _allowed(self, address: str, base: str) -> str:
        there = "/".join(address.split("/")[:3]).lower()
        if base and there == "/".join(base.split("/")[:3]).lower():
            return address
        host = there.partition("://")[2]
        if there.startswith(("https://", "http://")) and host in self.hosts and "@" not in host:
            return address
        raise _elsewhere()


def _joined(base: str, href: str) -> str:
    """Return a relative address joined to the address of an object in a bucket, which urljoin does not support."""
    if "://" in href:
        return href
    bucket, _, key = base.removeprefix("s3://").partition("/")
    below = posixpath.normpath(posixpath.join("/", posixpath.dirname(key), href))
    return f"s3://{bucket}{below}"


def _elsewhere() -> Refused:
    return Refused(
        "a STAC document names an address on another host than its own",
        hint="if this is intended, name the host in a subclass of kfm.updaters.stac_assets:Assets, as `hosts`",
    )


def _read(ctx: Context, ref: SourceRef) -> dict[str, Any]:
    document = decode(ctx.sources.bytes(ref), "a STAC document")
    if not isinstance(document, dict):
        raise Refused("a STAC document is not an object", hint="name an item, an item collection or a collection")
    return document


def _items(document: dict[str, Any]) -> Iterator[Any]:
    links = document.get("links") if document.get("type") == "Collection" else None
    for link in links if isinstance(links, list) else []:
        if isinstance(link, dict) and link.get("rel") == "item":
            yield link.get("href")


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and 0 < len(text) <= 200 and is_printable(text)


def _copied(position: int, media_type: str, read: Reader) -> Output:
    return Output(_pieces(position, read), media_type or "application/octet-stream")


def _pieces(position: int, read: Reader) -> Iterator[bytes]:
    with read.open(position) as file:
        while piece := file.read(CHUNK):
            yield piece
