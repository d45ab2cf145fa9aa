"""The same inputs give the same bytes, whatever else differs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs.run_exports import wal
from kfm.app.session.session import open_session
from kfm.config import load
from kfm.model.canonical import canonical
from tests.engine.installations import NOW, Server, contents, environment, kansas, kansas_files, serving
from tests.engine.site_under_test import folder_site
from tests.sampling import sampled
from tests.servers.placement import all_servers, in_buckets
from tests.servers.seaweed import seaweed as seaweed

pytestmark = pytest.mark.xdist_group("determinism")  # what they share is made once

Count = Callable[..., None]

SEEDS = 20
ZONES = (
    "UTC", "America/Chicago", "Asia/Kathmandu", "Pacific/Kiritimati", "AAA+11", "Australia/Lord_Howe", "Asia/Tokyo",
    "America/St_Johns", "Africa/Casablanca", "Europe/Dublin", "America/Sao_Paulo", "Asia/Tehran", "Pacific/Apia",
    "Antarctica/Troll", "Asia/Kolkata", "America/Havana", "Europe/Istanbul", "Pacific/Chatham", "EST5EDT",
    "Nowhere/AtAll",
)  # fmt: skip
# Other letters, other upper case, other digits and other bytes for a name than Python's own three.
FOREIGN = (
    "tr_TR.ISO-8859-9", "az_AZ.UTF-8", "de_DE.ISO-8859-1", "ja_JP.EUC-JP", "ru_RU.KOI8-R", "fa_IR.UTF-8", "hi_IN.UTF-8",
)  # fmt: skip
LOCALES = ("C", "C.UTF-8", "POSIX", *FOREIGN)
UMASKS = (0o022, 0o000, 0o077, 0o027)
CREWS = ((1, 1), (2, 7), (8, 512), (8, 1), (1, 512), (2, 512), (8, 7))

# Steps of all kinds: many, some that need others, names outside of ASCII, large and streamed outputs,
# and times that differ on every run, so that threads finish in another order each time.
PATCHWORK = """
import os
import random
import threading
import time

from kfm import Output, Plan, SourceRef, Step, Updater


class Patchwork(Updater):
    id = "patchwork"
    version = "1.0.0"

    def inputs(self, trigger, sources) -> list[SourceRef]:
        return [sources.pin("cells"), sources.pin("notes")]

    def plan(self, inputs) -> Plan:
        return Plan(self.steps(inputs[0].partitions))

    def steps(self, places):
        for n in range(120):
            needs = tuple(f"step-{m}" for m in range(n - 9, n)) if n % 10 == 9 else ()
            place = places[n % len(places)]
            params = {"place": place, "n": n, "share": n / 7, "deep": {"é": [n, None, True], "a": {"z": 1, "y": 2}}}
            yield Step(id=f"step-{n}", key=(place, f"{n:03d}"), params=params, needs=needs)

    def perform(self, step, read) -> Output:
        time.sleep(random.random() / 2000)
        with open(os.environ["SEEN"], "a") as file:
            file.write(f"{threading.get_ident()}\\n")
        n = step.params["n"]
        if step.needs:
            return Output.json({need: read.text(need)[:200] for need in step.needs})
        words = {row["word"] for row in read.csv("cells") if row["place"] == step.params["place"]}
        body = {"words": sorted(words), "share": step.params["share"], "notes": read.json("notes")[n % 3]}
        if n % 40 == 0:
            return Output((f"{word}\\n".encode() * 9000 for word in sorted(words)), "text/plain")
        return Output.json(body)
