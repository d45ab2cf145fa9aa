"""A dry run changes nothing, and what it predicts is what then happens, byte for byte.

The same holds for every command that only looks. (`kfm doctor` tries the disk by writing to it.)
"""

from __future__ import annotations

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kfm
from tests.app.objectives.site import promise
from tests.engine.installations import (
    GAUGES_CSV,
    NOW,
    WORDS_CSV,
    Installation,
    Server,
    Warm,
    command,
    contents,
    environment,
    kansas,
    kansas_files,
    serving,
    small,
    stamps,
)
from tests.engine.nothing_to_see import NO_INDEX, NOTHING_TO_SEE
from tests.engine.system_calls import changes, need_strace, traced
from tests.sampling import sampled, stride
from tests.servers import placement

Count = Callable[..., None]
Foretell = Callable[..., dict[str, Any]]
MESSAGE = f'''{{"source_id": "gauges", "trigger": "etag-change", "event_type": "update", "sent_at": "{NOW}",
"metadata": {{}}, "integrity": {{"version": "v1"}}}}'''
MASK = """{"id": "gauges", "version": "1", "namespace": "gauges", "record_id": "gauge", "resolution": 7,
"location": {"latitude": "lat", "longitude": "lng", "accuracy": {"all": {"name": "point", "metres": 10}}}}"""
HOTFIX = "{hotfix: title, dataset: gauges, stac: {expect: {title: Gauges}, merge: {title: Rain}}}\n"
MORE_GAUGES = GAUGES_CSV + "e,ford,5\n"
# Commands that promise to change nothing. ARTIFACTS is the folder they may write to; TRIGGER and SIGNED exist.
DRY: tuple[tuple[str, ...], ...] = (
    ("run", "--dry-run"), ("run", "--dry-run", "--json", "--verbose"),
    ("run", "gauges", "--dry-run", "--window", "2026-01-01/2026-01-31"),
    ("run", "--dry-run", "--force", "--reason", "look again"),
    ("run", "--dry-run", "--artifacts", "ARTIFACTS"),
    ("publish", "gauges", "--dry-run"),
    ("catalog", "discover", "data", "--dry-run"),
    ("publish", "halves", "--dry-run", "--json"),
    ("rollback", "gauges", "--dry-run"),
    ("rollback", "gauges", "--ref", "processed/gauges", "--dry-run"),
    ("rollback", "gauges", "--cascade", "--hotfixes", "--dry-run"),
    ("hotfix", "apply", "hotfix.yml", "--dry-run"), ("hotfix", "revert", "title", "--dry-run"),
    ("freeze", "--dry-run"), ("gc", "--dry-run"), ("upgrade", "backups", "--dry-run"),
    ("move", "--to", "jsonl:.kfm/there.jsonl", "--dry-run"),
    ("freeze", "gauges", "--dry-run"), ("slo", "override", "gauges-success", "--until", "1h", "--dry-run"),
    ("thaw", "--dry-run"), ("thaw", "halves", "--dry-run"),
    ("preview", "publish", "main", "--approved", "sha256:" + "0" * 64, "--dry-run"),
    ("preview", "sweep", "--dry-run"), ("sinks", "test", "--dry-run"),
    ("protect", "data/rain_gauges.csv", "--custodian", "society", "--dry-run"),
    ("add", "data/rain_gauges.csv", "--name", "more", "--dry-run"),
    ("remove", "halves", "--dry-run"),
    ("labels", "set", "dataset:gauges", "--sensitivity", "closed", "--care", "open", "--dry-run"),
    ("plan", "gauges"), ("plan", "halves", "--json"), ("plan", "gauges", "--check"),
)  # fmt: skip
LOOKING: tuple[tuple[str, ...], ...] = (
    ("runs", "list"),
    ("runs", "show", "last"),
    ("runs", "steps", "last"),
    ("refs", "list"),
    ("refs", "history", "processed/gauges"),
    ("cat", "processed/halves"),
    ("cat", "processed/gauges", "ford"),
    ("cat", "quarantine/gauges"),
    ("diff", "gauges"),
    ("diff", "gauges@nothing", "gauges", "--rows"),
    ("search", "gauges"),
    *(("hotfix", "list"), ("hotfix", "diff", "hotfix.yml")),
    *(("jobs", "list"), ("jobs", "dead"), ("jobs", "types")),
    ("jobs", "show", "1"),
    ("runs", "receipts"),
    ("runs", "receipt", "last"),
    ("keys", "list"),
    ("token", "list"),
    ("review", "list", "--all"),
    ("review", "show", "0" * 16),
    ("reconcile", "--public"),
    ("reconcile", "gauges"),
    ("catalog", "show"),
    *((name,) for name in ("sinks", "breakers", "budgets")),
    ("reconcile",),
    ("catalog", "validate", "message.json"),
    ("lineage", "graph"),
    ("lineage", "upstream", "gauges"),
    ("lineage", "downstream", "gauges"),
    ("lineage", "export", "--format", "cypher"),
    ("backfill", "plan", "halves"),
    ("backfill", "status"),
    ("backfill", "status", "halves"),
    ("schedule", "list"),
    ("schedule", "show", "gauges"),
    ("schedule", "next", "3"),
    ("schedule", "check"),
    ("schedule", "freshness"),
    ("status",),
    ("help", "run"),
    *(("energy",), ("energy", "gauges"), ("energy", "last")),
    *(("slo",), ("slo", "list"), ("slo", "show", "gauges-success"), ("alerts", "write"), ("report", "quarter")),
    *(("runs", "signals"), ("runs", "signals", "--metrics")),
    ("schedule", "pools"),
    ("preview", "list"),
    ("quarantine", "gauges"),
    ("quarantine", "gauges", "--rows"),
    ("runs", "wal", "last"),
    ("runs", "wal", "last", "--format", "avro"),
    ("runs", "wal", "last", "--format", "parquet"),
    ("runs", "telemetry", "--stdout"),
    ("labels", "show"),
    ("policy", "gates", "gauges"),
    ("policy", "check"),
    ("policy", "check", "gauges"),
    ("policy", "explain", "gauges"),
    ("policy", "test"),
    ("mask", "preview", "data/gauges.csv", "--mask", "mask.json"),
    ("mask", "scan", "message.json", "--against", "data/gauges.csv", "--mask", "mask.json"),
    ("verify", "gauges"),
    ("reproduce", "gauges"),
    ("explain", "gauges"),
    ("explain", "last", "--format", "html"),
    ("why-not", "gauges"),
    ("audit", "verify"),
    ("audit", "prove", "1"),
    ("audit", "consistency", "1"),
    ("audit", "export", "--stdout"),
    ("triggers", "list", "--all"),
    ("triggers", "show", "TRIGGER"),
    ("webhooks", "sign", "gauges", "--body", "message.json"),
    ("webhooks", "verify", "gauges", "--body", "message.json", "--header", "SIGNED"),
    ("webhooks", "verify", "gauges", "--body", "data/gauges.csv", "--header", "SIGNED"),
    ("runners", "workflow"),
    ("runners", "write", "systemd", "--stdout"),
    ("runners", "check"),
    ("config", "show", "--resolved"),
    ("config", "check"),
    ("config", "schema"),
    ("config", "schema", "receipt"),
    ("config", "completion", "bash"),
    ("--version",),
    ("--help",),
)
BACKFILLS = "backfills: {halves: {dataset: halves, partitions: {kind: name, keys: [part]}}}\n"
SCHEDULES = "schedules: {gauges: {dataset: gauges, cadence: daily}}\n"
# The same through the runners' command line: `python -m updater …`.
RUNNER: tuple[tuple[str, ...], ...] = (
    ("run", "--dry-run"),
    ("run", "--dry-run", "--artifacts", "ARTIFACTS"),
    ("webhook", "verify", "gauges", "--body", "message.json", "--header", "SIGNED"),
)
KNOWN_CODES = {0, 3, 4, 5, 65, 68}  # done, refused, denied, frozen, corrupt, unsigned; never an internal error


