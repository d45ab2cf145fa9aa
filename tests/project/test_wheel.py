"""What is built and installed elsewhere is whole: it has every file, says its name, and does what the pages say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest

import kfm
from tests.client.notebooks import in_a_kernel, kept, shown
from tests.project.bans import ROOT, repository_files
from tests.project.first_pages import environment, first_page, make_files
from tests.project.guides import blocks, follow
from tests.project.terminal import COLUMNS

pytestmark = pytest.mark.xdist_group("wheel")  # what they share is made once

RUNTIME = {
    "apsw": "apsw",
    "cronsim": "cronsim",
    "cryptography": "cryptography",
    "google-re2": "re2",
    "gordon-to-regorus": "regorus",
    "h3": "h3",
    "msgspec": "msgspec",
    "ruamel.yaml": "ruamel",
    "tzdata": "tzdata",
}  # and what is imported of them


def quiet(*command: str, cwd: Path | None = None) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what the repository holds, with what is installed here and nothing from elsewhere."""
    copy = tmp_path_factory.mktemp("copy")
    for name in repository_files():
        if name.startswith("src/") or name in ("pyproject.toml", "README.md", "LICENSE"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)
    out = copy / "dist"
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    quiet(*pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(copy))
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment that has the wheel, what it depends on, and not this clone."""
    folder = tmp_path_factory.mktemp("environment")
    quiet(sys.executable, "-m", "venv", "--without-pip", str(folder))
    found = str(folder / "bin" / "python")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", found)
    quiet(*pip, "install", "--no-index", "--no-deps", str(wheel))
    place = quiet(found, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip()
    for name in RUNTIME.values():
        (Path(place) / name).symlink_to(Path(sysconfig.get_path("platlib")) / name)
    for needed in ("h3-*.dist-info", "_cffi_backend*"):  # h3 asks for its own version, cryptography calls cffi
        for found_there in Path(sysconfig.get_path("platlib")).glob(needed):
            (Path(place) / found_there.name).symlink_to(found_there)
    return found


def test_its_name_is_the_one_in_the_install_instructions(wheel: Path) -> None:
    assert wheel.name.startswith(f"kansas_frontier_matrix-{kfm.__version__}-")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        said = BytesParser().parsebytes(archive.read(metadata))
    assert said["Name"] == kfm.DISTRIBUTION == "kansas-frontier-matrix"
    assert {text.split(">")[0] for text in said.get_all("Requires-Dist", []) if "extra" not in text} == set(RUNTIME)


def test_it_holds_every_file_of_the_source(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = {name.removeprefix("src/") for name in repository_files() if name.startswith("src/")}
    assert inside == source
    assert "kfm/py.typed" in inside and any(name.endswith(".sql") for name in inside)


def test_no_page_says_to_install_a_package_that_is_not_ours() -> None:
    for name in repository_files():
        if name.endswith((".py", ".md", ".mjs", ".yml", ".toml")) and ROOT / name != Path(__file__):
            text = (ROOT / name).read_text(encoding="utf-8")
            for wrong in (
                "pip install kfm",
                "pip install 'kfm",
                'pip install "kfm',
                "kfm[serve]",
                "kfm[export]",
                "kfm==",
            ):
                assert wrong not in text, f"{name} says {wrong}"


def test_every_entry_point_answers_from_an_empty_environment(python: str, tmp_path: Path) -> None:
    where = quiet(python, "-c", "import kfm; print(kfm.__file__)", cwd=tmp_path).strip()
    assert not Path(where).is_relative_to(ROOT), "it is the installed one"
    command = str(Path(python).parent / "kfm")
    for words in ((command,), (python, "-m", "kfm"), (python, "-m", "updater")):
        assert quiet(*words, "--version", cwd=tmp_path) == f"kfm {kfm.__version__}\n"
    assert quiet(python, "-m", "workers", "--help", cwd=tmp_path).startswith("usage: python -m workers")


@pytest.mark.parametrize("page", ["README.md", "docs/start/tutorial.md", "docs/guides/first-updater.md"])
def test_the_pages_work_word_for_word_from_an_empty_environment_at_a_terminal(
    python: str, tmp_path: Path, page: str
) -> None:
    """At one of 80 columns; what the pages say is answered is answered, and no table is wider."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    if "whl[catalog]" in text:
        place = quiet(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip()
        (Path(place) / "jsonschema_rs").symlink_to(Path(sysconfig.get_path("platlib")) / "jsonschema_rs")
    run = [block for block in blocks(text) if block.kind in ("sh", "python") and not block.file]
    assert follow(tmp_path / "page.md", tmp_path / "reader", python, columns=COLUMNS) == len(run) >= 3


@pytest.mark.long
@pytest.mark.parametrize(("page", "columns"), [("protect-a-table.md", COLUMNS), ("stewards.md", 0)])
def test_the_pages_for_stewards_work_word_for_word_from_an_empty_environment(
    python: str, tmp_path: Path, page: str, columns: int
) -> None:
    assert follow(ROOT / "docs" / "guides" / page, tmp_path / "reader", python, columns=columns) >= 11


def test_the_notebook_works_from_an_empty_environment(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")  # the temporary folder may be one in memory
    player = shutil.copyfile(ROOT / "tests" / "client" / "notebooks.py", tmp_path / "player.py")
    notebook = ROOT / "examples" / "wells.ipynb"
    assert json.loads(quiet(python, str(player), str(notebook), cwd=tmp_path)) == kept(notebook)


@pytest.mark.long
def test_the_notebook_works_in_a_kernel_of_an_empty_environment(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jupyter from here, on its path like any extra; kfm from the wheel alone: no path of the clone is there."""
    place = tmp_path / "jupyter" / "kernels" / "wheel"
    place.mkdir(parents=True)
    kernel = {
        "argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "wheel",
        "language": "python",
        "env": {"PYTHONPATH": sysconfig.get_path("platlib"), "COLUMNS": str(COLUMNS)},
    }
    (place / "kernel.json").write_text(json.dumps(kernel))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")
    path = ROOT / "examples" / "wells.ipynb"
    where = in_a_kernel(_asking_where(path, tmp_path), tmp_path, "wheel").cells[-1].outputs[0]["text"].strip()
    assert Path(where).is_relative_to(Path(python).parents[1]), where
    played = in_a_kernel(path, tmp_path, "wheel")
    assert [shown(cell.outputs) for cell in played.cells if cell.cell_type == "code"] == kept(path)


def _asking_where(path: Path, folder: Path) -> Path:
    """A notebook of the same form that only tells which kfm it has."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    notebook["cells"] = [{**cell, "outputs": [], "source": ["import kfm\nprint(kfm.__file__)"]}]
    (folder / "where.ipynb").write_text(json.dumps(notebook))
    return folder / "where.ipynb"


@pytest.mark.long
def test_ten_files_come_from_nothing_to_a_public_page_with_three_commands(wheel: Path, tmp_path: Path) -> None:
    python, names = environment(wheel, tmp_path / "environment"), make_files(tmp_path / "files")
    assert len(names) == 10
    for name in names:
        (folder := tmp_path / "installations" / name).mkdir(parents=True)
        shutil.copyfile(tmp_path / "files" / name, folder / name)
        page = first_page(python, folder, name).page.read_text()
        assert "CC0-1.0" in page and 'href="' in page, name