"""
CELLS = "place,word\n" + "".join(
    f"{place},{word}\n"
    for word in ("Präriehuhn", "bison", "さくら", "🌾", "élan")
    for place in ("Neodesha", "Ñandú", "Ål")
)
NOTES = json.dumps([{"b": 1.5, "a": [1e-7, 100.0]}, "zwölf", None])
DECLARED = """\
  patchwork:
    updater: updaters/patchwork.py:Patchwork
    title: Patchwork
    license: CC0-1.0
    sensitivity: public
    sources:
      cells: {uri: data/Zellen-ä.csv, format: csv, contract: {partition_by: place, columns: [{name: place}]}}
      notes: {uri: data/notes.json, format: json, contract: {json_schema: {type: array}}}
  joined:
    title: Joined
    version: 1.0.0
    license: CC0-1.0
    sensitivity: public
    sources:
      cells: {uri: data/Zellen-ä.csv, format: csv, contract: {columns: [{name: id}]}}
      rain: {uri: data/measured.csv, format: csv, contract: {columns: [{name: id}]}}
      snow: {uri: data/measured.csv, format: csv, contract: {columns: [{name: id}]}}
      wind: {uri: data/measured.csv, format: csv, contract: {columns: [{name: id}]}}
      hail: {uri: data/measured.csv, format: csv, contract: {columns: [{name: id}]}}
    outputs:
      all:
        from: cells
        steps:
          - join: {source: rain, on: {place: place}, add: [rain]}
          - join: {source: wind, on: {place: place}, add: [wind]}
          - join: {source: hail, on: {place: place}, add: [hail]}
          - join: {source: snow, on: {place: place}, add: [snow]}
"""
MEASURED = "place,rain,snow,wind,hail\nNeodesha,1,2,3,4\nÅl,5,6,7,8\nÑandú,9,10,11,12\n"
SHUFFLING = """
import os
import random

order = random.Random(os.environ["SHUFFLE"])
listdir, scandir = os.listdir, os.scandir


def shuffled_names(*arguments):
    names = listdir(*arguments)
    order.shuffle(names)
    return names


class Shuffled:
    def __init__(self, entries):
        self.entries = list(entries)
        order.shuffle(self.entries)
        entries.close()

    def __iter__(self):
        return iter(self.entries)

    def __next__(self):
        return self.entries.pop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def close(self):
        pass


os.listdir = shuffled_names
os.scandir = lambda *arguments: Shuffled(scandir(*arguments))
"""


@pytest.fixture(scope="session")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the foreign ones, for LOCPATH."""
    return tmp_path_factory.mktemp("locales")


def make_locale(name: str, folder: Path) -> None:
    """Where it cannot be made: a skip, and in CI a failure."""
    if name not in FOREIGN or (folder / name).exists():
        return
    language, _, charset = name.partition(".")
    command = ["localedef", "--quiet", "--force", "-i", language, "-f", charset, str(folder / name)]
    if not shutil.which("localedef") or subprocess.run(command, capture_output=True, check=False).returncode > 1:
        lacking = f"localedef cannot make {name}; it needs the package `locales`"
        assert not os.environ.get("CI"), f"{lacking}, and this is CI"
        pytest.skip(lacking)