# ------------------------------------------------------------------------------- states to stand on


def empty(_site: Installation) -> None:
    """Nothing was ever run here."""


def settled(site: Installation) -> None:
    """Two versions, both published in turn: there is something to roll back to."""
    site.kfm("run")
    site.kfm("publish", "gauges")
    (site.folder / "data/gauges.csv").write_text(MORE_GAUGES)
    site.kfm("run", "gauges")
    site.kfm("publish", "gauges")
    (site.folder / "data/gauges.csv").write_text(MORE_GAUGES + "f,ellis,6\n")  # and there is something to do


def killed(site: Installation) -> None:
    """A process died in the middle of a run, its log not yet in the database."""
    site.kfm("run", "gauges")
    site.kfm("publish", "gauges")
    site.kfm("run", "halves", env={"DIE_HERE": "27"}, expect=-9)
    assert site.kfm("runs", "list", "--json").data[0]["status"] == "RUNNING"


def killed_with_a_log(site: Installation) -> None:
    killed(site)
    assert (site.folder / ".kfm/state.db-wal").stat().st_size > 0


def frozen(site: Installation) -> None:
    settled(site)
    site.kfm("freeze", "--reason", "an incident")
    site.kfm("run", "gauges", expect=5)  # its trigger waits


def undelivered(site: Installation) -> None:
    """Committed, but the public folder could not be written: everything waits in the outbox."""
    settings = 'pages: false\ncatalog: ""\n'  # a dry run predicts no pause of a sink that failed
    (file := site.folder / "kfm.yml").write_text(file.read_text() + settings)
    settled(site)
    site.kfm("run", "halves", "--force", "--reason", "again")
    shutil.rmtree(site.folder / "public")
    (site.folder / "public").write_text("in the way")
    site.kfm("publish", "halves", expect=74)
    (site.folder / "public").unlink()


