"""The notebook of the examples does what it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.abilities import lacking
from tests.client.notebooks import in_a_kernel, kept, played, shown, sources
from tests.project.bans import ROOT

NOTEBOOK = ROOT / "examples" / "wells.ipynb"
SERVED = ROOT / "examples" / "served.ipynb"


def test_its_cells_show_what_it_was_saved_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    found, saved = played(NOTEBOOK), kept(NOTEBOOK)
    assert found == saved and len(found) == len(sources(NOTEBOOK)) >= 12
    assert all(found), "every cell shows something"


@pytest.mark.long
def test_the_notebook_about_a_server_shows_what_it_was_saved_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    found = played(SERVED)
    assert found == kept(SERVED) and len(found) == len(sources(SERVED)) >= 9
    assert all(found), "every cell shows something"


def test_a_kernel_of_jupyter_shows_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        import ipykernel
        import nbclient  # noqa: F401
    except ImportError:
        lacking("nbclient or ipykernel is not installed")
    assert ipykernel
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    done = in_a_kernel(NOTEBOOK, tmp_path)
    found = [shown(cell.outputs) for cell in done.cells if cell.cell_type == "code"]
    assert found == kept(NOTEBOOK)
    assert list(tmp_path.glob("tmp*/kfm.yml")), "it made its installation there"


def test_a_notebook_that_shows_something_else_is_noticed(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": ["1 + 1"], "outputs": []}
    cell["outputs"] = [{"output_type": "execute_result", "data": {"text/plain": ["3"]}}]
    (tmp_path / "wrong.ipynb").write_text(json.dumps({"cells": [cell]}))
    assert played(tmp_path / "wrong.ipynb") == [{"text/plain": "2"}] != kept(tmp_path / "wrong.ipynb")
    cell["source"] = ["1 / 0"]
    (tmp_path / "wrong.ipynb").write_text(json.dumps({"cells": [cell]}))
    with pytest.raises(ZeroDivisionError):
        played(tmp_path / "wrong.ipynb")


def test_it_is_of_no_machine_and_no_person() -> None:
    for notebook in (NOTEBOOK, SERVED):
        text = notebook.read_text(encoding="utf-8")
        assert not [word for word in ("/tmp", "/home", "kernelspec", "127.0.0.1") if word in text]
