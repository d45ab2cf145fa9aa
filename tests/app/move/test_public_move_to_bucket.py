"""`kfm move --public` into an S3 bucket and back, with the pages and the catalog."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.app.move.carried import kfm, refusal
from tests.app.move.test_places import HERE, files, shown
from tests.app.move.test_places import site as site
from tests.delivery.test_bucket_pages import KEYS
from tests.servers.seaweed import KEPT, Seaweed
from tests.servers.seaweed import seaweed as seaweed
from tests.store.buckets import at

SETTINGS = """\
s3:
  {bucket}: {{endpoint: "{endpoint}", access_key: env:KFM_SECRET_ACCESS, secret_key: env:KFM_SECRET_SECRET}}
"""


def test_published_files_moved_into_a_bucket_and_back_are_the_same(
    site: str, seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with Path(site, "kfm.yml").open("a") as file:
        file.write(SETTINGS.format(bucket=KEPT, endpoint=seaweed.endpoint))
    prefix = f"public/{os.path.basename(os.path.dirname(site))}"
    bucket = at(seaweed.endpoint, prefix)
    Path(site, "public/theirs.txt").write_text("not ours")
    before, here = files(site, HERE), shown(site, HERE)
    answer = kfm(site, "move", "--public", "--to", f"s3://{KEPT}/{prefix}", "--edit", "--reason", "a bucket")
    assert answer.code == 0, answer.err
    assert files(site, HERE) == {"theirs.txt": b"not ours"}
    there = {each.path: (bucket.read(each.path) or (b"",))[0] for each in bucket.below("")}
    assert set(there) == {path for path in before if not path.startswith((".", "receipts/"))} - {"theirs.txt"}
    assert {"index.html", "catalog/catalog.json", "datasets/rain/index.html"} <= set(there) and here <= set(there)
    table = next(path for path in here if path.endswith("rain.csv"))
    assert there[table] == before[table]
    assert kfm(site, "reconcile").code == 0 and refusal(site, publish=HERE) is not None
    bucket.write("theirs.txt", b"not ours")
    answer = kfm(site, "move", "--public", "--to", HERE, "--edit", "--reason", "back")
    assert answer.code == 0, answer.err
    assert [each.path for each in bucket.below("")] == ["theirs.txt"]
    assert set(files(site, HERE)) == set(before) and shown(site, HERE) == here
    assert kfm(site, "reconcile").code == 0


def test_a_dry_run_names_what_would_stop_the_move(site: str, seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with Path(site, "kfm.yml").open("a") as file:
        file.write(SETTINGS.format(bucket=KEPT, endpoint=seaweed.endpoint))
    prefix = f"public/{os.path.basename(os.path.dirname(site))}"
    words = ("move", "--public", "--to", f"s3://{KEPT}/{prefix}", "--dry-run")
    assert kfm(site, *words).code == 0
    at(seaweed.endpoint, prefix).write("datasets/theirs/current.json", b"{}")
    taken = kfm(site, *words)
    assert taken.code == 3 and "holds published files of 1 dataset already" in taken.err
    monkeypatch.setenv("KFM_SECRET_SECRET", "a-wrong-secret-0451")
    wrong = kfm(site, *words)
    assert wrong.code == 3 and "does not accept the secret key; check secret_key" in wrong.err
    assert "0451" not in wrong.err and len(wrong.err.splitlines()) == 1
    monkeypatch.setenv("KFM_OBJECTS", "file:elsewhere")
    assert "and kfm.yml names file:elsewhere" in kfm(site, *words).err
