"""Checks whether a bucket keeps the promises that KFM relies on, by trying them with a few small objects."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from kfm.bucket import Bucket
from kfm.errors import KfmError
from kfm.store.filesystem_check import CheckResult

CREATORS = 8  # that race for one name
SKEW_MS = 5 * 60 * 1000  # S3 refuses requests of a clock that is wrong by 15 minutes
_OTHER = "use a store with conditional writes, such as Amazon S3, MinIO or SeaweedFS"


def check_bucket(bucket: Bucket, what: str, now_ms: Callable[[], int]) -> list[CheckResult]:
    """Return what was found by writing, replacing and removing objects below `.kfm-doctor/`, which are removed again.
    The first failure of the server itself ends the check, and is its last line."""
    path = f".kfm-doctor/{secrets.token_hex(8)}"
    found: list[CheckResult] = []
    try:
        found.extend(_tried(bucket, path, what, now_ms))
    except KfmError as problem:
        found.append(CheckResult(check=f"{what}.bucket", ok=False, found=problem.message, why=problem.hint))
        with contextlib.suppress(KfmError):  # it says the same again
            bucket.remove(path)
    return found


def _tried(bucket: Bucket, path: str, what: str, now_ms: Callable[[], int]) -> Iterator[CheckResult]:
    bodies = [b"%d" % n for n in range(CREATORS)]
    with ThreadPoolExecutor(CREATORS) as pool:
        etags = list(pool.map(lambda body: bucket.create(path, body), bodies))
    kept = bucket.read(path)
    winners = [body for body, etag in zip(bodies, etags, strict=True) if etag]
    yield CheckResult(check=f"{what}.bucket", ok=True, found=f"{bucket.name} can be written")
    yield _verdict(
        f"{what}.create",
        kept is not None and winners == [kept[0]],
        f"one of {CREATORS} writers creates an object",
        f"{len(winners)} of {CREATORS} writers created the same object",
    )
    if kept is None:
        return
    first = kept[1]
    second = bucket.replace(path, b"second", first.etag)
    stale = bucket.replace(path, b"third", first.etag)
    now = bucket.read(path)
    yield _verdict(
        f"{what}.replace",
        bool(second) and not stale and now is not None and now[0] == b"second",
        "an object is replaced only by its etag",
        "an object was replaced by a writer who knew an older one",
    )
    if now is not None:
        yield _clock(what, now[1].changed_ms - now_ms())
        yield _versions(what, now[1].version)
    bucket.remove(path)
    gone = bucket.find(path) is None
    yield CheckResult(
        check=f"{what}.remove",
        ok=gone,
        found="removed objects are gone" if gone else "a removed object is still there",
        why="" if gone else "check that the keys may delete objects, and that no object lock is set on the bucket",
    )
    yield CheckResult(
        check=f"{what}.uploads",
        ok=True,
        found="an upload of a killed process leaves parts",
        why="let a lifecycle rule of the bucket remove unfinished uploads after a day",
    )


def _verdict(check: str, ok: bool, found: str, problem: str) -> CheckResult:
    return CheckResult(check=check, ok=ok, found=found if ok else problem, why="" if ok else _OTHER)


def _clock(what: str, ahead_ms: int) -> CheckResult:
    ok = abs(ahead_ms) < SKEW_MS
    found = "the clocks agree" if ok else f"the bucket's clock differs by {abs(ahead_ms) // 1000} s"
    return CheckResult(check=f"{what}.clock", ok=ok, found=found, why="" if ok else "set the clock of this machine")


def _versions(what: str, version: str) -> CheckResult:
    if not version:
        return CheckResult(check=f"{what}.versions", ok=True, found="the bucket keeps no older versions")
    return CheckResult(
        check=f"{what}.versions",
        ok=True,
        found="the bucket keeps older versions",
        why="let a lifecycle rule remove them: what was withdrawn can still be read by its version",
    )