def compacted(site: Installation) -> None:
    settled(site)
    site.kfm("runs", "compact")


STATES: dict[str, tuple[Callable[[Installation], None], str]] = {
    "no state yet": (empty, "sqlite:.kfm/state.db"),
    "after runs": (settled, "sqlite:.kfm/state.db"),
    "after a kill": (killed_with_a_log, "sqlite:.kfm/state.db"),
    "in a journal of lines": (settled, "jsonl:.kfm/state.jsonl"),
    "in a journal of lines after a kill": (killed, "jsonl:.kfm/state.jsonl"),
    "frozen": (frozen, "sqlite:.kfm/state.db"),
    "undelivered": (undelivered, "sqlite:.kfm/state.db"),
    "compacted": (compacted, "sqlite:.kfm/state.db"),
}


ONLY_DRY = ("frozen", "undelivered", "compacted", "in a journal of lines")  # where looking is nothing new
STATELESS = ("webhooks", "runners", "config", "--version", "--help")  # no state is opened


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving({"words.csv": WORDS_CSV, **kansas_files()}) as server:
        yield server


def standing(name: str, folder: Path, server: Server, elsewhere: str = "") -> Installation:
    prepare, state = STATES[name]
    site = small(folder, server.port, elsewhere or state)
    with (folder / "kfm.yml").open("a") as config:
        config.write("webhooks: {gauges: {datasets: [gauges], secrets: ['file:secret']}}\n")
        config.write("notify: {ops: {url: 'http://127.0.0.1:9/', secrets: ['file:secret'], on: [burnt]}}\n")
    (folder / "secret").write_text("9f2c4e6a8b0d1f3e5c7a9b8d6f4e2c0a")
    (folder / "secret").chmod(0o600)
    (folder / "message.json").write_text(MESSAGE)
    (folder / "pipelines" / "schedules").mkdir(parents=True)
    (folder / "pipelines" / "schedules" / "gauges.yml").write_text(SCHEDULES)
    (folder / "pipelines" / "backfills").mkdir()
    (folder / "pipelines" / "backfills" / "halves.yml").write_text(BACKFILLS)
    (folder / "mask.json").write_text(MASK)
    (folder / "hotfix.yml").write_text(HOTFIX)
    promise(folder, "gauges-success", dataset="gauges")
    prepare(site)
    return site


