"""A bucket of the test server, each test in a prefix of its own."""

from __future__ import annotations

import itertools
import os

from kfm.bucket import Bucket, open_bucket
from kfm.config.s3_settings import BucketConfig
from tests.servers.seaweed import ACCESS, KEPT, SECRET

SETTINGS = {"access_key": "env:A", "secret_key": "env:S"}
KEYS = {"env:A": ACCESS, "env:S": SECRET}
_count = itertools.count()


def fresh(endpoint: str, *, wait_s: int = 20, bucket: str = KEPT) -> Bucket:
    """Return a part of the bucket that no other test uses."""
    return at(endpoint, f"{os.getpid()}/{next(_count)}", wait_s=wait_s, bucket=bucket)


def at(endpoint: str, prefix: str, *, wait_s: int = 20, bucket: str = KEPT) -> Bucket:
    settings = BucketConfig(endpoint=endpoint, **SETTINGS)
    return open_bucket(settings, bucket, prefix, lambda reference: KEYS[reference].encode(), wait_s=wait_s)
