"""A connector without code of its own: it publishes the sources named in kfm.yml unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kfm.model.connector import (
    Capabilities,
    Check,
    Connector,
    Context,
    RawManifest,
    ValidationReport,
    WorkArtifacts,
)
from kfm.model.updater import Output, Reader

CHUNK = 1 << 20


class Mirror(Connector):
    """Publishes every source of the dataset under its name, byte for byte as far as its contract accepts it."""

    version = "1.0.0"

    def discover(self, ctx: Context) -> Capabilities:
        return Capabilities(tuple(ctx.sources.names()))

    def transform(self, ctx: Context, manifest: RawManifest) -> WorkArtifacts:  # noqa: ARG002
        return WorkArtifacts({(ref.name,): partial(_copied, ref.name, ref.media_type) for ref in manifest.sources})

    def validate(self, ctx: Context, work: WorkArtifacts) -> ValidationReport:
        named = {ref.name for ref in ctx.read.inputs}
        return ValidationReport(
            (Check("sources.some", bool(named)), Check("sources.all", named == {key[0] for key in work.artifacts}))
        )


def _copied(name: str, media_type: str, read: Reader) -> Output:
    return Output(_pieces(name, read), media_type or "application/octet-stream")


def _pieces(name: str, read: Reader) -> Iterator[bytes]:
    with read.open(name) as file:
        while piece := file.read(CHUNK):
            yield piece