def looking(state: str) -> tuple[tuple[str, ...], ...]:
    if state == "frozen":  # a trigger waits only there
        return tuple(arguments for arguments in LOOKING if arguments[0] == "triggers")
    if "after a kill" in state:
        return tuple(arguments for arguments in LOOKING if arguments[0] not in STATELESS)
    return () if state in ONLY_DRY else LOOKING


def said_for(site: Installation, artifacts: Path) -> Callable[[tuple[str, ...]], list[str]]:
    """Puts what there is in this installation in the place of the words in capitals."""
    triggers = site.kfm("triggers", "list", "--all", "--json").data
    named = {
        "ARTIFACTS": str(artifacts),
        "TRIGGER": triggers[0]["trigger_id"] if triggers else "000000000001",
        "SIGNED": site.kfm("webhooks", "sign", "gauges", "--body", "message.json").out.strip(),
    }
    return lambda arguments: [named.get(word, word) for word in arguments]


# --------------------------------------------------------------------------------- it changes nothing

# What Python keeps of the program itself, where an installation did not, before any line of ours can say no.
BEFORE_OUR_FIRST_LINE = re.compile(
    r'/(kfm(/cli)?/__pycache__(/(__init__|main)\.[^"/]*)?|(src|site-packages)/__pycache__(/updater\.[^"/]*)?)"'
)


PARTS = 8


def part_of(part: int, state: str, every: Iterable[Any]) -> list[Any]:
    """An eighth of the commands, another one on each state: the first parts of all the states are all commands."""
    first = list(STATES).index(state) + part
    return [each for n, each in enumerate(every) if (n + first) % PARTS == 0]


@pytest.mark.parametrize("part", sampled(range(PARTS)))
@pytest.mark.parametrize("state", sampled(STATES, every=4))
def test_no_call_to_the_system_changes_anything(
    state: str, part: int, tmp_path: Path, server: Server, count: Count
) -> None:
    """Also without PYTHONDONTWRITEBYTECODE: the code of an updater is read, and nothing is left next to it."""
    need_strace()
    compileall.compile_dir(Path(kfm.__file__).parent, quiet=2)  # as an installed program is
    site = standing(state, tmp_path / "site", server)
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    env = environment() | {"PYTHONDONTWRITEBYTECODE": ""}
    said = said_for(site, artifacts)
    before = stamps(site.folder)
    server.methods.clear()
    through = {"kfm.cli.main": (*DRY, *looking(state)), "updater": RUNNER}
    typed = [(door, arguments) for door, every in through.items() for arguments in every]
    into_a_folder = [each for each in typed if "ARTIFACTS" in each[1]][:: stride(2)]
    for door, arguments in dict.fromkeys([*part_of(part, state, typed), *into_a_folder]):
        argv = [sys.executable, "-m", door, *said(arguments)]
        done, calls = traced(argv, tmp_path / "trace", cwd=site.folder, env=env)
        assert done.returncode in KNOWN_CODES, (arguments, done)
        if state in ("after runs", "frozen") and arguments in LOOKING:  # there is something to be seen
            codes = {**NO_INDEX, **(NOTHING_TO_SEE if state == "after runs" else {})}
            assert done.returncode == codes.get(arguments, 0), arguments
        assert "Traceback" not in done.stderr
        assert any(call.name == "execve" and f'"{door}"' in call.rest for call in calls), "nothing was traced"
        assert len(calls) > 100
        found = changes(calls, folder=artifacts, port=server.port)
        assert [line for line in found if not BEFORE_OUR_FIRST_LINE.search(line)] == [], arguments
        assert stamps(site.folder) == before, arguments
        count("commands traced")
    assert set(server.methods) == {"GET"}
    assert sorted(path.name for path in artifacts.iterdir()) == [
        "event_log.jsonl", "idempotency.json", "publisher_trace.jsonl", "run.jsonl",
    ]  # fmt: skip


