"""The section `s3`: buckets other than public ones at Amazon."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kfm.model.records import Record
from kfm.model.secret_refs import check_reference
from kfm.parsing.documents import Document, Path

_BUCKET = r"[a-z0-9][a-z0-9._-]{1,98}[a-z0-9]"  # Amazon's rule, and that of older buckets elsewhere


class BucketConfig(Record, frozen=True):
    """The address of a bucket and the keys to read it. Without keys the requests are anonymous."""

    endpoint: Annotated[
        str, Meta(max_length=1000, description="https://HOST[:PORT] of a store other than Amazon's, such as lakeFS")
    ] = ""
    region: Annotated[str, Meta(max_length=100, description="region for the signature, and in Amazon's addresses")] = (
        "us-east-1"
    )
    access_key: Annotated[str, Meta(max_length=1000, description="env:NAME or file:PATH; empty: anonymous")] = ""
    secret_key: Annotated[str, Meta(max_length=1000, description="env:NAME or file:PATH")] = ""
    session_token: Annotated[str, Meta(max_length=1000, description="env:NAME or file:PATH, for temporary keys")] = ""
    identity: Annotated[
        Literal["keys", "workload"],
        Meta(description="workload: the role of this container or machine, for objects and public files in a bucket"),
    ] = "keys"


def is_object(uri: str) -> bool:
    import re

    return bool(re.fullmatch(rf"s3://{_BUCKET}/[^?#]*[^?#/]", uri))


def check_buckets(document: Document, buckets: dict[str, BucketConfig]) -> None:
    import re

    for name, bucket in buckets.items():
        path: Path = ("s3", name)
        if not re.fullmatch(_BUCKET, name):
            document.refuse(path, "is not the name of a bucket", "use small letters, digits, '-' and '.'")
        plain = r"https://[A-Za-z0-9._:\[\]-]+/?|http://(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]+)?/?"
        if bucket.endpoint and not re.fullmatch(plain, bucket.endpoint):
            document.refuse(
                (*path, "endpoint"), "is not the https address of a store", "write https://HOST or https://HOST:PORT"
            )
        if not re.fullmatch(r"[A-Za-z0-9-]+", bucket.region):
            document.refuse((*path, "region"), "is not a region", "write us-east-1, or the name your store uses")
        if bool(bucket.access_key) != bool(bucket.secret_key):
            document.refuse(path, "has only one of access_key and secret_key", "give both, or none for a public bucket")
        if bucket.session_token and not bucket.access_key:
            document.refuse((*path, "session_token"), "has no meaning without keys", "remove it")
        if bucket.identity == "workload" and bucket.access_key:
            document.refuse((*path, "identity"), "is workload, and there are keys too", "remove one of the two")
        for key in ("access_key", "secret_key", "session_token"):
            if reference := getattr(bucket, key):
                check_reference(document, (*path, key), reference)
