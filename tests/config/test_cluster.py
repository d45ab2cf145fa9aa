"""The setting `execute.cluster`: which addresses are refused, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.config import load
from kfm.errors import BadInput

FAR = "state: postgresql://kfm@db/kfm\nobjects: s3://archive/objects\n"


def written(tmp_path: Path, cluster: str, more: str = "") -> str:
    file = tmp_path / "kfm.yml"
    file.write_text(f"{more}execute: {{cluster: '{cluster}'}}\ndatasets: {{}}\n")
    return str(file)


@pytest.mark.parametrize(
    ("cluster", "more"),
    [
        ("tcp://127.0.0.1:8786", ""),
        ("tcp://localhost:8786", "state: jsonl:state\n"),
        ("tcp://[::1]:8786", ""),
        ("tls://127.8.0.1:8786", ""),
        ("tls://dask.example.org:8786", FAR),
        ("tcp://dask.example.org:8786", FAR + "network: {allow: [dask.example.org]}\n"),
        ("tcp://10.0.0.7:8786", FAR + "network: {allow: ['10.0.0.7:8786']}\n"),
    ],
)
def test_a_scheduler_that_can_be_used_is_a_setting(cluster: str, more: str, tmp_path: Path) -> None:
    assert load(written(tmp_path, cluster, more), {}).config.execute.cluster == cluster


@pytest.mark.parametrize(
    ("cluster", "more", "why"),
    [
        ("127.0.0.1:8786", "", "write tcp://HOST:PORT or tls://HOST:PORT"),
        ("tcp://127.0.0.1", "", "write tcp://HOST:PORT or tls://HOST:PORT"),
        ("tcp://user:word@127.0.0.1:8786", "", "write tcp://HOST:PORT or tls://HOST:PORT"),
        ("inproc://127.0.0.1:8786", "", "write tcp://HOST:PORT or tls://HOST:PORT"),
        ("tcp://127.0.0.1:8786", "state: memory\n", "needs a state that workers can read"),
        ("tls://dask.example.org:8786", "", "cannot see the files of this one"),
        ("tls://127.example.org:8786", "", "cannot see the files of this one"),
        ("tls://10.0.0.7:8786", "state: postgresql://kfm@db/kfm\n", "cannot see the files of this one"),
        ("tcp://dask.example.org:8786", FAR, "is not encrypted, and whoever reaches a scheduler can run code there"),
    ],
)
def test_a_scheduler_that_cannot_be_used_is_refused_by_name(cluster: str, more: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        load(written(tmp_path, cluster, more), {})
    assert "execute.cluster" in str(refused.value) and why in str(refused.value)
    assert "word" not in str(refused.value).replace("write", "")
