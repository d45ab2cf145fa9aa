"""Adds discovered sources to the text of kfm.yml, and leaves every other line as it is."""

from __future__ import annotations

from typing import Any

from kfm.config.config_loader import checked
from kfm.errors import Refused
from kfm.model.reports.discovered_datasets import Discovery, Finding, Offer
from kfm.parsing import documents
from kfm.parsing.documents import Path, dotted
from kfm.parsing.yaml_edit import Block, NotEditable, YamlEdit, flow, quoted, scalar

MIRROR = "kfm.updaters.mirror:Mirror"
FORMATS = {"text/csv": "csv", "application/geo+json": "geojson", "application/x-ndjson": "ndjson"}
_KEEP = "nobody has said yet how open it is (`sensitivity`): it is promoted by nobody before"


def declared(body: bytes, where: str, found: Discovery) -> tuple[bytes, list[tuple[str, Finding]], list[str]]:
    """Return the text of kfm.yml with the discovered sources added, the added findings with their datasets, and the
    datasets that a person must change. Raise Refused, with the lines to write, if the text cannot be changed in place.
    """
    config = _Config(body, where)
    done: list[tuple[str, Finding]] = []
    by_hand: list[str] = []
    for finding in found.findings:
        wanted = [offer for offer in finding.offers if offer.status != "known"]
        if not wanted:
            continue
        if finding.status == "new":
            config.add_dataset(finding)
            done.append((finding.id, finding))
        elif config.is_mirror(finding.dataset) and config.add_sources(finding, wanted):
            done.append((finding.dataset, finding))
        else:
            by_hand.append(finding.dataset)
    return config.written(), done, by_hand


class _Config:
    """The text of kfm.yml, and the lines that are added to it."""

    def __init__(self, body: bytes, where: str) -> None:
        self._where = where
        self._edit = YamlEdit(body, where, plain=False)
        self._lines: list[str] = []

    def is_mirror(self, dataset: str) -> bool:
        found = self._edit.value.get("datasets", {}).get(dataset)
        return isinstance(found, dict) and found.get("updater") == MIRROR

    def add_dataset(self, finding: Finding) -> None:
        said: dict[str, Any] = {"updater": MIRROR, "title": finding.title}
        for name in ("description", "license", "attribution"):
            if getattr(finding, name):
                said[name] = getattr(finding, name)
        extent: dict[str, Any] = {}
        if finding.bbox:
            extent["bbox"] = list(finding.bbox)
        if finding.interval:
            extent["interval"] = list(finding.interval)
        if extent:
            said["extent"] = extent
        said["sources"] = Block({offer.name: _source(offer) for offer in finding.offers})
        self._set(("datasets", finding.id), Block(said, comment=_KEEP))

    def add_sources(self, finding: Finding, offers: list[Offer]) -> int:
        return sum(self.add_source(finding, offer) for offer in offers)

    def add_source(self, finding: Finding, offer: Offer) -> bool:
        """Add a source to a dataset that only mirrors its sources, or change the expected hash of one. Return False if
        neither is possible."""
        sources = self._edit.value["datasets"][finding.dataset].get("sources", {})
        above: Path = ("datasets", finding.dataset, "sources")
        if offer.status == "changed":
            dataset, _, name = offer.source.partition("/")
            if dataset != finding.dataset or not sources.get(name, {}).get("expect_hash", ""):
                return False
            self._set((*above, name, "expect_hash"), offer.digest)
            return True
        if not sources or offer.name in sources:
            return False
        self._set((*above, offer.name), _source(offer))
        return True

    def _set(self, path: Path, value: Any) -> None:
        self._lines.append(f"under {dotted(path[:-1])}: {scalar(str(path[-1]))}: {flow(value, quoted)}")
        try:
            if path[0] not in self._edit.value:
                self._edit.set(path[:1], {})
            self._edit.set(path, value)
        except NotEditable:
            raise self._cannot() from None

    def written(self) -> bytes:
        try:
            body = self._edit.body()
        except NotEditable:
            raise self._cannot() from None
        checked(documents.read(body, self._where, json=False))
        return body

    def _cannot(self) -> Refused:
        return Refused(
            f"{self._where} is written in a way that nothing can be added to without changing more; write there "
            f"yourself, {'; '.join(self._lines)}",
            hint="or write `datasets:` and `sources:` as blocks, a line for each name",
        )


def _source(offer: Offer) -> dict[str, Any]:
    said = {"uri": offer.uri}
    kind = FORMATS.get(offer.media_type.partition(";")[0].strip().lower())
    if kind:
        said["format"] = kind
    if offer.media_type:
        said["media_type"] = offer.media_type
    if offer.digest:
        said["expect_hash"] = offer.digest
    return said