REAL = (
    ("run",),
    ("publish", "gauges"),
    ("rollback", "gauges"),
    ("freeze",),
    ("thaw",),
    ("runs", "compact"),
    ("doctor",),
)


def test_the_same_look_at_the_system_sees_every_real_change(tmp_path: Path, server: Server) -> None:
    need_strace()
    site = standing("after runs", tmp_path / "site", server)
    for arguments in REAL:
        done, calls = traced(command(*arguments), tmp_path / "trace", cwd=site.folder, env=environment())
        assert done.returncode == 0, (arguments, done)
        found = changes(calls, folder=tmp_path / "artifacts", port=server.port)
        assert found, arguments
        if arguments == ("run",):
            assert any(line.startswith("openat(") and "O_CREAT" in line for line in found)
            assert any(line.startswith("pwrite64(") for line in found)
            assert any(line.startswith(("fsync(", "fdatasync(")) for line in found)


CHANGING = {
    "create": "open('new', 'w')",
    "create by descriptor": "os.open('new', os.O_RDONLY | os.O_CREAT)",
    "open to write": "os.open('old', os.O_WRONLY)",
    "truncate on opening": "os.open('old', os.O_RDONLY | os.O_TRUNC)",
    "a file without a name": "os.open('.', os.O_RDWR | os.O_TMPFILE)",
    "append": "open('old', 'a').write('x')",
    "mkdir": "os.mkdir('folder')",
    "rmdir": "os.rmdir('empty')",
    "unlink": "os.unlink('old')",
    "rename": "os.rename('old', 'new')",
    "link": "os.link('old', 'new')",
    "symlink": "os.symlink('old', 'new')",
    "chmod": "os.chmod('old', 0o600)",
    "chown": "os.chown('old', os.getuid(), -1)",
    "utime": "os.utime('old')",
    "truncate": "os.truncate('old', 0)",
    "mkfifo": "os.mkfifo('pipe')",
    "setxattr": "os.setxattr('old', 'user.a', b'b')",
    "sync of a folder": "os.fsync(os.open('.', os.O_RDONLY))",
    "a lock that keeps others out": "fcntl.flock(os.open('old', os.O_RDONLY), fcntl.LOCK_EX)",
    "a lock of a range": "fcntl.lockf(os.open('old', os.O_RDWR), fcntl.LOCK_EX)",
    "mapped memory": "mmap.mmap(os.open('old', os.O_RDWR), 3, mmap.MAP_SHARED)",
    "another server": "socket.socket().connect_ex(('127.0.0.1', 1))",
    "a datagram": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
    "a listening socket": "socket.socket().bind(('127.0.0.1', 0))",
    "a child": "subprocess.run(['touch', 'new'])",
    "a thread": "(t := threading.Thread(target=os.mkdir, args=('folder',))).start(); t.join()",
}


def test_no_way_to_change_something_escapes_that_look(tmp_path: Path) -> None:
    need_strace()
    for name, code in CHANGING.items():
        folder = tmp_path / "".join(c for c in name if c.isalnum())
        (folder / "empty").mkdir(parents=True)
        (folder / "old").write_text("old")
        imports = "import fcntl, mmap, os, socket, subprocess, threading\n"
        argv = [sys.executable, "-I", "-c", imports + code]
        _, calls = traced(argv, tmp_path / "trace", cwd=folder, env=environment())
        assert changes(calls), name
    for code in ("open('old').read()", "print('x')", "os.listdir('.')", "subprocess.run(['true'])"):
        argv = [sys.executable, "-I", "-c", "import os, subprocess\n" + code]
        _, calls = traced(argv, tmp_path / "trace", cwd=folder, env=environment())
        assert changes(calls) == [], code


# ------------------------------------------------------------------------ where nothing can be written


