"""What the sources of a dataset are asked for: what is fetched, and which versions of other datasets are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kfm.contract.names import dataset_id
from kfm.contract.records import DataContract, FetchRequest
from kfm.engine.stations import Wanted

if TYPE_CHECKING:
    from kfm.config import DatasetConfig

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
