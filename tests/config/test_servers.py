"""Addresses of servers in kfm.yml: what is refused, where, and that no password is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.config import load
from kfm.errors import BadInput

SECRET = "hunter2hunter2"


def refusal(tmp_path: Path, text: str) -> str:
    file = tmp_path / "kfm.yml"
    file.write_text(f"{text}\ndatasets: {{}}\n")
    with pytest.raises(BadInput) as refused:
        load(str(file), {})
    return str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "state: postgresql://kfm@db.example.org:5432/kfm",
        "state: postgresql:///kfm",
        "objects: s3://kansas-archive/objects",
        "publish: s3://kansas-archive/public/",
        "queue: redis://127.0.0.1:6379/0",
        "queue: rediss://valkey.example.org:6380",
        "state: postgresql://kfm@[::1]:5432/kfm",
    ],
)
def test_an_address_of_a_server_is_a_storage_location(text: str, tmp_path: Path) -> None:
    file = tmp_path / "kfm.yml"
    file.write_text(f"{text}\ndatasets: {{}}\n")
    config = load(str(file), {}).config
    key, _, url = text.partition(": ")
    assert getattr(config, key) == url


@pytest.mark.parametrize(
    ("text", "key", "cure"),
    [
        (f"state: postgresql://kfm:{SECRET}@db/kfm", "state", "postgres: {password: env:NAME}"),
        (f"queue: redis://:{SECRET}@db/0", "queue", "redis: {password: env:NAME}"),
        (f"state: postgresql://db/kfm?password={SECRET}", "state", "postgresql://USER@HOST:PORT/DATABASE"),
        (f"objects: s3://key:{SECRET}@bucket/x", "objects", "s3: {BUCKET: {secret_key: env:NAME}}"),
        ("state: postgresql://db", "state", "postgresql://USER@HOST:PORT/DATABASE"),
        ("state: redis://db/0", "state", "postgresql://USER@HOST:PORT/DATABASE"),
        ("objects: s3://B/x", "objects", "s3://BUCKET/PREFIX"),
        ("objects: postgresql://db/kfm", "objects", "s3://BUCKET/PREFIX"),
        ("queue: amqp://db/0", "queue", "redis://HOST:PORT/NUMBER"),
        ("postgres: {password: hunter2}", "postgres.password", "env:NAME"),
        ("postgres: {schema: 'x; drop'}", "postgres.schema", "small letters"),
        ("redis: {name: 'a b'}", "redis.name", "small letters"),
    ],
)
def test_a_wrong_address_is_refused_with_place_and_cure(text: str, key: str, cure: str, tmp_path: Path) -> None:
    said = refusal(tmp_path, text)
    assert "kfm.yml:1:" in said
    assert key in said
    assert SECRET not in said
    assert cure in said
