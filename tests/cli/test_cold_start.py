"""`kfm run` leaves out work at its start, and its results do not show it."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.cli.parser import Usage, parse
from kfm.cli.work.run import plain as plain_run
from kfm.config import Config
from kfm.parsing.partial_structs import convert_partial
from kfm.updaters.code_digest import _imports
from tests.cli.conftest import Kfm
from tests.node.config_samples import settings

ROOT = Path(__file__).resolve().parents[2]
WORDS = ["run", "a", "", "b c", "--json", "-q", "--quiet", "-v", "--verbose", "--no-color", "--dry-run", "--exit-code",
         "--force", "--", "-", "-x", "--reason", "--json=1", "--js", "-qv", "plan"]  # fmt: skip
# What a run that finds nothing to do has no use for. Each was loaded once, or is loaded by what stands next to it.
NOT_NEEDED = {"argparse", "ast", "gettext", "shutil", "tempfile", "subprocess", "socket", "ssl", "urllib", "http",
              "json", "inspect", "dis", "dataclasses", "logging", "email", "difflib", "csv", "asyncio", "concurrent",
              "multiprocessing", "queue", "pyarrow", "regorus", "cryptography", "yaml"}  # fmt: skip
ROOMS_NOT_NEEDED = ("kfm.policy", "kfm.masking", "kfm.validation", "kfm.operations", "kfm.api", "kfm.cli.parser",
                    "kfm.updaters.transforms", "kfm.engine.execute", "kfm.engine.upsert")  # fmt: skip
# What an installation without servers, jobs and workers has no use for.
SERVERS_AND_JOBS = ("kfm.queues", "kfm.store.postgres", "kfm.store.buckets", "kfm.store.job_table", "kfm.store.readers",
                    "kfm.store.state_lock", "kfm.bucket", "kfm.model.jobs", "kfm.app.jobs", "kfm.app.move",
                    "kfm.app.session.servers", "kfm.app.session.wake_up", "kfm.app.session.moved_state",
                    "kfm.updaters.jobs", "kfm.workers", "kfm.sinks.bucket_publisher")  # fmt: skip


INSTALLATION = """
accept_weak_storage: true
datasets:
  a:
    updater: updaters.py:Size
    sources:
      body: {uri: a.csv}
"""
UPDATER = """
from kfm import Output, Plan, Step, Updater


class Size(Updater):
    id = "size"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("body")]

    def plan(self, inputs):
        return Plan(steps=[Step(id="size", key=("size",), params={"size": inputs[0].size})])

    def perform(self, step, read):
        return Output.json(step.params["size"])
"""


def test_a_plain_run_is_read_as_the_parser_reads_it() -> None:
    pick = random.Random(3)
    some = [words for length in range(3) for words in itertools.product(WORDS, repeat=length)]
    plain = 0
    for words in some + [pick.choices(WORDS[1:12], k=pick.randint(3, 5)) for _ in range(300)]:
        for argv in (["run", *words], list(words)):
            if (found := plain_run(argv)) is not None:
                assert vars(found) == vars(parse(argv)), argv
                plain += 1
    assert plain > 100
    assert plain_run(["run", "--force"]) is None and plain_run(["run", "a", "-q", "b"]) is None
    with pytest.raises(Usage):
        parse(["run", "--jsn"])


def _told(convert: Any, value: Any) -> Any:
    try:
        return convert(value, Config)
    except msgspec.ValidationError:
        return "refused"


def test_a_configuration_is_the_same_however_little_of_its_type_was_learned() -> None:
    pick = random.Random(7)
    refused = 0
    for _ in range(300):
        value = settings(pick)
        wanted = _told(msgspec.convert, value)
        found = _told(convert_partial, value)
        assert found == wanted, value
        if wanted == "refused":
            refused += 1
        else:
            assert msgspec.json.encode(found) == msgspec.json.encode(wanted)
    assert 30 < refused < 270


def test_the_same_imports_are_found_as_by_reading_every_file() -> None:
    odd = b"""
