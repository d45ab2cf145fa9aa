"""The server that the other tests use is a real one: it keeps what it acknowledged when it is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policy.tools import Absent
from tests.sinks.graph import tools
from tests.sinks.graph.server import Neo4jServer


@pytest.mark.long
@pytest.mark.xdist_group("neo4j")
def test_what_neo4j_acknowledged_is_there_after_a_kill(server: Neo4jServer) -> None:
    server.ask("CREATE (:Canary {n: 1})")
    server.kill()
    assert not server.alive
    server.start()
    assert server.ask("MATCH (c:Canary) RETURN c.n AS n") == [{"n": 1}]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path / "cache" / "kfm" / "tools"


def pretend(folder: Path, monkeypatch: pytest.MonkeyPatch, mvn: str) -> Path:
    """A `java` that does nothing, and an `mvn` that writes down each call and then does this."""
    calls, commands = folder / "calls", folder / "bin"
    commands.mkdir()
    for name, script in {"java": "", "mvn": f'echo "$@" >> {calls}\n{mvn}'}.items():
        (commands / name).write_text(f"#!/bin/sh\n{script}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    return calls


LIB = 'for each in "$@"; do case $each in -DoutputDirectory=*) lib=${each#*=};; esac; done; mkdir "$lib"\n'


def test_the_server_is_fetched_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = pretend(tmp_path, monkeypatch, LIB + 'touch "$lib/neo4j-server-0.jar"')
    assert tools.fetched() == tools.fetched() == cache / f"neo4j-{tools.version()}"
    (call,) = calls.read_text().splitlines()
    assert "--strict-checksums" in call and str(tools.POM) not in call


@pytest.mark.parametrize("script", [LIB + 'echo "no such artifact"; exit 1', LIB + "exit 0"])
def test_what_could_not_be_fetched_is_not_there_and_says_why(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    pretend(tmp_path, monkeypatch, script)
    for _ in range(2):
        with pytest.raises(Absent, match="no such artifact" if "such" in script else "it said nothing"):
            tools.fetched()
    assert [path.name for path in cache.iterdir()] == [".neo4j.lock"]


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("missing", ["java", "mvn"])
def test_without_java_or_maven_there_is_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    pretend(tmp_path, monkeypatch, "exit 0")
    (tmp_path / "bin" / missing).unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(Absent, match=f"no {missing}"):
        tools.fetched()
