"""Puts what was discovered into the text of kfm.yml, and leaves every other line as it is.

The new text is read again, and must say exactly what was said before and what was to be added: where that is not so,
because it is written in a way that cannot be added to, nothing is done.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from kfm.config.config_loader import checked
from kfm.errors import BadInput, Refused
from kfm.model.reports.discovered_datasets import Discovery, Finding, Offer
from kfm.parsing import documents
from kfm.parsing.documents import Document

MIRROR = "kfm.updaters.mirror:Mirror"
FORMATS = {"text/csv": "csv", "application/geo+json": "geojson", "application/x-ndjson": "ndjson"}
_KEEP = "# nobody has said yet how open it is (`sensitivity`): it is promoted by nobody before"


def declared(body: bytes, where: str, found: Discovery) -> tuple[bytes, list[tuple[str, Finding]], list[str]]:
    """The new text, which findings are in it under which dataset, and what has to be declared by hand."""
    text = _Text(body, where)
    done: list[tuple[str, Finding]] = []
    by_hand: list[str] = []
    for finding in found.findings:
        wanted = [offer for offer in finding.offers if offer.status != "known"]
        if not wanted:
            continue
        if finding.status == "new":
            text.add_dataset(finding)
            done.append((finding.id, finding))
        elif text.is_mirror(finding.dataset) and text.add_sources(finding, wanted):
            done.append((finding.dataset, finding))
        else:
            by_hand.append(finding.dataset)
    return text.written(), done, by_hand


class _Text:
    """The lines of the file, and what they are to say."""

    def __init__(self, body: bytes, where: str) -> None:
        self._where = where
        text = body.decode("utf-8")
        self._ending = "\r\n" if "\r\n" in text else "\n"
        self._lines = text.split(self._ending)
        if self._lines[-1] == "":
            del self._lines[-1]
        self._document = self._read()
        self._wanted: dict[str, Any] = copy.deepcopy(self._document.value)

    def _read(self) -> Document:
        return documents.read(self._ending.join([*self._lines, ""]).encode(), self._where, json=False)

    def is_mirror(self, dataset: str) -> bool:
        found = self._wanted.get("datasets", {}).get(dataset)
        return isinstance(found, dict) and found.get("updater") == MIRROR

    def add_dataset(self, finding: Finding) -> None:
        first = next(iter(self._wanted["datasets"]), None)
        start = self._line(("datasets",)) if first is None else self._line(("datasets", first))
        pad = " " * (2 if first is None else _indent(self._lines[start]))
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
        lines = [f"{pad}{finding.id}:", f"{pad}  {_KEEP}"]
        lines += [f"{pad}  {name}: {_flow(value)}" for name, value in said.items()]
        sources = {offer.name: _source(offer) for offer in finding.offers}
        lines += [f"{pad}  sources:", *(f"{pad}    {name}: {_flow(value)}" for name, value in sources.items())]
        self._insert(self._end(start, len(pad)), lines)
        self._wanted["datasets"][finding.id] = {**said, "sources": sources}

    def add_sources(self, finding: Finding, offers: list[Offer]) -> int:
        return [self.add_source(finding, offer) for offer in offers].count(True)

    def add_source(self, finding: Finding, offer: Offer) -> bool:
        """A new source of a dataset that only mirrors, or the new hash of one that had to have another."""
        sources = self._wanted["datasets"][finding.dataset].get("sources", {})
        if offer.status == "changed":
            dataset, _, name = offer.source.partition("/")
            old = sources.get(name, {}).get("expect_hash", "") if dataset == finding.dataset else ""
            return bool(old) and self._replace(finding.dataset, name, old, offer.digest)
        first = next(iter(sources), None)
        if first is None or offer.name in sources:
            return False
        start = self._line(("datasets", finding.dataset, "sources", first))
        pad = " " * _indent(self._lines[start])
        value = _source(offer)
        self._insert(self._end(start, len(pad)), [f"{pad}{offer.name}: {_flow(value)}"])
        sources[offer.name] = value
        return True

    def _replace(self, dataset: str, source: str, old: str, new: str) -> bool:
        at = self._line(("datasets", dataset, "sources", source))
        for number in range(at, self._end(at, _indent(self._lines[at]) + 1)):
            if old in self._lines[number]:
                self._lines[number] = self._lines[number].replace(old, new)
                self._wanted["datasets"][dataset]["sources"][source]["expect_hash"] = new
                self._document = self._read()
                return True
        return False

    def _line(self, path: documents.Path) -> int:
        """The line on which a member stands, counted from 0."""
        name = str(path[-1])
        at = self._document.position(path)[0] - 1
        while at > 0 and not self._lines[at].strip().strip("\"'").startswith(name):
            at -= 1
        return at

    def _end(self, start: int, indent: int) -> int:
        """Behind the last line that stands as deep as this one, or deeper."""
        end = at = start + 1
        while at < len(self._lines):
            line = self._lines[at]
            at += 1
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if _indent(line) < indent:
                break
            end = at
        return end

    def _insert(self, at: int, lines: list[str]) -> None:
        self._lines[at:at] = lines
        try:
            self._document = self._read()
        except BadInput:
            raise self._cannot() from None

    def written(self) -> bytes:
        if self._document.value != self._wanted:
            raise self._cannot()
        checked(self._document)
        return self._ending.join([*self._lines, ""]).encode()

    def _cannot(self) -> Refused:
        return Refused(
            f"{self._where} is written in a way that nothing can be added to without changing more",
            hint="write `datasets:` and `sources:` as blocks, a line for each name",
        )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


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


def _flow(value: Any) -> str:
    """JSON is YAML: nothing that was found can be taken for anything but the text it is."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return msgspec.json.encode(value).decode()
