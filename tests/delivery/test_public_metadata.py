"""What search engines, feed readers and reference managers find in the public folder, held against their own rules."""

from __future__ import annotations

import json
import re
import subprocess
import warnings
from pathlib import Path
from typing import Any

import check_jsonschema
import feedparser
import jsonschema
import pytest
import rdflib
import xmlschema
import yaml
from rdflib.namespace import RDF, SDO

from kfm.app.provenance import public_folder
from kfm.app.runs.settlement import settle_session
from kfm.app.stewards.public_repair import differences
from kfm.delivery import public_metadata
from tests.delivery.sites import Site, tree

URL = "https://data.example.org/kansas"
ARCHIVE = f"""\
pages: true
public_url: {URL}/
archive: {{name: Kansas & Co, publisher: Frontier <Society>, contact: data@example.org, url: "https://example.org"}}
"""
BLOCK = re.compile(r'<script type="application/ld\+json">(.*?)</script>', re.S)
SITEMAP = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
    targetNamespace="http://www.sitemaps.org/schemas/sitemap/0.9" elementFormDefault="qualified">
  <xs:element name="urlset"><xs:complexType><xs:sequence>
    <xs:element name="url" maxOccurs="50000"><xs:complexType><xs:all>
      <xs:element name="loc"><xs:simpleType><xs:restriction base="xs:anyURI">
        <xs:minLength value="12"/><xs:maxLength value="2048"/><xs:pattern value="https://.*"/>
      </xs:restriction></xs:simpleType></xs:element>
      <xs:element name="lastmod" minOccurs="0"><xs:simpleType>
        <xs:union memberTypes="xs:date xs:dateTime"/></xs:simpleType></xs:element>
    </xs:all></xs:complexType></xs:element>
  </xs:sequence></xs:complexType></xs:element>
