"""The requests of a dataset's sources: what is fetched, and which versions of other datasets are read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kfm.config.config_file import sink_names
from kfm.config.upstream_datasets import metadata_of
from kfm.engine.stage_results import Wanted
from kfm.engine.world import Settings
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.names import dataset_id
from kfm.model.records import DataContract, FetchRequest
from kfm.store.process_identity import this_process

if TYPE_CHECKING:
    from kfm.config import Config, DatasetConfig, Resolved
    from kfm.config.source_settings import SourceConfig

IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,399}")
Fetches = dict[str, tuple[FetchRequest, DataContract | None]]
Reads = dict[str, tuple[Wanted, DataContract | None]]


def source_requests(declared: DatasetConfig | None, request: FetchRequest) -> tuple[Fetches, Reads]:
    """Return what to fetch and which datasets to read, by source. `request` holds the limits of the installation."""
    fetched: Fetches = {}
    read: Reads = {}
    for name, source in (declared.sources if declared else {}).items():
        contract = source.data_contract()
        checked = None if contract == DataContract() else contract
        if source.dataset:
            wanted = Wanted(dataset_id(source.dataset), source.zone, source.key, source.version, source.complete)
            read[name] = (wanted, checked)
            continue
        fetched[name] = (
            msgspec.structs.replace(
                request,
                uri=source.known_as,
                name=name,
                hosts=source.hosts,
                expect_hash=source.expect_hash,
                media_type=source.media_type,
                complete=source.complete,
                **_limits(source),
            ),
            checked,
        )
    return fetched, read


def _limits(source: SourceConfig) -> dict[str, int]:
    """Return the limits that a source declares for itself; the others are those of the installation."""
    said = (("timeout_ms", source.timeout_s), ("total_ms", source.total_s), ("revalidate_ms", source.revalidate_s))
    limits = {name: round(value * 1000) for name, value in said if isinstance(value, (int, float))}
    if source.max_bytes is not msgspec.UNSET:
        limits["max_bytes"] = source.max_bytes
    return limits


class DatasetSettings(NamedTuple):
    """The settings of a dataset, as its runs need them. They are the same for every run of a session."""

    config: Config
    request: FetchRequest  # holds the limits of the installation
    sources: Fetches
    datasets: Reads
    metadata: Mapping[str, Any]
    settings: Settings
    config_hash: str
    config_body: bytes  # the canonical JSON with this digest

    def holds(self, config: Config) -> bool:
        """Return whether these settings still apply: not after kfm.yml was read again, nor in a forked child
        process."""
        return self.config is config and self.settings.holder == this_process()


def _worker_image() -> str:
    """Return the image of the container that this process runs in, which the files of `kfm runners write` set; empty if
    it is not known, or not the name of an image."""
    named = os.environ.get("KFM_WORKER_IMAGE", "")
    return named if IMAGE.fullmatch(named) else ""


def dataset_settings(resolved: Resolved, config: Config, name: str, *, dry: bool) -> DatasetSettings:
    """Return the settings of a dataset as its runs need them."""
    network, execute = config.network, config.execute
    request = FetchRequest(
        uri="",
        base_dir=resolved.tree,
        roots=config.read_from,
        allow=network.allow,
        max_bytes=network.max_bytes,
        timeout_ms=round(network.timeout_s * 1000),
        total_ms=round(network.total_s * 1000),
        revalidate_ms=round(network.revalidate_s * 1000),
    )
    settings = Settings(
        threads=execute.threads,
        window=execute.window,
        lease_ms=round(execute.lease_s * 1000),
        deletion_budget=config.deletion_budget,
        holder=this_process(),
        dry_run=dry,
        worker_image=_worker_image(),
        sinks=sink_names(config),
    )
    found = config.datasets.get(name)
    sources, datasets = source_requests(found, request)
    metadata = metadata_of(config.datasets, name)
    body = canonical(found) if found else b""
    return DatasetSettings(config, request, sources, datasets, metadata, settings, digest(body) if body else "", body)
