"""Renders deploy/manifests from the chart and the example: `make manifests`.

Helm is told which Kubernetes is meant, because a Helm that Go built knows none.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.policy.tools import Absent, built

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "chart"
EXAMPLE = ROOT / "deploy" / "example"
MANIFESTS = ROOT / "deploy" / "manifests"
CLOCK = EXAMPLE / "pipelines" / "runners" / "kubernetes.yml"
KUBERNETES = "1.31.0"
SAID = "# Rendered by `make manifests` from deploy/chart and deploy/example: change those.\n"


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    """Raises Absent if there is no helm and none can be built."""
    return subprocess.run([str(built("helm")), *words], capture_output=True, text=True, timeout=120, check=False)


def given(values: Path = EXAMPLE / "values.yaml", config: Path = EXAMPLE / "kfm.yml", clock: Path = CLOCK) -> list[str]:
    """The words that give helm an installation."""
    return ["--values", str(values), "--set-file", f"config={config}", "--set-file", f"clock={clock}"]


def template(*words: str, chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    return helm("template", "kfm", str(chart), "--namespace", "kfm", "--kube-version", KUBERNETES, *words)


def documents(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


def rendered() -> dict[str, str]:
    """The manifests of the example by the names of their files. RuntimeError with what helm says if it renders none."""
    with tempfile.TemporaryDirectory() as scratch:
        done = template(*given(), "--output-dir", scratch)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return {file.name: SAID + file.read_text() for file in sorted(Path(scratch, "kfm", "templates").iterdir())}


def write() -> None:
    """Write the clock of the example and its manifests, and remove those that are none any more."""
    kfm = [sys.executable, "-m", "kfm", "--quiet", "runners", "write", "kubernetes"]
    subprocess.run(kfm, cwd=EXAMPLE, check=True)
    found = rendered()
    MANIFESTS.mkdir(exist_ok=True)
    for name, text in found.items():
        (MANIFESTS / name).write_text(text)
    for file in MANIFESTS.iterdir():
        if file.name not in found:
            file.unlink()


if __name__ == "__main__":
    try:
        write()
    except (Absent, RuntimeError) as problem:
        sys.exit(f"make: {problem}")
