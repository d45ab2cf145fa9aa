"""The entry point works as its pods do: as a user without rights, with a root that nobody can write to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.deploy.local_site import SECRETS, free_ports, local, needs_servers, place
from tests.deploy.manifests import MANIFESTS, ROOT, documents
from tests.deploy.read_only import USER, needs_namespaces, run

__all__ = ["place"]

CONFIG = """\
accept_weak_storage: true
publish: file:.kfm/public
datasets:
  rain:
    version: "1.0.0"
    sensitivity: public
    schedule: {cadence: daily, at: "02:30", timezone: America/Chicago}
    sources:
      rain: {uri: rain.csv, format: csv}
    outputs:
      rain: {from: rain}
"""


class Pod(NamedTuple):
    """The folders of a pod: that of the installation, the two that it may write to, and its environment."""

    folder: Path
    private: Path
    scratch: Path
    env: dict[str, str]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return run(list(command), self.folder, [self.private, self.scratch], self.env)

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", *words)


@pytest.fixture
def pod() -> Iterator[Pod]:
    needs_namespaces()
    top = Path(tempfile.mkdtemp(prefix="kfm-pod-"))
    top.chmod(0o755)
    folder, scratch = top / "kfm", top / "scratch"
    private = folder / ".kfm"
    private.mkdir(parents=True)
    scratch.mkdir()
    (folder / "kfm.yml").write_text(CONFIG)
    (folder / "rain.csv").write_text("station,inches\nKS-01,1.20\n")
    for own in (private, scratch):
        os.chown(own, USER, USER)
    env = {
        "PATH": os.environ["PATH"], "HOME": str(scratch), "TMPDIR": str(scratch), "KFM_ACTOR": "pod",
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    yield Pod(folder, private, scratch, env)
    shutil.rmtree(top, ignore_errors=True)


def test_the_fault_fires_nothing_else_can_be_written_and_nobody_is_root(pod: Pod) -> None:
    assert pod.run("touch", str(pod.private / "x"), str(pod.scratch / "x")).returncode == 0
    for closed in (pod.folder, Path("/tmp"), Path("/var/tmp"), ROOT, Path("/etc"), Path("/usr/local")):
        done = pod.run("touch", str(closed / "kfm-was-here"))
        assert done.returncode != 0 and "Read-only file system" in done.stderr, (closed, done.stderr)
        assert not (closed / "kfm-was-here").exists()
    assert pod.run("id", "-u").stdout.strip() == str(USER)
    done = pod.run("grep", "-E", "^Cap(Inh|Prm|Eff|Bnd|Amb):|^NoNewPrivs:", "/proc/self/status")
    said = dict(line.split(":\t") for line in done.stdout.splitlines())
    assert said.pop("NoNewPrivs") == "1" and set(said.values()) == {"0" * 16} and len(said) == 5


def test_the_workers_and_kfm_up_run_an_installation_there(pod: Pod) -> None:
    usage = pod.python("workers", "--help")
    assert usage.returncode == 0 and "usage: python -m workers" in usage.stdout, usage.stderr
    done = pod.python("kfm", "--no-color", "up", "--once")
    assert done.returncode == 0, done.stderr
    worked = pod.python("workers", "run", "--once")
    assert worked.returncode == 0, worked.stderr
    done = pod.python("kfm", "run", "rain")
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stderr
    owners = {path.stat().st_uid for path in pod.private.rglob("*")}
    assert owners == {USER} and (pod.private / "state.db").exists()
    assert sorted(path.name for path in pod.folder.iterdir()) == [".kfm", "kfm.yml", "rain.csv"]


@pytest.mark.long
def test_an_installation_with_servers_needs_no_other_folder(pod: Pod, place: Path) -> None:
    needs_servers()
    started = local("up", place, *free_ports())
    assert started.returncode == 0, started.stderr
    text = (place / "kfm.yml").read_text()
    for name in SECRETS:
        variable = f"KFM_SECRET_{name.upper().replace('-', '_')}"
        text = text.replace(f'"file:secrets/{name}"', f"env:{variable}").replace(
            f"file:secrets/{name}", f"env:{variable}"
        )
        pod.env[variable] = (place / "secrets" / name).read_text().strip()
    assert "file:secrets" not in text
    (pod.folder / "kfm.yml").write_text(text)
    for words in (
        ["kfm", "run", "rain"], ["kfm", "publish", "rain", "--reason", "first"], ["kfm", "up", "--once"],
        ["workers", "run", "--once"], ["kfm", "doctor"],
    ):  # fmt: skip
        done = pod.python(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert sorted(path.name for path in pod.folder.iterdir()) == [".kfm", "kfm.yml", "rain.csv"]
    shutil.rmtree(pod.private)  # as with a pod that is replaced: nothing of it has to outlive one
    pod.private.mkdir()
    os.chown(pod.private, USER, USER)
    done = pod.python("kfm", "status")
    assert done.returncode == 0 and "rain" in done.stdout, done.stderr
    assert "KS-01" in pod.python("kfm", "cat", "rain").stdout


def test_a_state_that_cannot_be_written_is_one_line_and_no_traceback(pod: Pod) -> None:
    (pod.folder / "kfm.yml").write_text(CONFIG.replace("accept", "state: sqlite:state/db\naccept"))
    done = pod.python("workers", "run", "--once")
    assert done.returncode not in (0, 1), "refused, and not an internal error"
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr, done.stderr


def test_the_writable_folders_of_a_pod_are_those_tried_here() -> None:
    for file in MANIFESTS.iterdir():
        for document in documents(file.read_text()):
            text = yaml.safe_dump(document)
            if "readOnlyRootFilesystem" in text and document["kind"] == "Deployment":
                container = document["spec"]["template"]["spec"]["containers"][0]
                places = {each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")}
                assert places == {"/tmp", "/kfm/.kfm"}
                assert container["workingDir"] == "/kfm"
