from __future__ import annotations

import pytest

from tests.project import bans, modules

SEEDED = {
    "wall clock": "import time\nt = time.time()\n",
    "wall clock under another name": "from time import time as now\nt = now()\n",
    "a clock in a default": "import datetime as d\ndef f(now=d.datetime.now): ...\n",
    "today": "from datetime import date\nt = date.today()\n",
    "monotonic": "import time\nt = time.monotonic()\n",
    "replace": "import os\nos.replace('a', 'b')\n",
    "rename from os": "from os import rename\n",
    "open to write": "open('x', 'wb')\n",
    "open to append by keyword": "open('x', mode='a')\n",
    "open in a mode from elsewhere": "def f(m): open('x', m)\n",
    "a path opened to write": "from pathlib import Path\nPath('x').open('x')\n",
    "write_text": "def f(p): p.write_text('x')\n",
    "path replace": "def f(p, q): p.replace(q)\n",
    "flags that create": "import os\nos.open('x', os.O_RDWR | os.O_CREAT)\n",
    "temporary file": "import tempfile\ntempfile.mkstemp()\n",
    "pickle": "import pickle\n",
    "marshal inside a function": "def f():\n    from marshal import loads\n",
    "eval": "eval('1')\n",
    "exec handed on": "f = exec\n",
    "yaml.load": "import yaml\nyaml.load('a')\n",
    "yaml.unsafe_load": "from yaml import unsafe_load\n",
    "shell": "import subprocess\nsubprocess.run('ls', shell=True)\n",
    "shell by variable": "import subprocess\ndef f(s): subprocess.run('ls', shell=s)\n",
    "os.system": "import os\nos.system('ls')\n",
    "print": "print('x')\n",
}
HARMLESS = {
    "reading": "with open('x', 'rb') as f: f.read()\nopen('y')\n",
    "an object store's open": "def f(objects, digest): return objects.open(digest)\n",
    "an object store's open, by literal": "def f(objects): return objects.open('sha256:aa')\n",
    "text replace": "x = 'a'.replace('a', 'b')\n",
    "record replace": "from msgspec.structs import replace\ny = replace({}, a=1)\n",
    "sleep": "import time\ntime.sleep(1)\n",
    "a method called print": "def f(x): x.print()\n",
    "a clock handed in": "def f(clock): return clock.now_ms(), clock.monotonic()\n",
    "read-only flags": "import os\nos.open('x', os.O_RDONLY | os.O_DIRECTORY)\n",
    "the null device": "import os\nfd = os.open(os.devnull, os.O_WRONLY)\n",
    "no shell": "import subprocess\nsubprocess.run(['ls'], shell=False)\n",
    "safe yaml": "import yaml\nyaml.safe_load('a')\n",
}
PHRASES = [
    f"see {bans.ROOT}/docs",
    "# TO" + "DO later",
    "see /ro" + "ot/x",
    "see /ho" + "me/someone/x",
    "from pypi" + ".org",
    "Co-authored" + "-by: x",
]


@pytest.mark.long  # `make lint` asks it, before any test
def test_the_repository_keeps_every_ban() -> None:
    assert "src/kfm/errors.py" in bans.repository_files()
    assert [str(finding) for finding in bans.check_repository()] == []


@pytest.mark.parametrize("name", SEEDED)
def test_a_seeded_violation_is_found(name: str) -> None:
    assert list(bans.check_source("src/kfm/engine/seeded.py", SEEDED[name]))


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_looks_like_a_violation_is_let_through(name: str) -> None:
    assert list(bans.check_source("src/kfm/engine/seeded.py", HARMLESS[name])) == []


@pytest.mark.parametrize("stem", sorted(bans.MODULE_NAMES))
def test_a_module_name_that_says_nothing_is_found(stem: str) -> None:
    assert list(bans.check_source(f"src/kfm/engine/{stem}.py", ""))


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_text_that_speaks_of_anything_but_the_project_is_found(phrase: str) -> None:
    assert [finding.line for finding in bans.check_text("docs/x.md", f"first line\n{phrase}\n")] == [2]


def test_a_banned_word_is_found_whatever_its_case_and_only_as_a_whole_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bans, "WORDS", frozenset({bans.word_digest("heron")}))
    assert [f.line for f in bans.check_text("docs/x.md", "one\na Heron, here\nherons\nHERON_FLAG\n")] == [2]


def test_every_exception_to_a_ban_is_a_file_that_uses_it() -> None:
    for ban in bans.BANS:
        for entry in ban.allowed:
            if entry.endswith("*"):
                assert (bans.ROOT / entry[:-1]).is_dir()
                continue
            text = (bans.ROOT / entry).read_text(encoding="utf-8")
            elsewhere = "src/kfm/engine/seeded.py"
            assert any(ban.why in finding.what for finding in bans.check_source(elsewhere, text)), entry


MODULES = {
    "the time": "const t = Date.now();\n",
    "the environment": "const home = process.env.HOME;\n",
    "chance": "const x = Math.random();\n",
    "a text that becomes code": "eval('1');\n",
    "a word on the screen": "console.log(1);\n",
    "a file that is written": "fs.writeFileSync('a', 'b');\n",
    "a package": 'import yaml from "yaml";\nyaml;\n',
    "a package that is required": 'const yaml = createRequire(import.meta.url)("yaml");\n',
    "an import that is not used": 'import { digest } from "./keys.mjs";\n',
    "an import that is not there": 'import { nothing } from "./keys.mjs";\nnothing();\n',
    "an import that is not there when it is wanted": 'const { nothing } = await import("./keys.mjs");\nnothing();\n',
    "a module that is not there": 'import { digest } from "./nowhere.mjs";\ndigest();\n',
    "a tab": "\tx;\n",
}


@pytest.mark.parametrize("name", MODULES)
def test_a_seeded_violation_in_a_module_is_found(name: str) -> None:
    assert list(modules.check_module("node/seeded.mjs", MODULES[name]))


def test_a_module_that_keeps_the_bans_is_let_through() -> None:
    text = 'import { digest } from "./keys.mjs";\n\n// never Date.now()\nexport const x = [...digest("a")];\n'
    assert list(modules.check_module("node/seeded.mjs", text)) == []
