"""`kfm catalog discover`: compares the catalog of another publisher with the sources of kfm.yml. It changes nothing."""

from __future__ import annotations

import os
import posixpath
from typing import NamedTuple

from msgspec.structs import replace

from kfm.app.session.session import Session
from kfm.errors import BadInput, Refused
from kfm.model.records import FetchRequest
from kfm.model.reports.discovered_datasets import CatalogKind, Discovery, Finding, Offer, Status, named
from kfm.model.secret_refs import key_in_clear
from kfm.parsing.characters import is_printable, printable
from kfm.sources import open_source
from kfm.sources.catalogs.catalog_kinds import read_catalog
from kfm.sources.catalogs.crawl import MOST_BYTES, PageBody, address, is_remote
from kfm.sources.urls import parse


class KnownSource(NamedTuple):
    """A source of kfm.yml, and the digest of its last known bytes."""

    dataset: str
    source: str
    digest: str  # the digest it must have, or had when last read; empty if never read


class _Outside:
    """Reads pages of a catalog under the network rules of the installation. The bytes stay in memory."""

    def __init__(self, session: Session) -> None:
        network = session.config.network
        self._session = session
        self._request = FetchRequest(
            uri="",
            base_dir=session.resolved.root,
            allow=network.allow,
            max_bytes=min(network.max_bytes, MOST_BYTES),
            timeout_ms=round(network.timeout_s * 1000),
            total_ms=min(round(network.total_s * 1000), 300_000),
            now_ms=session.clock.now_ms(),
        )

    def get(self, uri: str) -> PageBody:
        ref = open_source(uri).fetch(replace(self._request, uri=uri), None, self._session.objects).ref
        return PageBody(ref.content_hash, ref.media_type, self._session.objects.read(ref.content_hash))

    def folder(self, uri: str) -> list[str] | None:
        """Return the entries of a local folder; None if the address is not a folder. Links are left out, and Refused is
        raised if the path leads through one."""
        if is_remote(uri):
            return None
        root = os.path.realpath(self._session.resolved.root)
        path = os.path.join(root, uri)
        if not os.path.isdir(path):
            return None
        if os.path.realpath(path) != os.path.normpath(path):
            raise Refused(f"{printable(uri, 200)} leads through a symbolic link", hint="name the folder itself")
        names = []
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.is_symlink():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    names.append(entry.name + "/")
                elif entry.is_file(follow_symlinks=False):
                    names.append(entry.name)
        return sorted(names)


def discover(session: Session, source: str, kind: CatalogKind | None, most_pages: int) -> Discovery:
    """Return the files of a catalog, and for each whether kfm.yml already reads it."""
    found = read_catalog(_Outside(session), _start(source), kind, most_pages)
    reading = _reading(session)
    taken = set(session.config.datasets)
    findings = []
    for finding in found.findings:
        held = _held(finding, reading)
        if held.status == "new" and held.id in taken:
            held = replace(held, id=named(held.id, held.page, taken))
        taken.add(held.id)
        findings.append(held)
    return replace(found, findings=findings)


def _start(source: str) -> str:
    """Return the address in its canonical form: a normalised URL, or a path below the folder of kfm.yml. BadInput for
    others."""
    if not source or not is_printable(source) or len(source) > 4000:
        raise BadInput("SOURCE must be one line: a URL, or a path below the folder of kfm.yml")
    if key_in_clear(source):
        raise BadInput("SOURCE holds a key in clear", hint="name a public catalog, or a copy of it")
    if "://" in source:
        return address(parse(source))
    path = posixpath.normpath(source)
    if path.startswith(("/", "../")) or path == "..":
        raise BadInput(
            f"{printable(source, 200)} is outside of the folder of kfm.yml", hint="put it there, and name it from there"
        )
    return path


def _reading(session: Session) -> dict[str, KnownSource]:
    """Return every source of kfm.yml, by address."""
    found: dict[str, KnownSource] = {}
    for name, dataset in sorted(session.config.datasets.items()):
        for source_name, source in dataset.sources.items():
            uri = source.uri
            if is_remote(uri):
                uri = address(parse(uri))
            elif "://" not in uri:
                uri = posixpath.normpath(uri)
            digest = source.expect_hash
            if not digest:
                checkpoint = session.state.inbox.checkpoint(source.known_as)
                digest = checkpoint.content_hash if checkpoint is not None else ""
            found.setdefault(uri, KnownSource(name, source_name, digest))
    return found


def _held(finding: Finding, reading: dict[str, KnownSource]) -> Finding:
    offers = [_known(offer, reading.get(offer.uri)) for offer in finding.offers]
    known = [offer for offer in offers if offer.status != "new"]
    datasets = sorted({offer.source.partition("/")[0] for offer in known})
    status: Status = "known"
    if any(offer.status == "changed" for offer in offers):
        status = "changed"
    if len(known) < len(offers):
        status = "grown" if known else "new"
    return replace(finding, offers=offers, status=status, dataset=datasets[0] if datasets else "")


def _known(offer: Offer, reading: KnownSource | None) -> Offer:
    """Return the offered file as known, or as changed if the catalog names a digest other than the one that was
    read."""
    if reading is None:
        return offer
    other = bool(offer.digest and reading.digest and offer.digest != reading.digest)
    return replace(offer, status="changed" if other else "known", source=f"{reading.dataset}/{reading.source}")
