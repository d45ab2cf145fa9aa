"""Public files in a bucket have the pages and the catalog that public files in a folder have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm import config
from kfm.app.metadata import catalogs, pages_sink
from kfm.app.metadata.ledger_sinks import report_to_sinks
from kfm.app.runs.queries import already_published
from kfm.app.session.session import Mode, Session, open_session
from kfm.app.stewards.public_repair import compare_all, repair_all
from kfm.bucket import Bucket
from kfm.errors import BadInput, Unavailable
from kfm.model.records import Effect
from tests.delivery.sites import Site, tree
from tests.servers.seaweed import ACCESS, KEPT, SECRET, Seaweed
from tests.servers.seaweed import seaweed as seaweed
from tests.store.buckets import fresh

KEYS = {"KFM_SECRET_ACCESS": ACCESS, "KFM_SECRET_SECRET": SECRET}
pytestmark = pytest.mark.usefixtures("shown_by_default")


class BucketSite(Site):
    """An installation that differs from one with a folder only in the address of `publish`."""

    def __init__(self, folder: Path, bucket: Bucket, endpoint: str) -> None:
        super().__init__(folder, ("demo", "other"))
        self.bucket = bucket
        self.text = (folder / "kfm.yml").read_text().replace("catalog: file:catalog\n", "")
        self.settings = (
            f"publish: s3://{KEPT}/{bucket.prefix}\ns3:\n  {KEPT}: {{endpoint: '{endpoint}', "
            "access_key: 'env:KFM_SECRET_ACCESS', secret_key: 'env:KFM_SECRET_SECRET'}\n"
        )
        (folder / "kfm.yml").write_text(self.settings + self.text)

    def open(self, mode: Mode = "write") -> Session:
        return open_session(config.load(str(self.folder / "kfm.yml"), {}), mode=mode)

    @property
    def files(self) -> dict[str, bytes]:
        return {each.path: (self.bucket.read(each.path) or (b"",))[0] for each in self.bucket.below("")}

    def true(self) -> None:
        with self.open("read") as session:
            assert catalogs.differences(session) == []
            assert compare_all(session, ["demo", "other"]) == ([], [])


@pytest.fixture
def site(place: Path, seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch) -> BucketSite:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    return BucketSite(place / "site", fresh(seaweed.endpoint), seaweed.endpoint)


def settings(folder: Path, text: str) -> tuple[str, bool]:
    (folder / "kfm.yml").write_text(text + "datasets: {a: {updater: u.py:U}}\n")
    found = config.load(str(folder / "kfm.yml"), {}).config
    return found.catalog, found.pages


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("publish: s3://bkt/p\n", ("s3://bkt/p/catalog", True)),
        ("publish: s3://bkt\n", ("s3://bkt/catalog", True)),
        ("publish: s3://bkt/p/\n", ("s3://bkt/p/catalog", True)),
        ("publish: s3://bkt/p\nobjects: s3://bkt\n", ("s3://bkt/p/catalog", True)),
        ("publish: s3://bkt/p\nobjects: s3://bkt/p\n", ("s3://bkt/p/catalog", True)),
        ("publish: s3://bkt/receipts\nobjects: s3://bkt\n", ("", True)),
        ("publish: s3://bkt/p\ncatalog: s3://bkt/p/stac\n", ("s3://bkt/p/stac", True)),
        ("publish: s3://bkt/p\ncatalog: file:catalog\n", ("file:catalog", True)),
        ("publish: s3://bkt/p\npages: false\ncatalog: ''\n", ("", False)),
    ],
)
def test_catalog_and_pages_are_on_where_there_is_a_public_bucket(
    tmp_path: Path, text: str, expected: tuple[str, bool]
) -> None:
    assert settings(tmp_path, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "publish: s3://bkt/p\ncatalog: s3://another/p/catalog\n",
        "publish: s3://bkt/p\ncatalog: s3://bkt/place\n",
        "publish: s3://bkt/p\ncatalog: s3://bkt/p\n",
        "publish: s3://bkt/p\ncatalog: s3://bkt/p/datasets/x\n",
        "publish: file:public\ncatalog: s3://bkt/p\n",
        "publish: s3://bkt\nobjects: s3://bkt\ncatalog: s3://bkt/receipts\n",
    ],
)
def test_a_catalog_elsewhere_in_a_bucket_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match="catalog"):
        settings(tmp_path, text)


def test_the_files_of_a_bucket_are_those_of_a_folder(site: BucketSite, place: Path) -> None:
    other = Site(place / "other", ("demo", "other"))
    (other.folder / "kfm.yml").write_text(site.text)
    for each in (site, other):
        with each.open() as session:
            each.publish(session, {"a": "1", "b": "2"})
            each.publish(session, {"x": "1"}, "other")
            assert session.sink_problems == []
    here, there = site.files, tree(other.folder / "public")
    assert set(here) == {path for path in there if not path.startswith((".", "receipts/"))}
    assert {"index.html", "catalog/catalog.json", "catalog/catalog.jsonld", "datasets/demo/index.html"} <= set(here)
    for path in ("catalog/catalog.json", "catalog/demo/collection.json"):
        links = {each["href"] for each in json.loads(here[path])["links"]}
        assert links == {each["href"] for each in json.loads(there[path])["links"]} and links
    assert b'href="catalog/catalog.json"' in here["index.html"]
    site.true()
    assert SECRET.encode() not in b"".join(here.values()) and ACCESS.encode() not in b"".join(here.values())


def test_a_withdrawn_dataset_has_no_page_and_no_entry_and_no_canary_stays(site: BucketSite) -> None:
    with site.open() as session:
        site.publish(session, {"a": "CANARY-1"})
        site.publish(session, {"x": "1"}, "other")
        assert any(b"CANARY-1" in body for body in site.files.values())
        site.operate(session, "rollback", {"to": "nothing"})
        assert session.sink_problems == []
    left = site.files
    assert not any(b"CANARY-1" in body for body in left.values())
    assert not [path for path in left if path.startswith("catalog/demo/")]
    assert {path for path in left if path.startswith("datasets/demo/")} <= {
        "datasets/demo/current.json", "datasets/demo/feed.xml",
    }  # fmt: skip
    for path in ("index.html", "catalog/catalog.json", "catalog/catalog.jsonld"):
        assert b"The other" in left[path] and b"The demo" not in left[path]
    site.true()


def test_a_page_that_the_archive_wrote_stays_and_is_named(site: BucketSite) -> None:
    site.bucket.write("index.html", b"<h1>Our own</h1>")
    with site.open() as session:
        site.publish(session, {"a": "1"})
        assert pages_sink.left_files(session) == ["index.html"]
    assert site.files["index.html"] == b"<h1>Our own</h1>" and "datasets/demo/index.html" in site.files


def test_a_catalog_that_others_wrote_stops_the_report(site: BucketSite) -> None:
    site.bucket.write("catalog/catalog.json", b'{"type": "Catalog"}')
    with site.open() as session:
        site.publish(session, {"a": "1"})
        assert ["did not write catalog.json" in each.message for each in session.sink_problems] == [True]
    assert site.files["catalog/catalog.json"] == b'{"type": "Catalog"}'


def test_what_others_changed_is_seen_and_put_right(site: BucketSite) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
        before = site.files
        site.bucket.write("datasets/demo/index.html", b"altered")
        site.bucket.write("catalog/demo/collection.json", b"altered")
        site.bucket.remove("index.html")
        found, _ = compare_all(session, ["demo"])
        assert {(each.path, each.kind) for each in (*found, *catalogs.differences(session))} == {
            ("datasets/demo/index.html", "altered"), ("index.html", "missing"),
            ("demo/collection.json", "altered"),
        }  # fmt: skip
        repair_all(session, ["demo"])
        catalogs.build(session)
    assert site.files == before


def test_a_bucket_that_fails_between_two_files_is_written_whole_by_the_next_command(
    site: BucketSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
        site.publish(session, {"x": "1"}, "other")
    real, left = Bucket._put, [0]

    def put(self: Bucket, path: str, *words: Any) -> str:
        if not path.startswith("datasets/") or path.endswith(".html"):
            left[0] -= 1
            if left[0] < 0:
                raise Unavailable("cannot write an object", hint="later")
        return real(self, path, *words)

    for most in (0, 1, 3, 6):
        left[0] = most
        with monkeypatch.context() as patched, site.open() as session:
            patched.setattr(Bucket, "_put", put)
            site.publish(session, {"a": f"after {most}"})
            assert left[0] < 0 and {each.code for each in session.sink_problems} == {"unavailable"}
        with site.open() as session:
            site.operate(session, "rollback", {"to": "nothing"})
            assert report_to_sinks(session, again=True) == []
        assert not any(b"The demo" in body for path, body in site.files.items() if not path.endswith("feed.xml"))
        site.true()


def test_pages_and_catalog_that_are_switched_off_are_removed(site: BucketSite) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
    (site.folder / "kfm.yml").write_text("pages: false\ncatalog: ''\n" + site.settings + site.text)
    with site.open() as session:
        site.ingest(session, {"a": "2"})
        assert session.sink_problems == []
    assert {path for path in site.files if path.endswith(".html") or path.startswith("catalog/")} == set()


def test_what_a_dry_run_would_write_is_told_from_what_is_there(site: BucketSite) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
    with site.open("read") as session:
        page = pages_sink.expected_page(session, "demo")["datasets/demo/index.html"]
        known = Effect(
            seq=1, method="write_file", target="datasets/demo/index.html", digest=page, size=1, key="k", dry_run=True
        )
        new = msgspec.structs.replace(known, seq=2, target="catalog/demo/collection.json")
        assert already_published(session, [known, new]) == [known]