@contextmanager
def read_only(site: Path) -> Iterator[Warm]:
    """Commands run in it see the tree (and where it can be done, everything) mounted read-only."""
    script = (
        'set -e; mount --make-rprivate /; mount --bind "$0" "$0"; mount -o remount,bind,ro "$0"; '
        'mount -o remount,bind,ro / 2>/dev/null || true; cd .; exec "$@"'
    )
    namespace = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-m", "sh", "-c", script, str(site)]
    if (
        shutil.which("unshare")
        and not subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode
    ):
        warm = Warm(namespace)
    elif os.geteuid() == 0:
        assert not os.environ.get("CI"), "no mount namespace, and this is CI"
        pytest.skip("root without a mount namespace cannot be kept from writing")
    else:
        for path in [site, *site.rglob("*")]:
            path.chmod(path.stat().st_mode & ~0o222)
        warm = Warm()
    try:
        yield warm
    finally:
        warm.close()
        for path in [site, *site.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.parametrize("part", sampled(range(PARTS)))
@pytest.mark.parametrize("state", sampled([state for state in STATES if state not in ONLY_DRY], every=3))
def test_on_a_read_only_tree_every_command_answers_the_same(
    state: str, part: int, tmp_path: Path, server: Server
) -> None:
    site = standing(state, tmp_path / "site", server)
    said = said_for(site, tmp_path)
    with read_only(site.folder) as warm:
        for arguments in part_of(part, state, (*DRY, *looking(state))):
            if "ARTIFACTS" not in arguments:
                words = said(arguments)
                there, here = warm.kfm(site.folder, words, environment()), site.kfm(*words, expect=None)
                if arguments[:2] != ("mask", "preview"):  # each makes public ids of its own
                    assert there == here, arguments
                assert there.code == here.code, arguments
                assert there.code in KNOWN_CODES, (arguments, there)
        real = warm.kfm(site.folder, ["freeze"], environment())
        assert real.code == 74 and "read-only" in real.err, "the tree can be written"


# ------------------------------------------------------------------------ what is predicted is what happens


def as_if_real(value: Any) -> Any:
    """The same document with every `dry_run` set to false: nothing else may differ."""
    if isinstance(value, dict):
        return {key: False if key == "dry_run" else as_if_real(item) for key, item in value.items()}
    return [as_if_real(item) for item in value] if isinstance(value, list) else value


def artifact_lines(folder: Path) -> dict[str, list[Any]]:
    return {
        path.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.glob("[!s]*"))  # without the signed list: a dry run signs nothing that leaves it
    }


@pytest.fixture
def foretell(tmp_path: Path, count: Count) -> Foretell:
    def both(site: Installation, *words: str, code: int = 0) -> dict[str, Any]:
        done = foretold_and_done(site, tmp_path, *words, code=code)
        count("commands done as foretold")
        return done

    return both


def foretold_and_done(site: Installation, tmp_path: Path, *words: str, code: int = 0) -> dict[str, Any]:
    """The same command dry and real on the same state, by its JSON and, for a run, its artifacts."""
    folders = {dry: tmp_path / f"artifacts-{dry}" for dry in (True, False)}
    answers = {}
    before = stamps(site.folder)
    for dry, folder in folders.items():
        flags = ["--dry-run"] if dry else []
        if words[0] == "run":
            shutil.rmtree(folder, ignore_errors=True)
            flags += ["--artifacts", str(folder)]
        answers[dry] = site.kfm("--json", *words, *flags, expect=code).data
        if dry:
            assert stamps(site.folder) == before
    foretold, done = answers[True], answers[False]
    assert all(receipt["dry_run"] for receipt in foretold["receipts"])
    assert all(each["dry_run"] for each in foretold["effects"]) and not any(r["dry_run"] for r in done["receipts"])
    assert as_if_real(foretold) == done
    if words[0] == "run":
        lines = artifact_lines(folders[True])
        assert lines["run.jsonl"] and lines["publisher_trace.jsonl"]
        assert as_if_real(lines) == artifact_lines(folders[False])
    check_effects(site, done)
    return dict(done)


