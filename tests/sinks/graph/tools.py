"""The Neo4j server, fetched by Maven once per machine into a folder outside the clone: `make tools`.

Maven holds every artifact against its checksum. The version is in the folder's name, so that another one is fetched
again, and a fetch that was interrupted leaves nothing behind that looks like a server.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.policy.tools import Absent

POM = Path(__file__).with_name("pom.xml")
COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"


def version() -> str:
    found = set(re.findall(r"<version>([0-9.]{3,})</version>", POM.read_text()))
    assert len(found) == 1, "the pom names one version of Neo4j"
    return found.pop()


def java() -> str:
    """The program that runs the server."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java")
    if found is None:
        raise Absent("no Neo4j can be started on this machine: there is no java")
    return found


def fetched() -> Path:
    """The folder of jars that are the server."""
    java()
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kfm" / "tools"
    there = folder / f"neo4j-{version()}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".neo4j.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers wait for the one that fetches
        if not there.is_dir():
            _fetch(there)
    return there


def _fetch(there: Path) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise Absent("no Neo4j on this machine, and no mvn to fetch it with")
    with tempfile.TemporaryDirectory(dir=there.parent) as scratch:
        # Maven writes next to the pom it is given, and nothing may be written into the clone.
        shutil.copy(POM, scratch)
        lib = Path(scratch, "lib")
        command = [mvn, "-q", "-B", "--strict-checksums", "-f", f"{scratch}/{POM.name}", COPY]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={lib}", "-DincludeScope=runtime"],
            capture_output=True,
            text=True,
            timeout=3000,
            check=False,
        )
        if done.returncode or not any(lib.glob("neo4j-server-*.jar")):
            said = [line for line in done.stdout.splitlines() if line.strip()] or ["it said nothing"]
            raise Absent(f"Neo4j could not be fetched: {said[0]}")
        lib.rename(there)


if __name__ == "__main__":
    from tests.sinks.graph.server import classes

    try:
        print(f"make: {fetched()}, {classes().name}")
    except Absent as problem:
        sys.exit(f"make: {problem}")
