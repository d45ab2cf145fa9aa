"""`kfm doctor` on a bucket: what it tries, and what it says of a store that does not keep its promises."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kfm.bucket import Bucket, open_bucket
from kfm.config.s3_settings import BucketConfig
from kfm.errors import BadInput, KfmError
from kfm.store.buckets.bucket_check import check_bucket
from tests.servers.seaweed import ACCESS, KEPT, READER, READER_SECRET, SECRET, Seaweed
from tests.servers.seaweed import seaweed as seaweed
from tests.store.buckets import at, fresh


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def failures(bucket: Bucket, now: Any = now_ms) -> dict[str, str]:
    return {each.check: each.found for each in check_bucket(bucket, "objects", now) if not each.ok}


def test_a_store_with_conditional_writes_passes_and_nothing_is_left(seaweed: Seaweed) -> None:
    bucket = fresh(seaweed.endpoint)
    found = check_bucket(bucket, "objects", now_ms)
    assert [each for each in found if not each.ok] == []
    assert [each.check.removeprefix("objects.") for each in found] == [
        "bucket", "create", "replace", "clock", "versions", "remove", "uploads",
    ]  # fmt: skip
    assert list(bucket.below("")) == []


def test_a_store_that_ignores_conditions_is_found_out(seaweed: Seaweed) -> None:
    bucket = fresh(seaweed.endpoint)
    bucket.create = bucket.write  # type: ignore[method-assign]
    bucket.replace = lambda path, body, etag, attributes=None: bucket.write(path, body)  # type: ignore[method-assign]
    found = failures(bucket)
    assert found == {
        "objects.create": "8 of 8 writers created the same object",
        "objects.replace": "an object was replaced by a writer who knew an older one",
    }


@pytest.mark.long
def test_a_wrong_clock_is_named(seaweed: Seaweed) -> None:
    assert failures(fresh(seaweed.endpoint), lambda: now_ms() - 3_600_000)["objects.clock"].startswith(
        "the bucket's clock differs by 3"
    )


def with_keys(seaweed: Seaweed, access: str, secret: str, bucket: str = KEPT) -> Bucket:
    settings = BucketConfig(endpoint=seaweed.endpoint, access_key="env:A", secret_key="env:S")
    return open_bucket(settings, bucket, "x", {"env:A": access.encode(), "env:S": secret.encode()}.__getitem__)


@pytest.mark.parametrize(
    ("access", "secret", "said"),
    [
        ("AKIANOBODY", SECRET, "does not know the access key"),
        (ACCESS, "z" * 40, "does not accept the secret key"),
        (READER, READER_SECRET, "does not permit it"),
    ],
)
def test_what_the_keys_lack_is_said_in_one_line_without_the_keys(
    seaweed: Seaweed, access: str, secret: str, said: str
) -> None:
    bucket = with_keys(seaweed, access, secret)
    with pytest.raises(KfmError, match=said) as raised:
        bucket.create("a", b"x")
    assert f"s3.{KEPT}" in raised.value.hint
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 250
    assert secret not in str(raised.value) and access not in str(raised.value)
    assert raised.value.__cause__ is None and raised.value.__suppress_context__
    found = failures(bucket)
    assert list(found) == ["objects.bucket"] and said in found["objects.bucket"]


@pytest.mark.long
def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    bucket = at("http://127.0.0.1:9", "x", wait_s=1)
    assert failures(bucket) == {"objects.bucket": f"cannot write an object: the bucket {KEPT} cannot be reached"}


def test_a_bucket_without_keys_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(BadInput, match="some has no keys") as raised:
        open_bucket(BucketConfig(), "some", "", lambda _: b"")
    assert "s3.some.identity" in raised.value.hint


def test_variables_of_the_environment_do_not_replace_what_is_configured(
    seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("AWS_SESSION_TOKEN", "bogus"), ("AWS_ACCESS_KEY_ID", "bogus"), ("AWS_SECRET_ACCESS_KEY", "bogus"),
        ("AWS_ENDPOINT", "http://127.0.0.1:1"), ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"), ("AWS_REGION", "x"),
        ("AWS_SKIP_SIGNATURE", "true"), ("AWS_BUCKET", "other"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    bucket = fresh(seaweed.endpoint)
    assert bucket.create("a", b"x")
    assert bucket.read("a") is not None
