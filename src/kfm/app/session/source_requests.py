"""What the sources of a dataset are asked for: what is fetched, and which versions of other datasets are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kfm.config.upstream_datasets import metadata_of
from kfm.engine.run_context import Settings
from kfm.engine.stage_results import Wanted
from kfm.model.names import dataset_id
from kfm.model.records import DataContract, FetchRequest
from kfm.store.process_identity import this_process

if TYPE_CHECKING:
    from kfm.config import Config, DatasetConfig, Resolved

Fetches = dict[str, tuple[FetchRequest, DataContract | None]]
Reads = dict[str, tuple[Wanted, DataContract | None]]


def asked_of(declared: DatasetConfig | None, request: FetchRequest) -> tuple[Fetches, Reads]:
    """By the names of the sources. `request` has the limits of the installation."""
    fetched: Fetches = {}
    read: Reads = {}
    for name, source in (declared.sources if declared else {}).items():
        contract = source.data_contract()
        asked = None if contract == DataContract() else contract
        if source.dataset:
            wanted = Wanted(dataset_id(source.dataset), source.zone, source.key, source.version, source.complete)
            read[name] = (wanted, asked)
            continue
        again = request.revalidate_ms if source.revalidate_s is None else round(source.revalidate_s * 1000)
        fetched[name] = (
            msgspec.structs.replace(
                request,
                uri=source.known_as,
                name=name,
                hosts=source.hosts,
                expect_hash=source.expect_hash,
                media_type=source.media_type,
                complete=source.complete,
                revalidate_ms=again,
            ),
            asked,
        )
    return fetched, read


class Declared(NamedTuple):
    """What kfm.yml says of a dataset, as a run of it is handed it: the same for every run of an open house."""

    config: Config
    request: FetchRequest  # with the limits of the installation
    sources: Fetches
    datasets: Reads
    metadata: Mapping[str, Any]
    settings: Settings
    config_hash: str

    def holds(self, config: Config) -> bool:
        """Not where it was read again, nor in a child that was forked since."""
        return self.config is config and self.settings.holder == this_process()


def declared_of(resolved: Resolved, config: Config, name: str, *, dry: bool) -> Declared:
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
    )
    found = config.datasets.get(name)
    sources, datasets = asked_of(found, request)
    metadata = metadata_of(config.datasets, name)
    return Declared(config, request, sources, datasets, metadata, settings, found.digest() if found else "")
