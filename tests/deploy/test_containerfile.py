"""The image is that of a user without rights, from files that exist and packages with hashes. No engine builds it here:
its instructions are read, and those that need none are done."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.deploy.manifests import ROOT

FILE = ROOT / "deploy" / "Containerfile"


class Step(NamedTuple):
    word: str
    rest: str
    stage: int  # from 0


def steps(text: str) -> list[Step]:
    """The instructions, with lines that go on joined."""
    found: list[Step] = []
    stage = -1
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.strip().partition(" ")
            stage += word == "FROM"
            found.append(Step(word, rest.strip(), stage))
    return found


def mistakes(text: str, root: Path = ROOT) -> list[str]:
    """What is wrong with a Containerfile."""
    found = []
    every = steps(text)
    last = max(each.stage for each in every)
    own = {each.word: each.rest for each in every if each.stage == last}
    if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", own.get("USER", "")):
        found.append("the user is root, or a name that Kubernetes cannot judge")
    if own.get("STOPSIGNAL") != "SIGTERM":
        found.append("it is not stopped by SIGTERM")
    if own.get("ENTRYPOINT") != '["python", "-m"]':
        found.append("the entry point is another")
    if "KFM_WORKER_IMAGE=" not in own.get("ENV", ""):
        found.append("KFM_WORKER_IMAGE is not set")
    arguments = dict(each.rest.split("=", 1) for each in every if each.word == "ARG" and "=" in each.rest)
    for step in every:
        if step.word == "FROM" and (":" not in arguments.get("PYTHON_IMAGE", "") or ":latest" in step.rest):
            found.append("a base image without a version")
        if step.word in ("COPY", "ADD") and "--from=" not in step.rest:
            for path in step.rest.split()[:-1]:
                named = re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], path)
                if not (root / named).exists():
                    found.append(f"{named} is not there to be copied")
        if step.word == "ADD":
            found.append("ADD fetches and unpacks")
        if step.word in ("RUN", "CMD", "ENTRYPOINT") and not step.rest.startswith("["):
            found.append("a shell takes part")
        fetches = step.word == "RUN" and '"pip", "install"' in step.rest and "--no-index" not in step.rest
        if fetches and "--require-hashes" not in step.rest:
            found.append("packages without hashes")
        if re.search(r"(?i)(password|secret|token)\w*=\S", step.rest):
            found.append("a secret in a layer")
    return found


def test_the_containerfile_keeps_every_rule() -> None:
    assert mistakes(FILE.read_text()) == []
    assert max(each.stage for each in steps(FILE.read_text())) == 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("USER 10001:10001", "USER 0:0", "root"),
        ("USER 10001:10001", "", "root"),
        ("USER 10001:10001", "USER kfm", "root"),
        ("STOPSIGNAL SIGTERM", "STOPSIGNAL SIGKILL", "SIGTERM"),
        ("COPY src src", "COPY source src", "not there"),
        ("REQUIREMENTS=container", "REQUIREMENTS=everything", "not there"),
        ('"--require-hashes", ', "", "without hashes"),
        ('CMD ["workers", "run"]', "CMD workers run", "shell"),
        ("PYTHON_IMAGE=python:3.12-slim-bookworm", "PYTHON_IMAGE=python", "without a version"),
        ("    KFM_WORKER_IMAGE=${KFM_WORKER_IMAGE}\n", "    A=b\n", "KFM_WORKER_IMAGE"),
        ("WORKDIR /kfm", "ENV KFM_TOKEN=abc\nWORKDIR /kfm", "secret"),
    ],
)
def test_each_rule_is_missed_where_it_is_broken(old: str, new: str, said: str) -> None:
    text = FILE.read_text()
    assert old in text
    assert [each for each in mistakes(text.replace(old, new, 1)) if said in each]


def test_what_is_copied_is_what_the_builder_gets_to_see() -> None:
    """.dockerignore keeps everything else out: a key that lies in the clone reaches no layer."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[0] == "*"
    seen = {line[1:] for line in lines if line.startswith("!")}
    copied = {path for each in steps(FILE.read_text()) if each.word == "COPY" and "--from" not in each.rest
              for path in each.rest.split()[:-1]}  # fmt: skip
    assert {re.sub(r"requirements/.*", "requirements/*.txt", path) for path in copied} == seen


def test_the_image_holds_every_extra_of_a_cluster() -> None:
    pins = set(re.findall(r"(?m)^([A-Za-z0-9._-]+)==", (ROOT / "requirements/container.txt").read_text()))
    assert {"psycopg", "psycopg-binary", "obstore", "celery", "redis", "uvicorn", "pyogrio", "wordllama"} <= pins
    assert not {"pytest", "mypy", "ruff", "setuptools"} & pins


@pytest.mark.long
def test_the_wheel_is_built_from_what_is_copied_and_holds_the_product(tmp_path: Path) -> None:
    for path in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / path, tmp_path / path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    (line,) = [each.rest for each in steps(FILE.read_text()) if each.word == "RUN" and '"wheel"' in each.rest]
    words = [sys.executable, *json.loads(line)[1:]]
    words[words.index("/wheels")] = str(tmp_path / "wheels")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"workers.py", "updater.py", "kfm/__main__.py", "kfm/workers/main.py", "kfm/policy/rego/zone.rego"} <= names
    assert {f"kfm/store/sql/{file.name}" for file in (ROOT / "src/kfm/store/sql").glob("*.sql")} <= names
