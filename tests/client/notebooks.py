"""Plays a notebook as a reader would, cell by cell from the top, and tells what each shows.

Needs nothing but Python, so that it can be played where only kfm is installed:
`python tests/client/notebooks.py examples/wells.ipynb` tells as JSON what the cells show. With `--write`, and a kernel
of Jupyter, what they show is kept in the notebook.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

_RUN = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"
_CHANGING = re.compile(rf"{_RUN}|{_INSTANT}|sha256:[0-9a-f]+")


def sources(path: Path) -> list[str]:
    """The code of its cells."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def kept(path: Path) -> list[dict[str, str]]:
    """What its cells showed when it was saved."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [shown(cell["outputs"]) for cell in cells if cell["cell_type"] == "code"]


def shown(outputs: list[dict[str, Any]]) -> dict[str, str]:
    """By kind; without what is another each time (ids of runs, instants, digests of what holds them), and however a
    kernel breaks the lines of a list."""
    found: dict[str, str] = {}
    for output in outputs:
        if output["output_type"] == "stream":
            found[output["name"]] = found.get(output["name"], "") + "".join(output["text"])
        elif output["output_type"] == "error":
            found["error"] = output["ename"]
        else:
            found.update({kind: "".join(text) for kind, text in output["data"].items()})
    return {kind: " ".join(_CHANGING.sub("…", text).split()) for kind, text in sorted(found.items())}


def played(path: Path) -> list[dict[str, str]]:
    """What the cells show now, executed in one namespace. An error ends it, as it would for the reader."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    return [_cell(source, namespace) for source in sources(path)]


def _cell(source: str, namespace: dict[str, Any]) -> dict[str, str]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, outputs = io.StringIO(), []
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
            if value is not None:
                data = {"text/plain": repr(value)}
                if hasattr(value, "_repr_html_"):
                    data["text/html"] = value._repr_html_()
                outputs.append({"output_type": "execute_result", "data": data})
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    return shown(outputs)


def in_a_kernel(path: Path, folder: Path, kernel: str = "python3") -> Any:
    """The notebook after a kernel of Jupyter has executed it."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name=kernel, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def write(path: Path) -> None:
    """Execute it, and keep what its cells show."""
    import nbformat

    notebook = in_a_kernel(path, Path())
    for cell in notebook.cells:
        cell.metadata = {}
    notebook.metadata = {"language_info": {"name": "python"}}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    if "--write" in sys.argv:
        write(Path(sys.argv[1]))
    else:
        sys.stdout.write(json.dumps(played(Path(sys.argv[1]))) + "\n")