if True:
    import a.b
else:
    from . import c
try:
    import d
except* ValueError:
    import e
finally:
    with open("f"):
        from f.g import h as i
match 1:
    case 1:
        class K:
            async def f(self):
                async for x in y:
                    import j
                else:
                    import k
while x: import l
"""
    bodies = [odd, *(path.read_bytes() for path in sorted((ROOT / "src" / "kfm" / "updaters").rglob("*.py")))]
    found = [sorted(_imports(body, "p.q")) for body in bodies]
    assert {"a.b", "p.q.c", "d", "e", "f.g.h", "j", "k", "l"} <= set(found[0])
    for body, names in zip(bodies, found, strict=True):
        nodes = [node for node in ast.walk(ast.parse(body)) if isinstance(node, (ast.Import, ast.ImportFrom))]
        for node in nodes:
            for alias in node.names:
                assert any(name.endswith(alias.name) for name in names), (alias.name, names)


def test_a_run_that_finds_nothing_to_do_loads_what_it_needs(
    kfm: Kfm, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path_factory.mktemp("packages")  # as a user has them: the tools of development bring others along
    for name in ("apsw", "msgspec"):
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        (packages / name).symlink_to(Path(spec.origin).parent)
    monkeypatch.delenv("KFM_ACCEPT_WEAK_STORAGE")
    Path("kfm.yml").write_text(INSTALLATION)
    Path("updaters.py").write_text(UPDATER)
    Path("a.csv").write_text("a,b\n1,2\n")
    assert kfm("run").code == 0
    probe = (
        "import sys; before = set(sys.modules); sys.argv = ['kfm', 'run']\n"
        "from kfm.cli.main import main\n"
        "code = main()\n"
        "print(code, *sorted(set(sys.modules) - before))"
    )
    environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{packages}"}
    done = subprocess.run([sys.executable, "-S", "-c", probe], capture_output=True, text=True, check=True, env=environ)
    assert "noop" in done.stdout
    code, *loaded = done.stdout.splitlines()[-1].split()
    assert code == "0"
    assert not NOT_NEEDED & set(loaded)
    assert not [name for name in loaded if name.startswith(ROOMS_NOT_NEEDED)]
    assert not [name for name in loaded if name.startswith(SERVERS_AND_JOBS)]
    assert len([name for name in loaded if name.startswith("kfm")]) <= 171, "defer what is not needed"


def test_a_library_of_development_tools_is_not_loaded_for_names_that_python_has(kfm: Kfm) -> None:
    """And whoever imports it later, an updater for example, gets it: its names are those that msgspec knows."""
    assert kfm("init").code == 0
    probe = (
        "import sys; from kfm.cli.main import main\n"
        "code = main(['refs', 'list']), 'msgspec' in sys.modules, 'typing_extensions' in sys.modules\n"
        "import typing, typing_extensions, msgspec._utils as theirs\n"
        "same = typing_extensions.Required is theirs.Required is typing.Required\n"
        "print(*code, same and typing_extensions.NotRequired is theirs.NotRequired)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 True False True"


LEAVING = """
import atexit, sys, threading, time
out = sys.stdout
atexit.register(lambda: out.write("at exit\\n"))
def late():
    time.sleep(0.2)
    out.write("thread\\n")
threading.Thread(target=late).start()
sys.stdout.write("begun\\n")
sys.argv = ["kfm", *sys.argv[1:]]
from kfm.cli.main import command
command()
"""


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["nothing"], 2)])
def test_the_program_ends_as_any_does(arguments: list[str], code: int) -> None:
    done = subprocess.run([sys.executable, "-c", LEAVING, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code
    lines = done.stdout.splitlines()
    assert lines[0] == "begun" and "thread" in lines and lines[-1] == "at exit", done
