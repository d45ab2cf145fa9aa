"""The import contract holds, and each of its rules was seen to fail when broken."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# The room that reaches too far, what it reaches for, and the contract that must say so.
REACHES = [
    ("parsing", "kfm.model", "rooms"),
    ("model", "kfm.projections", "rooms"),
    ("model", "kfm.crypto", "rooms"),
    ("crypto", "kfm.secret_references", "rooms"),
    ("crypto", "secrets", "pure"),
    ("policy", "cryptography", "keys"),
    ("cli", "kfm.crypto", "interfaces"),
    ("validation", "kfm.engine", "rooms"),
    ("projections", "kfm.validation", "rooms"),
    ("projections", "kfm.engine", "rooms"),
    ("engine", "kfm.operations", "rooms"),
    ("engine", "kfm.scheduling", "rooms"),
    ("operations", "kfm.scheduling", "rooms"),
    ("engine", "kfm.store", "rooms"),
    ("projections", "kfm.telemetry", "rooms"),
    ("scheduling", "kfm.config", "rooms"),
    ("store", "kfm.sources", "rooms"),
    ("sinks", "kfm.store", "rooms"),
    ("telemetry", "kfm.config", "rooms"),
    ("store", "kfm.cli", "rooms"),
    ("workers", "kfm.cli", "rooms"),
    ("model", "kfm.clock", "rooms"),
    ("store", "kfm.engine", "adapters"),
    ("updaters", "kfm.projections", "adapters"),
    ("store", "kfm.validation", "adapters"),
    ("policy", "kfm.operations", "adapters"),
    ("app", "kfm.cli", "rooms"),
    ("app/session", "kfm.app.metadata", "app"),
    ("app/metadata", "kfm.app.authority", "app"),
    ("app/authority", "kfm.app.runs", "app"),
    ("app/runs", "kfm.app.stewards", "app"),
    ("delivery", "kfm.operations", "rooms"),
    ("store", "kfm.app", "rooms"),
    ("cli", "kfm.store", "interfaces"),
    ("workers", "kfm.engine", "interfaces"),
    ("api", "kfm.sinks", "interfaces"),
    ("model", "socket", "pure"),
    ("parsing", "time", "pure"),
    ("validation", "tempfile", "pure"),
    ("projections", "time", "pure"),
    ("engine", "apsw", "sql"),
    ("sources", "sqlite3", "sql"),
    ("validation", "re2", "patterns"),
]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return copied(tmp_path)


def copied(folder: Path) -> Path:
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / ".importlinter", folder / ".importlinter")
    return folder


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """What the contracts say of code in which every room reaches too far, each in a module of its own."""
    session = copied(tmp_path_factory.mktemp("pushed"))
    for number, (room, target, _) in enumerate(REACHES):
        module = session / "src" / "kfm" / room / f"seeded_{number}.py"
        module.write_text(f"def later():\n    import {target}\n")
    return lint_imports(session)


def lint_imports(session: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [str(command), "--no-cache", "--no-logo"],
        cwd=session,
        env={**os.environ, "PYTHONPATH": str(session / "src"), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def contract_name(key: str) -> str:
    text = (ROOT / ".importlinter").read_text()
    found = re.search(rf"\[importlinter:contract:{key}\]\nname = (.*)\n", text)
    assert found
    return found.group(1)


def test_the_code_keeps_its_import_contracts(session: Path) -> None:
    answer = lint_imports(session)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.xdist_group("contracts")
@pytest.mark.parametrize(("room", "target", "contract"), REACHES)
def test_a_room_that_reaches_too_far_turns_the_contract_red(
    pushed: subprocess.CompletedProcess[str], room: str, target: str, contract: str
) -> None:
    number = REACHES.index((room, target, contract))
    assert pushed.returncode == 1, pushed.stdout + pushed.stderr
    assert re.search(rf"^{re.escape(contract_name(contract))} BROKEN", pushed.stdout, re.M), pushed.stdout
    told = pushed.stdout[pushed.stdout.rindex(f"\n{contract_name(contract)}\n---") :]
    assert (
        f"kfm.{room.replace('/', '.')}.seeded_{number} -> {target} " in told.partition("\n---")[2].partition("\n---")[0]
    )


def test_a_room_that_no_contract_names_turns_it_red(session: Path) -> None:
    (session / "src" / "kfm" / "attic").mkdir()
    (session / "src" / "kfm" / "attic" / "__init__.py").write_text("")
    answer = lint_imports(session)
    assert answer.returncode == 1
    assert "attic" in answer.stdout


def test_every_room_is_named_by_the_contracts_that_speak_of_its_kind() -> None:
    text = (ROOT / ".importlinter").read_text()
    rooms = {path.parent.name for path in (ROOT / "src" / "kfm").glob("*/__init__.py")}
    adapters = set(re.findall(r"kfm\.(\w+)", text.partition(":adapters]")[2].partition("forbidden_modules")[0]))
    of_interfaces = text.partition(":interfaces]")[2].partition("[importlinter")[0].partition("source_modules")[2]
    said, _, forbidden = of_interfaces.partition("forbidden_modules")
    interfaces, behind = (set(re.findall(r"kfm\.(\w+)", part)) for part in (said, forbidden))
    core = {
        *("parsing", "model", "crypto", "masking", "validation"),
        *("projections", "engine", "delivery", "operations", "scheduling"),
    }
    ground = {"retries"}  # open to every room, as the modules next to it
    assert rooms == core | adapters | {"app"} | interfaces | ground
    assert behind == (core - {"parsing", "model"}) | (adapters - {"config"})


def test_the_runtime_needs_nine_packages_and_the_pins_are_of_those() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    declared = [line for line in (ROOT / "requirements" / "runtime.in").read_text().splitlines() if line[:1] not in "#"]
    assert declared == project["dependencies"]
    assert {re.split("[<>=]", line)[0].lower() for line in declared} == {
        *("apsw", "cronsim", "cryptography", "google-re2", "gordon-to-regorus"),
        *("h3", "msgspec", "ruamel.yaml", "tzdata"),
    }


@pytest.mark.parametrize("name", ["runtime", "dev", "container"])
def test_every_pin_is_exact_hashed_and_free_of_addresses(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    pins = re.findall(r"^([A-Za-z0-9._-]+)((?:.*\\\n)+.*)", text, re.M)
    assert len(pins) >= 2
    for package, rest in pins:
        assert re.match(r"==[\w.]+( ;.*)? \\\n", rest), package
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", rest), package
    assert "://" not in text
    for line in (ROOT / "requirements" / f"{name}.in").read_text().splitlines():
        if line and not line.startswith(("#", "-")):
            named = re.split(r"[\[><=]", line)[0].lower().replace(".", "-")
            assert named in {package for package, _ in pins}, line


def test_all_pins_agree_on_what_they_share() -> None:
    versions = [
        dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / f).read_text(), re.M))
        for f in ("dev.txt", "runtime.txt", "container.txt", "build.txt")
    ]
    for fewer in versions[1:]:
        assert fewer and fewer.items() <= versions[0].items()


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_worker_without_an_installation_says_so_in_one_sentence() -> None:
    answer = run_module("workers", "run", "--concurrency=4")
    assert (answer.returncode, answer.stdout) == (3, "")
    assert answer.stderr.count("\n") == 1
    assert "kfm.yml" in answer.stderr


@pytest.mark.parametrize("arguments", [[], ["dance"]])
def test_the_workers_entry_point_refuses_what_it_does_not_know(arguments: list[str]) -> None:
    answer = run_module("workers", *arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("usage: ")


def test_the_updater_entry_point_is_the_command_line() -> None:
    answer = run_module("updater", "--version")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"kfm {_version()}\n", "")
    wrong = run_module("updater", "no-such-verb")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


def test_the_entry_points_import_nothing_until_they_are_called() -> None:
    code = "import sys, updater, workers; print(sorted(m for m in sys.modules if m.startswith('kfm.')))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def _version() -> str:
    found = re.search(r'__version__ = "(.*)"', (ROOT / "src" / "kfm" / "__init__.py").read_text())
    assert found
    return found.group(1)


# -- make


def make(*arguments: str, path: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments], cwd=cwd, env={"PATH": path, "HOME": str(cwd)}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def bare(tmp_path: Path) -> tuple[Path, Path]:
    """A copy of what `make` reads to install, and a folder of commands with no Python in it."""
    clone, commands = tmp_path / "clone", tmp_path / "bin"
    (clone / "requirements").mkdir(parents=True)
    commands.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements/dev.txt"):
        shutil.copy(ROOT / name, clone / name)
    for name in ("sh", "make", "sed", "expand", "touch", "echo"):
        found = shutil.which(name)
        assert found, name
        (commands / name).symlink_to(found)
    return clone, commands


def fake_python(commands: Path, name: str, *, version: str, pip: bool) -> None:
    """A command that answers the two questions the Makefile asks, and says which one it is when used."""
    script = f"""#!/bin/sh