def variation(n: int) -> dict[str, Any]:
    """The n-th way of being different, in everything at once."""
    threads, window = CREWS[n % len(CREWS)]
    ascii_only = {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"} if n % 4 == 3 else {}
    return {
        "env": {
            "PYTHONHASHSEED": str(n * 7919 % 4_294_967_295) if n else "0",
            "TZ": ZONES[n % len(ZONES)],
            "LC_ALL": LOCALES[n % len(LOCALES)],
            "SHUFFLE": str(n),
            "KFM_EXECUTE__THREADS": str(threads),
            "KFM_EXECUTE__WINDOW": str(window),
            **ascii_only,
        },
        "umask": UMASKS[n % len(UMASKS)],
        "from_elsewhere": n % 3 == 1,
    }


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(kansas_files()) as server:
        yield server


def lay_out(folder: Path, port: int) -> None:
    kansas(folder, port)
    (folder / "data").mkdir()
    (folder / "data/Zellen-ä.csv").write_text(CELLS, encoding="utf-8")
    (folder / "data/notes.json").write_text(NOTES, encoding="utf-8")
    (folder / "data/measured.csv").write_text(MEASURED, encoding="utf-8")
    (folder / "updaters/patchwork.py").write_text(PATCHWORK, encoding="utf-8")
    with open(folder / "kfm.yml", "a", encoding="utf-8") as file:
        file.write(DECLARED)


def fingerprint(
    folder: Path,
    port: int,
    chosen: dict[str, Any],
    python: str = sys.executable,
    where: Callable[[Path], str] = lambda _site: "",
) -> dict[str, Any]:
    """Run everything in a folder of its own, and tell all that came of it. `where` adds lines to its kfm.yml."""
    site = folder / "site"
    lay_out(site, port)
    with open(site / "kfm.yml", "a", encoding="utf-8") as file:
        file.write(where(site))
    (folder / "shuffling").mkdir()
    (folder / "shuffling/sitecustomize.py").write_text(SHUFFLING)
    seen = folder / "threads"
    env = environment() | chosen["env"] | {"SEEN": str(seen)}
    if "SHUFFLE" in env:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder / "shuffling"), env.get("PYTHONPATH")]))
    # One after another: several jobs commit in any order, which the ledger shows.
    one = ["run", "--jobs", "1"]
    for words in (one, ["promote", "patchwork"], ["promote", "kgs-tops"], ["run", "riley-drought"]):
        elsewhere = ["--config", str(site / "kfm.yml")] if chosen["from_elsewhere"] else []
        done = subprocess.run(
            [python, "-m", "kfm.cli.main", *elsewhere, *words],
            cwd=folder if chosen["from_elsewhere"] else site,
            env=env,
            umask=chosen["umask"],
            capture_output=True,
            text=True,
            errors="backslashreplace",
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, (chosen, words, done.stderr)
    crew = len(set(seen.read_text().split()))
    assert crew > 1 if int(env["KFM_EXECUTE__THREADS"]) > 1 and int(env["KFM_EXECUTE__WINDOW"]) > 1 else crew == 1
    return told(site)


def told(site: Path) -> dict[str, Any]:
    with open_session(load(str(site / "kfm.yml"), {}), mode="read") as session:
        state = session.state
        refs = dict(state.refs.all())
        found: dict[str, Any] = {
            "refs": refs,
            "histories": {ref: [canonical(entry) for entry in state.refs.history(ref)] for ref in refs},
            "receipts": [canonical(state.ledger.receipt(entry.run_id)) for entry in state.ledger.entries()],
            "ledger": state.ledger.head(),
            "telemetry": [canonical(state.ledger.telemetry(entry.run_id)) for entry in state.ledger.entries()],
            "steps": [
                sorted((record.step_id, record.phase, canonical(record.payload))
                       for record in wal(session, entry.run_id)
                       if record.status == "DONE" and record.phase == "EXECUTE")
                for entry in state.ledger.entries()
                if state.runs.get(entry.run_id) is not None
            ],
        }  # fmt: skip
    assert len(refs) >= 14 and len(found["receipts"]) == 10
    found["artifacts"] = contents(site / ".kfm/artifacts")
    files = contents(site) | in_buckets(str(site))
    for part, below in (("public", "public/"), ("exported", ".kfm/receipts/")):
        found[part] = {path.removeprefix(below): body for path, body in files.items() if path.startswith(below)}
    assert found["artifacts"] and found["public"] and len(found["exported"]) == 10
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, server: Server) -> dict[str, Any]:
    plain = {"env": {"KFM_EXECUTE__THREADS": "4", "KFM_EXECUTE__WINDOW": "64"}, "umask": 0o022, "from_elsewhere": False}
    return fingerprint(tmp_path_factory.mktemp("plain"), server.port, plain)


@pytest.mark.parametrize("n", sampled([SEEDS - 1, *range(SEEDS - 1)]))
def test_every_digest_is_the_same_under_any_variation(
    n: int, tmp_path: Path, server: Server, locales: Path, expected: dict[str, Any], count: Count
) -> None:
    """Hash seed, time zone, locale, order of folders, threads, window, umask, working folder: all at once."""
    chosen = variation(n)
    make_locale(chosen["env"]["LC_ALL"], locales)
    chosen["env"]["LOCPATH"] = str(locales)
    found = fingerprint(tmp_path, server.port, chosen)
    for part, value in expected.items():
        assert found[part] == value, (part, variation(n))
    count("variations with the same digests")


@pytest.mark.long
@pytest.mark.parametrize("n", range(SEEDS, 10 * SEEDS))
def test_every_digest_is_the_same_under_many_more_variations(
    n: int, tmp_path: Path, server: Server, locales: Path, expected: dict[str, Any], count: Count
) -> None:
    test_every_digest_is_the_same_under_any_variation(n, tmp_path, server, locales, expected, count)


