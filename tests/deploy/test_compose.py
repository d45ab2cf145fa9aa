"""The file for Compose is one, starts what it needs first, pins what it fetches and holds no secret."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kfm import config
from tests.deploy.manifests import ROOT

FOLDER = ROOT / "deploy" / "compose"
FILE = FOLDER / "compose.yaml"
SERVERS = {"postgres", "valkey", "seaweedfs"}
_VARIABLE = re.compile(r"\$\{(KFM_SECRET_\w+):\?[^}]+\}")


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return found


def mistakes(file: dict[str, Any]) -> list[str]:
    found = []
    for name, service in file["services"].items():
        image, _, tag = service.get("image", "").rpartition(":")
        if not image or tag in ("", "latest") or not re.search(r"\d+\.\d+", tag):
            found.append(f"{name}: an image without a version")
        if not service.get("healthcheck"):
            found.append(f"{name}: no health check")
        if service.get("privileged") or "mem_limit" not in service:
            found.append(f"{name}: no limit")
        for port in service.get("ports", []):
            if not str(port).startswith("127.0.0.1:"):
                found.append(f"{name}: a port that is open to others")
        for key, value in service.get("environment", {}).items():
            if re.search("SECRET|PASSWORD$|TOKEN", key) and not _VARIABLE.fullmatch(value):
                found.append(f"{name}: {key} in clear")
        if name not in SERVERS:
            waits = {one: said["condition"] for one, said in service.get("depends_on", {}).items()}
            if waits != dict.fromkeys(SERVERS, "service_healthy"):
                found.append(f"{name}: does not wait for the servers")
            if not (service.get("read_only") is True and service.get("cap_drop") == ["ALL"]):
                found.append(f"{name}: can write to its root")
            if service.get("user") != "10001:10001":
                found.append(f"{name}: may be root")
    for name, said in file["configs"].items():
        for secret in re.findall(r"(?:requirepass |(?:accessKey|secretKey)\": \")([^\"\n]*)", said["content"]):
            if not _VARIABLE.fullmatch(secret):
                found.append(f"{name}: a password in clear")
    return found


def test_it_keeps_every_rule() -> None:
    file = compose()
    assert set(file["services"]) == SERVERS | {"worker", "up"}
    assert mistakes(file) == []


SPOILT: dict[str, Callable[[dict[str, Any]], object]] = {
    "an image without a version": lambda file: file["services"]["valkey"].update(image="valkey/valkey:latest"),
    "no health check": lambda file: file["services"]["postgres"].pop("healthcheck"),
    "no limit": lambda file: file["services"]["worker"].pop("mem_limit"),
    "open to others": lambda file: file["services"]["seaweedfs"].update(ports=["8333:8333"]),
    "POSTGRES_PASSWORD in clear": lambda file: file["services"]["postgres"]["environment"].update(
        POSTGRES_PASSWORD="kfm"
    ),
    "KFM_SECRET_KEY in clear": lambda file: file["services"]["up"]["environment"].update(KFM_SECRET_KEY="kfm"),
    "does not wait": lambda file: file["services"]["up"]["depends_on"].pop("valkey"),
    "can write to its root": lambda file: file["services"]["up"].pop("read_only"),
    "may be root": lambda file: file["services"]["up"].pop("user"),
    "a password in clear": lambda file: file["configs"]["valkey"].update(content="requirepass hunter2\n"),
}


@pytest.mark.parametrize("said", SPOILT)
def test_a_broken_rule_is_found(said: str) -> None:
    file = copy.deepcopy(compose())
    SPOILT[said](file)
    assert [each for each in mistakes(file) if said in each]


@pytest.mark.long
def test_compose_takes_it(tmp_path: Path) -> None:
    def valid(path: Path) -> bool:
        words = [str(Path(sys.executable).parent / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
        return subprocess.run([*words, str(path)], capture_output=True, check=False).returncode == 0

    assert valid(FILE)
    file = compose()
    file["services"]["up"]["comand"] = ["x"]
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(file))
    assert not valid(tmp_path / "compose.yaml")


def test_every_file_it_mounts_is_there_and_its_configuration_is_one(tmp_path: Path) -> None:
    for service in compose()["services"].values():
        for volume in service.get("volumes", []):
            if isinstance(volume, dict):
                assert (FOLDER / volume["source"]).is_file()
        if build := service.get("build"):
            assert (FOLDER / build["context"] / build["dockerfile"]).is_file()
    shutil.copy(FOLDER / "kfm.yml", tmp_path)
    found = config.load(str(tmp_path / "kfm.yml"), {})
    assert set(found.config.datasets) == {"rain"}
    given = set(compose()["services"]["worker"]["environment"])
    assert set(re.findall(r"env:(\w+)", (FOLDER / "kfm.yml").read_text())) <= given


def test_its_commands_can_be_typed() -> None:
    from kfm.cli.parser import parse
    from kfm.workers.options import parser

    services = compose()["services"]
    parser().parse_args(services["worker"]["command"][1:])
    parse(services["up"]["command"][1:])
    assert (services["worker"]["command"][0], services["up"]["command"][0]) == ("workers", "kfm")
