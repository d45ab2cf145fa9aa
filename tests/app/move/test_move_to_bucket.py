"""`kfm move` of objects into an S3 bucket and back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kfm.app.session.backends import open_objects_at
from kfm.app.session.session import open_session
from tests.app.move.carried import FILES, kfm, killed_process, refusal, resolved_in
from tests.app.move.test_object_move import files_at
from tests.servers.seaweed import ACCESS, KEPT, SECRET, Seaweed
from tests.servers.seaweed import seaweed as seaweed

SETTINGS = """\
s3:
  {bucket}: {{endpoint: "{endpoint}", access_key: env:KFM_SECRET_ID, secret_key: env:KFM_SECRET_KEY}}
"""


@pytest.fixture
def bucket(large: str, seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty part of a bucket, which kfm.yml knows the keys of."""
    monkeypatch.setenv("KFM_SECRET_ID", ACCESS)
    monkeypatch.setenv("KFM_SECRET_KEY", SECRET)
    with Path(large, "kfm.yml").open("a") as file:
        file.write(SETTINGS.format(bucket=KEPT, endpoint=seaweed.endpoint))
    return f"s3://{KEPT}/move/{os.path.basename(os.path.dirname(large))}"


def test_objects_moved_into_a_bucket_and_back_are_the_same(large: str, bucket: str) -> None:
    before = files_at(large, FILES)
    assert kfm(large, "move", "--to", bucket, "--edit").code == 0
    assert files_at(large, bucket) == before
    assert kfm(large, "run").out.count("noop") == 1
    assert kfm(large, "reconcile").code == 0  # the receipts are exported there, too
    assert "objects are at s3://" in str(refusal(large, objects=FILES))
    assert kfm(large, "move", "--to", "file:back", "--edit").code == 0
    assert files_at(large, "file:back") == before
    assert kfm(large, "doctor", "--deep").code == 0


def test_a_wrong_key_moves_nothing_and_is_not_shown(large: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_SECRET_KEY", "not-the-key-at-all")
    answer = kfm(large, "move", "--to", bucket)
    assert answer.code != 0 and "Traceback" not in answer.err
    assert "not-the-key-at-all" not in answer.err + answer.out
    assert refusal(large) is None


def test_an_object_that_is_other_bytes_in_the_bucket_is_replaced(large: str, bucket: str, seaweed: Seaweed) -> None:
    name = max(files_at(large, FILES))
    seaweed.put(f"/{bucket.removeprefix('s3://')}/sha256/{name[7:9]}/{name[9:]}", b"other bytes")
    assert kfm(large, "move", "--to", bucket).code == 0
    with open_session(resolved_in(large), mode="read") as session:
        assert open_objects_at(session.resolved, bucket, session.state).is_whole(name)


@pytest.mark.long
def test_a_move_into_a_bucket_killed_anywhere_is_continued(large: str, bucket: str) -> None:
    words = ("move", "--to", bucket)
    whole = files_at(large, FILES)
    killed = 0
    for at in range(12, 200, 5):
        if not killed_process(large, at, *words):
            break
        killed += 1
        if refusal(large) is not None:  # it died after its last commit
            break
    assert killed > 1
    assert kfm(large, *words).code == 0
    assert files_at(large, bucket) == whole
    assert refusal(large) is not None and refusal(large, objects=bucket) is None