case "$2" in
  *version_info*) exit {0 if version >= "3.11" else 1} ;;
  *ensurepip*) exit {0 if pip else 1} ;;
esac
[ "$1" = -V ] && echo "Python {version}" && exit 0
echo "used {name}: $*" >&2
exit 7
"""
    (commands / name).write_text(script)
    (commands / name).chmod(0o755)


def test_make_alone_lists_every_command() -> None:
    answer = make(path=os.environ["PATH"])
    assert answer.returncode == 0
    for target in ("demo", "test", "test-long", "lint", "bench", "docs", "schemas", "pins", "clean", "help"):
        assert re.search(rf"^  make {target}\s+\S", answer.stdout, re.M), target


def test_without_any_python_make_says_so_in_one_sentence(bare: tuple[Path, Path]) -> None:
    clone, commands = bare
    answer = make("lint", cwd=clone, path=str(commands))
    assert answer.returncode != 0
    assert "KFM needs Python 3.11 or newer" in answer.stderr
    assert not (clone / ".venv").exists()


def test_an_old_python3_is_skipped_for_a_newer_one_next_to_it(bare: tuple[Path, Path]) -> None:
    clone, commands = bare
    fake_python(commands, "python3", version="3.09", pip=True)
    fake_python(commands, "python3.12", version="3.12", pip=True)
    answer = make("lint", cwd=clone, path=str(commands))
    assert answer.returncode != 0
    assert "used python3.12: -m venv" in answer.stderr


def test_only_an_old_python3_is_refused(bare: tuple[Path, Path]) -> None:
    clone, commands = bare
    fake_python(commands, "python3", version="3.09", pip=True)
    answer = make("lint", cwd=clone, path=str(commands))
    assert "KFM needs Python 3.11 or newer" in answer.stderr


def test_a_python_without_venv_is_named_with_what_to_install(bare: tuple[Path, Path]) -> None:
    clone, commands = bare
    fake_python(commands, "python3", version="3.11", pip=False)
    answer = make("lint", cwd=clone, path=str(commands))
    assert answer.returncode != 0
    assert "python3 has no venv module with pip" in answer.stderr
    assert "apt-get install python3-venv" in answer.stderr
    assert not (clone / ".venv").exists()


# -- .ci/run


def ci_run(tmp_path: Path, **fakes: str) -> subprocess.CompletedProcess[str]:
    """Runs .ci/run of a copy among commands of our choosing: few real ones, and the fakes."""
    clone, commands = tmp_path / "clone", tmp_path / "bin"
    (clone / ".ci").mkdir(parents=True)
    commands.mkdir()
    shutil.copy(ROOT / ".ci" / "run", clone / ".ci" / "run")
    (commands / "dirname").symlink_to(shutil.which("dirname") or "")
    for name, script in {"make": 'echo "make $* with CI=$CI"', **fakes}.items():
        (commands / name).write_text(f"#!/bin/sh\n{script}\n")
        (commands / name).chmod(0o755)
    known = {"PATH": str(commands), "GOROOT": str(tmp_path / "go")}
    return subprocess.run([str(clone / ".ci" / "run")], env=known, capture_output=True, text=True, check=False)


def test_ci_goes_on_to_make_test_when_there_is_no_apt(tmp_path: Path) -> None:
    answer = ci_run(tmp_path, id="echo 0")
    assert (answer.returncode, answer.stdout) == (0, "make tools with CI=true\nmake test with CI=true\n")
    assert "absent: python3 python3-venv git gcc libc6-dev g++ strace" in answer.stderr


def test_ci_goes_on_when_the_mirror_is_down_and_fails_when_make_does(tmp_path: Path) -> None:
    answer = ci_run(tmp_path, **{"id": "echo 0", "apt-get": "exit 100", "make": "exit 2"})
    assert "could not install" in answer.stderr
    assert answer.returncode == 2
