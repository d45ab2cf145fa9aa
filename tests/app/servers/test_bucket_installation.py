"""An installation whose objects and public files are in a bucket, as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kfm.bucket import Bucket
from tests.engine.installations import Installation
from tests.servers.seaweed import ACCESS, KEPT, SECRET, Seaweed, free_port
from tests.servers.seaweed import seaweed as seaweed
from tests.store.buckets import fresh

ENV = {"KFM_SECRET_ACCESS": ACCESS, "KFM_SECRET_SECRET": SECRET, "KFM_REASON": "a test"}
CONFIG = """\
kfm: 1
accept_weak_storage: true
objects: {objects}
publish: {publish}
{pages}s3:
  {bucket}: {{endpoint: "{endpoint}", access_key: 'env:KFM_SECRET_ACCESS', secret_key: 'env:KFM_SECRET_SECRET'}}
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    sources:
      rain: {{uri: rain.csv, format: csv, contract: {{columns: [{{name: n}}, {{name: mm, type: number}}]}}}}
    outputs: {{all: {{from: rain}}}}
"""


def rows(count: int) -> bytes:
    return b"n,mm\n" + b"".join(b"KS-%05d,1\n" % n for n in range(count))


def site(folder: Path, bucket: Bucket, endpoint: str, *, objects: str = "", publish: str = "") -> Installation:
    prefix = f"s3://{KEPT}/{bucket.prefix}"
    text = CONFIG.format(
        objects=objects or f"{prefix}/objects", publish=publish or f"{prefix}/public", bucket=KEPT, endpoint=endpoint,
        pages="pages: false\n",
    )  # fmt: skip
    (folder / "kfm.yml").write_text(text)
    (folder / "rain.csv").write_bytes(rows(20_000))
    return Installation(folder)


def names(bucket: Bucket, start: str) -> list[str]:
    return sorted(each.path for each in bucket.below(start))


@pytest.mark.long
def test_data_is_kept_published_rolled_back_and_withdrawn_in_a_bucket(seaweed: Seaweed, tmp_path: Path) -> None:
    bucket = fresh(seaweed.endpoint)
    there = site(tmp_path, bucket, seaweed.endpoint)
    there.kfm("run", env=ENV)
    assert len(names(bucket, "objects/sha256")) >= 1 and names(bucket, "public") == []
    there.kfm("promote", "rain", env=ENV)
    (tmp_path / "rain.csv").write_bytes(rows(21_000))
    there.kfm("run", env=ENV)
    there.kfm("promote", "rain", env=ENV)
    published = {name: (bucket.read(name) or (b"",))[0] for name in names(bucket, "public")}
    assert rows(20_000) in published.values() and rows(21_000) in published.values()
    assert json.loads(published["public/datasets/rain/current.json"])["seq"] == 2
    assert there.kfm("cat", "rain", "all", env=ENV).out.encode() == rows(21_000)
    there.kfm("rollback", "rain", env=ENV)
    assert json.loads((bucket.read("public/datasets/rain/current.json") or (b"",))[0])["seq"] == 3
    told = there.kfm("doctor", "--deep", env=ENV).out
    assert "objects.create" in told and "publish.replace" in told
    receipts = names(bucket, "objects/receipts")
    assert len(receipts) >= 5 and all(name.endswith(".json") for name in receipts)
    assert not (tmp_path / ".kfm/receipts").exists() and not (tmp_path / ".kfm/objects").exists()
    there.kfm("rollback", "rain", "--to", "nothing", env=ENV)
    assert names(bucket, "public/datasets/rain") == ["public/datasets/rain/current.json"]
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_receipts_of_objects_in_a_bucket_go_there_and_public_files_to_their_folder(
    seaweed: Seaweed, tmp_path: Path
) -> None:
    bucket = fresh(seaweed.endpoint)
    there = site(tmp_path, bucket, seaweed.endpoint, publish="file:public")
    there.kfm("run", env=ENV)
    there.kfm("promote", "rain", env=ENV)
    assert len(names(bucket, "objects/receipts")) == 2 and len(names(bucket, "objects/events")) == 1
    assert (tmp_path / "public/datasets/rain/current.json").exists() and not (tmp_path / ".kfm/receipts").exists()


def test_receipts_of_objects_in_files_stay_private_next_to_them(seaweed: Seaweed, tmp_path: Path) -> None:
    bucket = fresh(seaweed.endpoint)
    there = site(tmp_path, bucket, seaweed.endpoint, objects="file:.kfm/objects")
    there.kfm("run", env=ENV)
    there.kfm("promote", "rain", env=ENV)
    receipts = list((tmp_path / ".kfm/receipts").rglob("*.json"))
    assert len(receipts) == 2 and all(each.stat().st_mode & 0o077 == 0 for each in receipts)
    assert {name.split("/")[1] for name in names(bucket, "")} <= {"datasets", "catalog", "index.html"}


def test_a_dry_run_predicts_what_a_bucket_is_given_and_writes_nothing(seaweed: Seaweed, tmp_path: Path) -> None:
    bucket = fresh(seaweed.endpoint)
    there = site(tmp_path, bucket, seaweed.endpoint)
    predicted = json.loads(there.kfm("run", "--dry-run", "--json", env=ENV).out)
    assert names(bucket, "") == []
    done = json.loads(there.kfm("run", "--json", env=ENV).out)
    assert predicted and done


@pytest.mark.long
def test_a_bucket_that_is_not_there_is_one_line_and_the_commit_waits(seaweed: Seaweed, tmp_path: Path) -> None:
    bucket = fresh(seaweed.endpoint)
    there = site(tmp_path, bucket, seaweed.endpoint)
    (tmp_path / "rain.csv").write_bytes(rows(10))
    there.kfm("run", env=ENV)
    text = (tmp_path / "kfm.yml").read_text()
    (tmp_path / "kfm.yml").write_text(text.replace(seaweed.endpoint, f"http://127.0.0.1:{free_port()}"))
    failed = there.kfm("promote", "rain", env=ENV, expect=None)
    assert "cannot be reached" in failed.err and "Traceback" not in failed.err and "kfm resume" in failed.err
    (tmp_path / "kfm.yml").write_text(text)
    there.kfm("resume", env=ENV)
    assert any(name.endswith("current.json") for name in names(bucket, "public"))


def test_a_run_that_fails_for_a_wrong_secret_is_not_called_committed(seaweed: Seaweed, tmp_path: Path) -> None:
    bucket = fresh(seaweed.endpoint)
    there = site(tmp_path, bucket, seaweed.endpoint)
    wrong = {**ENV, "KFM_SECRET_SECRET": "a-wrong-secret-0451"}
    (tmp_path / "rain.csv").write_bytes(rows(10))
    there.kfm("run", env=ENV)
    (tmp_path / "rain.csv").write_bytes(rows(20_000))
    failed = there.kfm("run", env=wrong, expect=3)
    first, second = failed.err.splitlines()
    assert first == (
        "kfm: rain: cannot write an object: the bucket kfm-kept does not accept the secret key; check secret_key and "
        "region in s3.kfm-kept"
    )
    assert second.startswith("kfm: every change is delivered, only records of runs are not yet: cannot look for an ")
    assert "0451" not in failed.err + failed.out
    failed = there.kfm("rollback", "rain", "--to", "nothing", env=wrong, expect=3)
    assert "no history to go back to" in failed.err and "every change is delivered" in failed.err
    assert "committed" not in failed.err
    there.kfm("promote", "rain", env=wrong, expect=3)
    again = there.kfm("rollback", "rain", env=wrong, expect=3)
    assert "committed, but not delivered yet" in again.err, "the promotion is pending"
    there.kfm("resume", env=ENV)
    assert "public/datasets/rain/current.json" in names(bucket, "public")