def check_effects(site: Installation, done: dict[str, Any]) -> None:
    """The moves are where the refs are now, and every file that was to be written has just those bytes."""
    refs = {row["ref"]: row["version"] for row in site.kfm("refs", "list", "--json").data}
    last: dict[str, str] = {}
    for receipt in done["receipts"]:
        last |= {move["ref"]: move["after"] for move in receipt["moves"]}
    assert {ref: refs.get(ref, "") for ref in last} == last
    files = contents(site.folder) | contents(site.folder / ".kfm") | contents(site.folder / "public")
    files |= {path.partition("/")[2]: body for path, body in placement.in_buckets(str(site.folder)).items()}
    for effect in done["effects"]:
        if effect["method"] == "write_file":
            assert "sha256:" + files[effect["target"]] == effect["digest"], effect


DATASETS = ("hugoton-facies", "kgs-tops", "noaa-stations", "riley-drought", "usgs-earthquakes")


@pytest.mark.long
def test_on_all_examples_the_predicted_effects_are_the_effects_made(
    tmp_path: Path, server: Server, foretell: Foretell
) -> None:
    site = kansas(tmp_path / "site", server.port)
    files = kansas_files()
    first = foretell(site, "run")
    assert sorted(receipt["dataset"] for receipt in first["receipts"]) == list(DATASETS)
    assert {receipt["outcome"] for receipt in first["receipts"]} == {"done"}
    again = foretell(site, "run")
    assert {receipt["outcome"] for receipt in again["receipts"]} == {"noop"}
    for name in DATASETS:
        published = foretell(site, "promote", name, "--reason", "first edition")
        assert {effect["method"] for effect in published["effects"]} == {"write_file", "emit_event", "update_metadata"}
    try:
        server.shelf.files["kgs-arroyo-tops.csv"] = files["kgs-arroyo-tops.csv"].rstrip().rpartition(b"\n")[0] + b"\n"
        server.shelf.files["usdm-riley-county.csv"] = b"<html>503</html>\n"
        changed = foretell(site, "run", code=3)
        foretell(site, "run", "kgs-tops", "--force", "--reason", "once more")
    finally:
        server.shelf.files |= files
    outcomes = {receipt["dataset"]: receipt["outcome"] for receipt in changed["receipts"]}
    assert outcomes["kgs-tops"] == "done" and outcomes["riley-drought"] == "held"
    foretell(site, "promote", "kgs-tops")
    foretell(site, "rollback", "kgs-tops", "--reason", "back")
    forth = site.kfm("refs", "history", "published/kgs-tops", "--json").data[-1]["before"]
    foretell(site, "rollback", "kgs-tops", "--to", forth, "--reason", "and forth")
    foretell(site, "rollback", "kgs-tops", "--ref", "processed/kgs-tops")
    foretell(site, "freeze", "kgs-tops", "--reason", "wait")
    foretell(site, "run", "kgs-tops", code=5)
    foretell(site, "thaw", "kgs-tops")
    foretell(site, "freeze")
    foretell(site, "promote", "kgs-tops", code=5)
    foretell(site, "thaw")


@pytest.mark.parametrize("state", sampled(STATES, every=2))
def test_on_every_state_the_predicted_effects_are_the_effects_made(
    state: str, tmp_path: Path, server: Server, foretell: Foretell
) -> None:
    site = standing(state, tmp_path / "site", server)
    stopped = 5 if state == "frozen" else 0
    foretell(site, "run", code=stopped)
    foretell(site, "promote", "gauges", code=stopped)
    foretell(site, "freeze", "halves")
    foretell(site, "thaw", "halves")


def test_a_denied_promotion_is_predicted_too(tmp_path: Path, server: Server, foretell: Foretell) -> None:
    site = small(tmp_path / "site", server.port)
    config = site.folder / "kfm.yml"
    config.write_text(config.read_text().replace("    license: CC0-1.0\n", "", 1))
    foretell(site, "run")
    denied = foretell(site, "promote", "gauges", code=4)
    assert denied["receipts"][0]["outcome"] == "denied"


def test_the_test_server_records_every_request(server: Server) -> None:
    from http.client import HTTPConnection

    server.methods.clear()
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("POST", "/words.csv", b"x")
    connection.getresponse().read()
    connection.close()
    assert server.methods == ["POST"]