@pytest.mark.long
@pytest.mark.usefixtures("seaweed")
@pytest.mark.parametrize("n", range(5, SEEDS, 5))
def test_every_digest_is_the_same_over_servers(
    n: int, tmp_path: Path, server: Server, locales: Path, expected: dict[str, Any], count: Count
) -> None:
    """State, objects, public files and queue on servers: what is in files under another variation."""
    chosen = variation(n)
    make_locale(chosen["env"]["LC_ALL"], locales)
    chosen["env"]["LOCPATH"] = str(locales)
    found = fingerprint(tmp_path, server.port, chosen, where=all_servers)
    for part, value in expected.items():
        assert found[part] == value, (part, variation(n))
    count("variations over servers with the same digests")


@pytest.mark.parametrize("name", sampled(FOREIGN))
def test_a_foreign_locale_is_really_another(name: str, locales: Path) -> None:
    make_locale(name, locales)
    code = "import locale; print(locale.setlocale(locale.LC_ALL, ''))"
    env = {"LOCPATH": str(locales), "LC_ALL": name}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == name


def test_all_kinds_of_difference_are_among_the_variations() -> None:
    chosen = [variation(n) for n in range(SEEDS)]
    assert len({c["env"]["PYTHONHASHSEED"] for c in chosen}) == SEEDS
    assert {c["env"]["TZ"] for c in chosen} == set(ZONES)
    assert {c["env"]["LC_ALL"] for c in chosen} == set(LOCALES)
    assert {(int(c["env"]["KFM_EXECUTE__THREADS"]), int(c["env"]["KFM_EXECUTE__WINDOW"])) for c in chosen} == set(CREWS)
    assert {c["umask"] for c in chosen} == set(UMASKS)


def test_a_shuffled_folder_really_comes_in_another_order(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SHUFFLING)
    code = "import json, os; print(json.dumps([os.listdir('many'), [e.name for e in os.scandir('many')]]))"
    for n in range(50):
        (tmp_path / "many" / str(n)).mkdir(parents=True)
    orders = set()
    for seed in "ab":
        env = environment() | {"PYTHONPATH": str(tmp_path), "SHUFFLE": seed}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        names, entries = json.loads(done.stdout)
        assert sorted(names) == sorted(entries) == sorted(map(str, range(50)))
        orders |= {tuple(names), tuple(entries)}
    assert len(orders) == 4


# ----------------------------------------------------------------------------- other versions of Python


