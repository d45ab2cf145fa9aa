"""No file over 600 lines, no function over 80, no import cycle; and each of the checks has been seen to say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import shape
from tests.project.bans import ROOT
from tests.project.shape import MAX_LINES


def test_nothing_is_too_long_and_nothing_goes_in_a_circle() -> None:
    assert [str(finding) for finding in shape.check_shape()] == []


def test_what_is_looked_at_is_all_there_is() -> None:
    files = shape.code_files()
    assert {"src/kfm/errors.py", "updater.mjs", "tests/project/shape.py"} <= set(files)
    graph = shape.python_imports(ROOT / "src")
    assert "kfm.errors" in graph["kfm.model.canonical"] | graph["kfm.config.config_loader"]
    assert len(graph) == len([name for name in files if name.startswith("src/")])
    modules = [name for name in files if name.endswith(".mjs")]
    assert sum(map(len, shape.module_imports(ROOT, modules).values())) > len(modules)
    for name in modules:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert text.count("\nfunction ") + text.count("\nexport function ") <= len(list(shape.module_functions(text)))


def test_a_file_that_is_too_long_is_found() -> None:
    for name in ("src/kfm/x.py", "tests/x.py", "node/x.mjs"):
        assert [f.what for f in shape.check_lengths(name, "\n" * (MAX_LINES + 1))] == [
            "601 lines; split it by concern, 600 is the most"
        ]
        assert not list(shape.check_lengths(name, "\n" * MAX_LINES))


@pytest.mark.parametrize(
    ("name", "opening", "closing"),
    [
        ("x.py", "def f():\n", ""),
        ("x.py", "class A:\n    def f(self):\n", ""),
        ("x.py", "async def f():\n", ""),
        ("x.mjs", "function f(a, b) {\n", "}\n"),
        ("x.mjs", "export async function f({ a, b }) {\n", "}\n"),
        ("x.mjs", "export function* f(\n  a,\n) {\n", "}\n"),
        ("x.mjs", "class A {\n  #f(a) {\n", "  }\n}\n"),
        ("x.mjs", "class A {\n  static async f(a) {\n", "  }\n}\n"),
        ("x.mjs", "const f = (a) => {\n", "};\n"),
    ],
)
def test_a_function_that_is_too_long_is_found(name: str, opening: str, closing: str) -> None:
    def findings(lines: int) -> list[str]:
        return [f.what for f in shape.check_lengths(name, opening + "        x = 1\n" * lines + closing)]

    (found,) = findings(shape.MAX_FUNCTION)
    assert "f is 8" in found and found.endswith("80 is the most")
    assert not findings(70)


def test_modules_that_import_each_other_are_found_however_late_they_do(tmp_path: Path) -> None:
    package = tmp_path / "kfm"
    package.mkdir()
    for name, text in {
        "__init__": "from kfm import b\n",
        "a": "from __future__ import annotations\nimport kfm.b\n",
        "b": "def later():\n    from kfm.c import x\n",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import a\n",
        "d": "import kfm.a\n",
    }.items():
        (package / f"{name}.py").write_text(text)
    assert shape.circles(shape.python_imports(tmp_path)) == [["kfm.a", "kfm.b", "kfm.c"]]
    (package / "c.py").write_text("import os\n")
    assert shape.circles(shape.python_imports(tmp_path)) == []


def test_node_modules_that_import_each_other_are_found(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, text in {
        "a.mjs": 'import { x } from "./in/b.mjs";\n',
        "in/b.mjs": 'const { y } = await import("../c.mjs");\n',
        "c.mjs": 'import {\n  z,\n} from "./a.mjs";\n',
    }.items():
        (tmp_path / name).write_text(text)
    names = ["a.mjs", "in/b.mjs", "c.mjs"]
    assert shape.circles(shape.module_imports(tmp_path, names)) == [["a.mjs", "c.mjs", "in/b.mjs"]]
    (tmp_path / "c.mjs").write_text('export { z } from "./other.mjs";\n')
    assert shape.circles(shape.module_imports(tmp_path, names)) == []
