"""A connector for STAC: every asset of the items and collections that kfm.yml names is published as it came.

    sources:
      scene: {uri: https://stac.example.org/collections/c/items/scene.json, format: stac}

A document is an item, an item collection, or a collection: then its own assets, and the items that it links to. The key
of an asset is its item and its name there. A document names addresses, and whoever writes it is not whoever wrote
kfm.yml: what it names must lie where it lies itself, or on one of `hosts`, and from elsewhere nothing leads to this
machine or into a bucket that our keys open.
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
_SHA256 = "1220"  # how a multihash of SHA-256 begins


class Found(NamedTuple):
    """An asset, where it was named."""

    key: tuple[str, str]
    address: str
    digest: str  # that it must have; empty: nobody says


class Assets(Connector):
    """Subclass it to read from more `hosts`, or only some `names`."""

    version = "1.0.0"
    hosts: ClassVar[tuple[str, ...]] = ()  # that assets and items may lie on beside the one of their document
    names: ClassVar[tuple[str, ...]] = ()  # of the assets that are wanted; empty: all

    def discover(self, ctx: Context) -> Capabilities:
        """Pins the documents, and what they name. Those of kfm.yml come first."""
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
                    raise Refused("two items have one id", hint="ask whoever writes the catalog")
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
                    raise Refused("an asset has no plain id or name", hint="ask whoever writes the catalog")
                said = asset.get("file:checksum", "")
                plain = isinstance(said, str) and said[:4] == _SHA256 and len(said) == 68
                yield Found(
                    (item["id"], name), self._address(asset.get("href"), ref), f"sha256:{said[4:]}" if plain else ""
                )

    def _address(self, href: Any, ref: SourceRef) -> str:
        """Where something lies that a document names."""
        if not isinstance(href, str) or not href or len(href) > 4000 or not is_printable(href):
            raise Refused("a STAC document names something without an address", hint="ask whoever writes it")
        base = ref.uri.partition("#")[0].partition("?")[0]
        scheme = href.partition(":")[0].lower() if ":" in href.partition("/")[0] else ""
        if "://" not in base:  # a file: so is what lies beside it
            if scheme in ("http", "https"):
                return self._allowed(href, "")
            if scheme or href.startswith("/"):
                raise _elsewhere()
            path = posixpath.normpath(posixpath.join(posixpath.dirname(base), href.partition("#")[0]))
            return path if path.startswith("/") else f"./{path}"  # and not the name of a source
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
    """In a bucket. urljoin knows nothing of it."""
    if "://" in href:
        return href
    bucket, _, key = base.removeprefix("s3://").partition("/")
    below = posixpath.normpath(posixpath.join("/", posixpath.dirname(key), href))
    return f"s3://{bucket}{below}"


def _elsewhere() -> Refused:
    return Refused(
        "a STAC document names something that lies elsewhere than it does itself",
        hint="if this is meant, name its host in a subclass of kfm.updaters.stac_assets:Assets, as `hosts`",
    )


def _read(ctx: Context, ref: SourceRef) -> dict[str, Any]:
    document = decode(ctx.sources.bytes(ref), "a STAC document")
    if not isinstance(document, dict):
        raise Refused("a STAC document is no object", hint="name an item, an item collection or a collection")
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