</xs:schema>
"""


@pytest.fixture
def site(place: Path) -> Site:
    site = Site(place / "site", ("demo", "other"), ARCHIVE)
    file = site.folder / "kfm.yml"
    file.write_text(file.read_text().replace("catalog: file:catalog\n", ""))
    return site


def read(site: Site, path: str) -> str:
    return (site.folder / "public" / path).read_text()


def graph(page: str) -> tuple[dict[str, Any], rdflib.Graph]:
    """The JSON-LD of a page, and its triples. The context of schema.org makes every name one of its vocabulary."""
    (block,) = BLOCK.findall(page)
    said = json.loads(block)
    assert said["@context"] == "https://schema.org/"
    found = rdflib.Graph().parse(data=json.dumps({**said, "@context": {"@vocab": str(SDO)}}), format="json-ld")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a name that the vocabulary lacks
        for _, predicate, value in found:
            for term in (predicate, value):
                if str(term).startswith(str(SDO)):
                    assert SDO[str(term).removeprefix(str(SDO))] == term
    return said, found


def entries(site: Site, path: str = "datasets/demo/feed.xml") -> list[Any]:
    found = feedparser.parse(read(site, path).encode())
    assert not found.bozo, found.get("bozo_exception")
    assert found.version == "atom10" and found.feed.id.startswith("urn:uuid:") and found.feed.title
    ids = [each.id for each in found.entries]
    assert len(set(ids)) == len(ids) and all(each.updated_parsed for each in found.entries)
    times = [each.updated for each in found.entries]
    assert times == sorted(times, reverse=True), "the newest first"
    return list(found.entries)


def cff(site: Site) -> dict[str, Any]:
    folder = Path(check_jsonschema.__file__).parent / "builtin_schemas/vendor"
    said = yaml.safe_load(read(site, "datasets/demo/CITATION.cff"))
    jsonschema.validate(said, json.loads((folder / "citation-file-format.json").read_text()))
    return dict(said)


def test_a_page_describes_its_dataset_in_the_vocabulary_of_schema_org(site: Site) -> None:
    with site.open() as session:
        site.publish(session, {"Reno": "1", "b": "2"})
    said, found = graph(read(site, "datasets/demo/index.html"))
    assert said["@type"] == "Dataset" and said["@id"] == f"{URL}/datasets/demo/"
    assert said["license"] == "https://spdx.org/licenses/CC0-1.0"
    assert said["publisher"]["name"] == "Frontier <Society>"
    downloads = [str(each) for each in found.objects(None, SDO.contentUrl)]
    assert len(downloads) == 3 and all(each.startswith(f"{URL}/datasets/demo/versions/") for each in downloads)
    for each in downloads:
        assert (site.folder / "public" / each.removeprefix(f"{URL}/")).is_file()
    said, found = graph(read(site, "index.html"))
    assert said["@type"] == "DataCatalog" and len(list(found.subjects(RDF.type, SDO.Dataset))) == 1


def test_the_sitemap_lists_what_is_public_and_nothing_else(site: Site) -> None:
    schema = xmlschema.XMLSchema(SITEMAP)
    with site.open() as session:
        site.publish(session, {"a": "1"})
        schema.validate(read(site, "sitemap.xml"))
        assert f"<loc>{URL}/datasets/demo/</loc>" in read(site, "sitemap.xml")
        site.operate(session, "rollback", {"to": "nothing"})
        schema.validate(read(site, "sitemap.xml"))
        assert "demo" not in read(site, "sitemap.xml")


def test_without_an_address_there_is_no_sitemap_and_no_stale_one_stays(site: Site) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
    file = site.folder / "kfm.yml"
    file.write_text(file.read_text().replace(f"public_url: {URL}/\n", ""))
    with site.open() as session:
        site.publish(session, {"a": "2"})
        assert differences(session, "demo") == []
    assert not (site.folder / "public/sitemap.xml").exists()
    assert len(entries(site)) == 2 and "example.org/kansas" not in read(site, "datasets/demo/feed.xml")
    graph(read(site, "datasets/demo/index.html"))


def test_sha256sum_checks_every_file_of_a_version_in_the_folder_where_the_sums_are(site: Site) -> None:
    with site.open() as session:
        versions = [site.publish(session, {"Reno": "1", "RENO": value}) for value in "23"]
        assert differences(session, "demo") == []
    folder = site.folder / "public/datasets/demo/versions"
    for version in versions:
        done = subprocess.run(
            ["sha256sum", "--check", "--strict", f"{version[7:23]}.SHA256SUMS"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and done.stdout.count(": OK\n") == 2, done


def test_the_sums_of_a_version_of_very_many_files_are_those_of_its_listing_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (public_metadata, public_folder):
        monkeypatch.setattr(module, "FILES", 1)
    with site.open() as session:
        version = site.publish(session, {"a": "1", "b": "2"})
        assert differences(session, "demo") == []
    folder = site.folder / "public/datasets/demo/versions"
    sums = folder / f"{version[7:23]}.SHA256SUMS"
    done = subprocess.run(["sha256sum", "--check", "--strict", sums.name], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{version[7:23]}.ndjson: OK\n")
    checks = list(public_folder._content(str(site.folder / "public"), "demo", version, set()))
    assert [check.state for check in checks] == ["ok"]
    sums.write_text("something else")
    checks = list(public_folder._content(str(site.folder / "public"), "demo", version, set()))
    assert "SHA256SUMS is altered" in str(checks)


def test_a_citation_file_is_valid_and_names_the_version(site: Site) -> None:
    with site.open() as session:
        version = site.publish(session, {"a": "1"})
    said = cff(site)
    assert (said["title"], said["version"], said["license"]) == ("The demo", version[7:19], "CC0-1.0")
    assert said["url"] == f"{URL}/datasets/demo/" and said["authors"] == [{"name": "Frontier <Society>"}]


def test_a_feed_names_every_version_and_keeps_its_ids(site: Site) -> None:
    with site.open() as session:
        first = site.publish(session, {"a": "1"})
        (one,) = entries(site)
        second = site.publish(session, {"a": "2"})
        two = entries(site)
        assert [each.tags[0].term for each in two] == ["changed", "new"] and two[1].id == one.id
        assert second[7:19] in two[0].title and first[7:19] in two[1].title
        site.operate(session, "rollback")
        assert [each.tags[0].term for each in entries(site)] == ["restored", "gone", "new"]


def test_after_a_withdrawal_only_the_feed_stays_and_says_so(site: Site) -> None:
    canary = "the demo"
    with site.open() as session:
        site.publish(session, {"a": "1"})
        site.publish(session, {"a": "2"})
        site.operate(session, "rollback", {"to": "nothing"})
        assert differences(session, "demo") == []
    public = tree(site.folder / "public")
    mine = {path for path in public if path.startswith("datasets/demo/")}
    assert mine == {"datasets/demo/current.json", "datasets/demo/feed.xml"}
    found = entries(site)
    assert [each.tags[0].term for each in found] == ["withdrawn", "gone", "gone"]
    assert all("file" not in each.summary and "links" not in each for each in found)
    assert canary not in read(site, "datasets/demo/feed.xml").lower() and "The demo" not in read(site, "index.html")


def test_what_a_killed_report_wrote_goes_with_its_version(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfm.delivery import followers

    with site.open() as session:
        site.publish(session, {"a": "1"})
        told = followers._Following._tell

        def killed(self: Any, entries: Any) -> None:
            if self._sink.name == "pages":
                self._send(entries)
                raise KeyboardInterrupt
            told(self, entries)

        with monkeypatch.context() as patch:
            patch.setattr(followers._Following, "_tell", killed)
            with pytest.raises(KeyboardInterrupt):
                site.publish(session, {"a": "2"})
                settle_session(session)
        gone = session.state.refs.at("published/demo")
        assert (site.folder / f"public/datasets/demo/versions/{gone[7:23]}.SHA256SUMS").exists()
        site.operate(session, "rollback")
        assert differences(session, "demo") == []
    assert not (site.folder / f"public/datasets/demo/versions/{gone[7:23]}.SHA256SUMS").exists()


def test_one_changed_key_writes_the_sums_of_its_version_alone(site: Site) -> None:
    with site.open() as session:
        first = site.publish(session, {"a": "1", "b": "2"})
        path = site.folder / f"public/datasets/demo/versions/{first[7:23]}.SHA256SUMS"
        before = path.stat().st_ino
        site.publish(session, {"a": "1", "b": "3"})
    assert path.stat().st_ino == before
