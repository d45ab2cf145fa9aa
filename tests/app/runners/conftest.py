"""An installation with schedules, secrets and everything else that a foreign runner needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Kfm, kfm, plain_environment

__all__ = ["kfm", "plain_environment"]

CONFIG = """\
catalog: file:catalog
runners:
  image: example.org/kansas/kfm@sha256:0000000000000000000000000000000000000000000000000000000000000000
  kubectl_image: example.org/kansas/kubectl:1.36.0
  folder: /srv/kfm
attest: {{sign_with: 'env:KFM_SECRET_SIGNING'}}
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    schedule: {{cadence: daily, at: "02:30", timezone: America/Chicago}}
    sources:
      rain: {{uri: rain.csv, format: csv}}
    outputs:
      rain: {{from: rain}}
  counties:
    version: "1.0.0"
    title: Counties
    license: CC0-1.0
    sensitivity: public
    schedule: {{after: [rain]}}
    sources:
      counties:
        uri: https://example.org/counties.csv
        format: csv
        headers: {{Authorization: 'env:KFM_SECRET_COUNTIES'}}
    outputs:
      counties: {{from: counties}}
{more}"""
KINDS = ("github", "kubernetes", "tekton", "argo", "systemd", "cron")
FILES = {
    ".github/workflows/kfm.yml",
    "pipelines/runners/kubernetes.yml",
    "pipelines/runners/tekton.yml",
    "pipelines/runners/argo.yml",
    "pipelines/runners/kfm.service",
    "pipelines/runners/kfm.timer",
    "pipelines/runners/kfm.cron",
}


def declare(more: str = "") -> None:
    Path("kfm.yml").write_text(CONFIG.format(more=more))


@pytest.fixture
def written(kfm: Kfm) -> Kfm:
    """Every file is there."""
    declare()
    Path("rain.csv").write_text("station,inches\nKS-01,1.20\n")
    for kind in KINDS:
        answer = kfm("runners", "write", kind)
        assert answer.code == 0, answer.err
    return kfm
