"""The schemas that Argo Workflows, Tekton, Argo CD, Flux and KEDA give their resources, fetched once per machine by Go.

They lie in the modules of those projects, which Go holds against its checksum database. What is kept is JSON Schema,
made as a server in strict mode would read them: a key that is not named is refused, unless the schema takes any.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.policy.tools import Absent, go_for

MODULES = {
    "github.com/argoproj/argo-workflows/v3@v3.7.3": (
        "manifests/base/crds/full/argoproj.io_cronworkflows.yaml",
        "manifests/base/crds/full/argoproj.io_workflowtemplates.yaml",
    ),
    "github.com/tektoncd/pipeline@v1.6.0": (
        "config/300-crds/300-task.yaml",
        "config/300-crds/300-taskrun.yaml",
    ),
    "github.com/argoproj/argo-cd/v3@v3.1.9": ("manifests/crds/application-crd.yaml",),
    "github.com/fluxcd/kustomize-controller@v1.6.0": (
        "config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml",
    ),
    "github.com/kedacore/keda/v2@v2.18.1": ("config/crd/bases/keda.sh_scaledobjects.yaml",),
}
VERSION = 1  # of how they are made


def schemas() -> dict[str, dict[str, Any]]:
    """By `apiVersion kind`."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kfm" / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    versions = "-".join(name.rpartition("@v")[2] for name in MODULES)
    there = folder / f"runner-schemas-{VERSION}-{versions}.json"
    with (folder / ".runner-schemas.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers wait for the one that fetches
        if not there.is_file():
            found = {name: schema for module, files in MODULES.items() for name, schema in _fetched(module, files)}
            temporary = there.with_suffix(".tmp")
            temporary.write_text(json.dumps(found))
            temporary.replace(there)
    loaded: dict[str, dict[str, Any]] = json.loads(there.read_text())
    return loaded


def _fetched(module: str, files: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    command = [go_for("schemas of runners"), "mod", "download", "-json", module]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode:
        raise Absent(f"{module} could not be fetched: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    folder = Path(json.loads(done.stdout)["Dir"])
    found = []
    for file in files:
        crd = yaml.load((folder / file).read_text(), Loader=yaml.CSafeLoader)["spec"]
        for version in crd["versions"]:
            name = f"{crd['group']}/{version['name']} {crd['names']['kind']}"
            found.append((name, _strict(version["schema"]["openAPIV3Schema"])))
    return found


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: _strict(each) for name, each in value.items()}
        elif not key.startswith("x-") and key not in ("description", "format", "default", "nullable", "example"):
            made[key] = _strict(value)
    if schema.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "string"]
    if "properties" in made and "additionalProperties" not in made:
        made["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    return made


if __name__ == "__main__":
    try:
        print(f"make: {len(schemas())} schemas of runners")
    except Absent as problem:
        sys.exit(f"make: {problem}")
