"""What each runner would do with its file, done here: the commands of its containers, units and lines.

A runner is asked for its commands by its own file, never by what the test knows. What is executed is a program of the
name that stands there, on the PATH or where `runners.program` says, with the environment that the file asks for.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

RUNNERS = Path("pipelines/runners")


def kfm_at(folder: Path) -> Path:
    """A `kfm` and a `python` for a PATH; what is installed there is installed here already."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kfm").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kfm "$@"\n')
    (folder / "python").write_text("#!/bin/sh\n")
    for name in ("kfm", "python"):
        (folder / name).chmod(0o755)
    return folder / "kfm"


def done(words: list[str], folder: str | Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, env=dict(env), capture_output=True, text=True, timeout=120, check=False)


def in_container(
    container: dict[str, Any], env: Mapping[str, str], secrets: Mapping[str, str], words: list[str]
) -> Any:
    """As a kubelet would: the command and its arguments, in the folder, with values from the secret it refers to."""
    own = dict(env)
    for each in container["env"]:
        if "valueFrom" in each:
            reference = each["valueFrom"]["secretKeyRef"]
            assert reference["name"] == "kfm"
            own[each["name"]] = secrets[reference["key"]]
        else:
            own[each["name"]] = each["value"]
    return done([*container["command"], *words], container["workingDir"], own)


def argo(site: Path, env: Mapping[str, str], secrets: Mapping[str, str]) -> Any:
    template, clock = yaml.safe_load_all((site / RUNNERS / "argo.yml").read_text())
    assert clock["spec"]["workflowSpec"]["workflowTemplateRef"]["name"] == template["metadata"]["name"]
    (entry,) = [one for one in template["spec"]["templates"] if one["name"] == template["spec"]["entrypoint"]]
    return in_container(entry["container"], env, secrets, entry["container"]["args"])


def tekton(site: Path, env: Mapping[str, str], secrets: Mapping[str, str]) -> Any:
    task, starter, *_ = yaml.safe_load_all((site / RUNNERS / "tekton.yml").read_text())
    run = yaml.safe_load(starter["data"]["taskrun.yml"])
    given = {each["name"]: each["value"] for each in run["spec"].get("params", [])}
    values = {each["name"]: given.get(each["name"], each.get("default")) for each in task["spec"]["params"]}
    (step,) = task["spec"]["steps"]
    words: list[str] = []
    for arg in step["args"]:
        whole = re.fullmatch(r"\$\(params\.(\w+)\[\*\]\)", arg)
        words += values[whole[1]] if whole else [arg]
    return in_container(step, env, secrets, words)


def kubernetes(site: Path, env: Mapping[str, str], secrets: Mapping[str, str]) -> Any:
    job, *_ = yaml.safe_load_all((site / RUNNERS / "kubernetes.yml").read_text())
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    return in_container(container, env, secrets, container["args"])


def systemd(site: Path, env: Mapping[str, str], secrets: Mapping[str, str]) -> Any:
    unit = (site / RUNNERS / "kfm.service").read_text()
    said = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)
    own = dict(env)
    if file := said.get("EnvironmentFile"):
        own |= dict(line.split("=", 1) for line in Path(file).read_text().splitlines())
    return done(said["ExecStart"].split(), said["WorkingDirectory"], own)


def cron(site: Path, env: Mapping[str, str], secrets: Mapping[str, str]) -> Any:
    (line,) = [
        line for line in (site / RUNNERS / "kfm.cron").read_text().splitlines() if not line.startswith(("#", "SHELL="))
    ]
    command = line.split(" ", 6)[6]
    return done(["/bin/sh", "-c", command], "/", env)


def github(site: Path, env: Mapping[str, str], secrets: Mapping[str, str]) -> Any:
    """The steps that are commands, each as bash gets it; `act` does the whole of it in a long test."""
    (job,) = yaml.safe_load((site / ".github/workflows/kfm.yml").read_text())["jobs"].values()
    last = None
    for step in job["steps"]:
        if "run" in step:
            own = {name: filled_in(text, secrets) for name, text in step.get("env", {}).items()}
            last = done(["bash", "-e", "-c", step["run"]], site, {**env, **own})
            assert last.returncode == 0, last.stderr
    return last


def filled_in(text: str, secrets: Mapping[str, str]) -> str:
    """An expression of GitHub in a run that nobody asked for by hand."""

    def value(found: re.Match[str]) -> str:
        kind, _, name = found[1].strip().partition(".")
        return secrets[name] if kind == "secrets" else ""

    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


WAYS = {"argo": argo, "kubernetes": kubernetes, "tekton": tekton, "systemd": systemd, "cron": cron, "github": github}