def interpreter(version: str) -> str:
    """A Python of this version that has what KFM needs, or none."""
    places = [
        os.environ.get("KFM_TEST_PYTHON_" + version.replace(".", "_"), ""),
        shutil.which(f"python{version}") or "",
    ]
    for place in filter(None, places):
        code = f"import sys, apsw, msgspec; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
        if subprocess.run([place, "-c", code], capture_output=True, check=False).returncode == 0:
            return place
    return ""


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_other_versions_of_python_give_the_same(
    version: str, tmp_path: Path, server: Server, expected: dict[str, Any], count: Count
) -> None:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip("this is the version that all else runs on")
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} with apsw and msgspec here")
    chosen = variation(2)
    chosen["env"] |= {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    found = fingerprint(tmp_path, server.port, chosen, python)
    for part in ("refs", "telemetry", "steps", "public", "receipts"):
        assert found[part] == expected[part], part
    count("versions of Python with the same digests")


# ------------------------------------------------------------------ a plan that is not the same elsewhere

PLANNING = """
import os
import time
from kfm import Output, Plan, Step, Updater
{module}

class U(Updater):
    id = "demo"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("source")]

    def plan(self, inputs):
        {plan}

    def perform(self, step, read):
        return Output.text(step.id)
"""
WORDS = '{"bluestem", "grama", "sideoats", "switchgrass", "indiangrass", "dropseed"}'
ELSEWHERE_ANOTHER = {
    "a set of texts": ("", f"return Plan([Step(id=word, key=(word,)) for word in {WORDS}])"),
    "a text made of a set": ("", f"return Plan([Step(id='a', key=('a',), params={{'words': '|'.join({WORDS})}})])"),
    "a frozen set of the module": (f"WORDS = frozenset({WORDS})", "return Plan([Step(id=w, key=(w,)) for w in WORDS])"),
    "a difference of keys": (
        "",
        f"return Plan([Step(id=w, key=(w,)) for w in dict.fromkeys({WORDS}).keys() - {{'a'}}])",
    ),
    "the time zone at import": ("ZONE = time.strftime('%z')", "return Plan([Step(id='a', key=(ZONE or 'x',))])"),
    "the process at import": ("PID = os.getpid()", "return Plan([Step(id=f'p{PID}', key=('a',))])"),
    "the order of an environment": (
        "SEED = os.environ.get('PYTHONHASHSEED', '')",
        "return Plan([Step(id=f's{SEED}')])",
    ),
}


def planning(folder: Path, module: str, plan: str) -> Path:
    return folder_site(folder, PLANNING.format(module=module, plan=plan), b"a,b\n1,2\n").parent


def kfm(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kfm.cli.main", *words],
        cwd=folder,
        env={**environment(), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("name", sampled(ELSEWHERE_ANOTHER, every=3))
def test_a_plan_that_another_process_makes_otherwise_is_refused_by_the_check(name: str, tmp_path: Path) -> None:
    site = planning(tmp_path, *ELSEWHERE_ANOTHER[name])
    assert kfm(site, "plan", "demo").returncode == 0, "one process alone does not notice"
    done = kfm(site, "plan", "demo", "--check")
    assert done.returncode == 3, done
    assert "kfm: the plan of demo depends on the hash seed or time zone" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    told = json.loads(kfm(site, "plan", "demo", "--check", "--json").stdout)
    assert told["error"]["code"] == "plan.impure"
    assert not (site / ".kfm").exists()


@pytest.mark.parametrize("seed", sampled(["1", "random", "2", "3", "4"], keep=2))
def test_the_check_finds_it_whatever_seed_it_runs_under_itself(seed: str, tmp_path: Path) -> None:
    site = planning(tmp_path, *ELSEWHERE_ANOTHER["a set of texts"])
    assert kfm(site, "plan", "demo", "--check", PYTHONHASHSEED=seed).returncode == 3


def test_a_pure_plan_passes_the_check_and_is_asked_for_its_source_once(tmp_path: Path) -> None:
    with serving({"source.csv": b"a,b\n1,2\n"}) as server:
        pure = f"return Plan([Step(id=word, key=(word,)) for word in sorted({WORDS})])"
        site = planning(tmp_path, "print('an updater may print')", pure)
        config = site / "kfm.yml"
        text = config.read_text().replace("uri: source.csv", f'uri: "http://127.0.0.1:{server.port}/source.csv"')
        config.write_text(f'network: {{allow: ["127.0.0.1:{server.port}"]}}\n' + text)
        done = kfm(site, "plan", "demo", "--check")
        assert done.returncode == 0, done
        assert server.methods == ["GET"]
        assert kfm(site, "run").returncode == 0
        assert kfm(site, "plan", "demo", "--check").returncode == 0


def test_a_plan_that_cannot_be_made_in_another_process_is_reported_in_one_line(tmp_path: Path) -> None:
    module = "if os.environ.get('PYTHONHASHSEED') == '2': raise RuntimeError('CANARY')"
    site = planning(tmp_path, module, "return Plan([Step(id='a', key=('a',))])")
    done = kfm(site, "plan", "demo", "--check")
    assert done.returncode == 3
    assert done.stderr.startswith("kfm: the plan of demo cannot be made in another process: ")
    assert len(done.stderr.splitlines()) == 1 and "CANARY" not in done.stderr


def test_the_plan_lock_catches_in_the_next_process_what_was_not_checked(tmp_path: Path) -> None:
    site = planning(tmp_path, *ELSEWHERE_ANOTHER["a set of texts"])
    assert kfm(site, "run", PYTHONHASHSEED="1").returncode == 0
    done = kfm(site, "run", "--force", "--reason", "again", PYTHONHASHSEED="2")
    assert done.returncode == 3
    assert "the plan of demo 1.0.0 changed for the same inputs" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert NOW[:4] in kfm(site, "runs", "list").stdout
