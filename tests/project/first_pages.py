"""From a file to its public page with three commands: `kfm add`, `kfm run`, `kfm promote`, from the built wheel.

`python -m tests.project.first_pages [FOLDER]` builds the wheel, installs it into a new environment, and prints the
seconds of each file: of ten made from the examples, or of every file in FOLDER.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from tests.project.bans import ROOT

DATA = ROOT / "examples" / "kansas" / "data"
_OURS = ("kfm", "__editable__", "kansas_frontier_matrix", "_kansas", "__pycache__", "updater", "workers")


class FirstPage(NamedTuple):
    """One file, and the seconds of each of the three commands."""

    name: str
    bytes: int
    seconds: tuple[float, float, float]
    page: Path


def make_files(folder: Path) -> list[str]:
    """Write ten files of ten formats from real data, and return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(DATA / "usdm-riley-county.csv", folder / "drought.csv")
    shutil.copyfile(DATA / "usgs-all-week.geojson", folder / "quakes.geojson")
    with (DATA / "usdm-riley-county.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    (folder / "weeks.json").write_text(json.dumps({"weeks": rows}))
    (folder / "lines.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with zipfile.ZipFile(folder / "tops.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(DATA / "kgs-arroyo-tops.csv", "kgs-arroyo-tops.csv")
    with (DATA / "hugoton-facies.csv").open(newline="") as file:
        facies = list(csv.reader(file))
    (folder / "facies.tsv").write_text("".join("\t".join(row) + "\n" for row in facies))
    _make_columnar(folder, rows)
    _make_grids(folder)
    return sorted(path.name for path in folder.iterdir())


def _make_columnar(folder: Path, rows: list[dict[str, str]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyogrio.raw import write_arrow

    pq.write_table(pa.Table.from_pylist(rows), folder / "drought-weeks.parquet")
    quakes = json.loads((DATA / "usgs-all-week.geojson").read_text())["features"]
    from struct import pack

    table: Any = pa.table(
        {
            "code": [one["properties"]["code"] for one in quakes],
            "mag": [float(one["properties"]["mag"] or 0) for one in quakes],
            "geometry": [pack("<BIdd", 1, 1, *one["geometry"]["coordinates"][:2]) for one in quakes],
        }
    )
    about = {"geometry_name": "geometry", "geometry_type": "Point", "crs": "EPSG:4326"}
    write_arrow(table, folder / "epicentres.gpkg", driver="GPKG", **about)


def _make_grids(folder: Path) -> None:
    import numpy as np
    import rasterio
    from netCDF4 import Dataset
    from rasterio.transform import from_bounds

    rain = np.random.default_rng(1).gamma(1, 5, (30, 75)).astype("float32")
    about = {"driver": "GTiff", "count": 1, "height": 30, "width": 75, "dtype": "float32", "nodata": -9999}
    box = from_bounds(-102, 37, -94.5, 40, 75, 30)
    with rasterio.open(folder / "rain.tif", "w", crs="EPSG:4326", transform=box, **about) as file:
        file.write(rain, 1)
    with Dataset(folder / "warmth.nc", "w") as grid:
        for name, unit, values in (
            ("lat", "degrees_north", np.linspace(37, 40, 30)),
            ("lon", "degrees_east", np.linspace(-102, -94.5, 75)),
        ):
            grid.createDimension(name, len(values))
            axis = grid.createVariable(name, "f8", (name,))
            axis.units, axis.standard_name = unit, {"lat": "latitude", "lon": "longitude"}[name]
            axis[:] = values
        warmth = grid.createVariable("warmth", "f4", ("lat", "lon"))
        warmth.units = "K"
        warmth[:] = rain + 280


def environment(wheel: Path, folder: Path) -> str:
    """Make an environment with the wheel and every library that is installed here, without this clone. Return its
    Python. Libraries are linked file by file: a folder elsewhere would be closed to the sandbox of a reader."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    place = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
    )
    for path in Path(sysconfig.get_path("platlib")).iterdir():
        if path.name.startswith(_OURS):
            continue
        if path.is_dir():
            shutil.copytree(path, place / path.name, copy_function=_linked, symlinks=True)
        elif path.suffix != ".pth":
            _linked(str(path), str(place / path.name))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", python]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", str(wheel)], check=True)
    return python


def _linked(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def first_page(python: str, folder: Path, name: str) -> FirstPage:
    """Add, run and promote one file in a folder where there is nothing else, and return how long each took."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("KFM_", "PYTHON"))}
    env["KFM_ACCEPT_WEAK_STORAGE"] = "true"

    def kfm(*line: str) -> tuple[float, str]:
        start = perf_counter()
        done = subprocess.run([python, "-m", "kfm", *line], cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"kfm {' '.join(line)}: {done.stdout}{done.stderr}"
        return perf_counter() - start, done.stdout

    added, said = kfm("add", name, "--license", "CC0-1.0", "--public", "--json")
    dataset = json.loads(said)["dataset"]
    ran, _ = kfm("run", dataset)
    promoted, _ = kfm("promote", dataset, "--reason", "first edition")
    return FirstPage(
        name, (folder / name).stat().st_size, (added, ran, promoted), folder / json.loads(said)["would_publish"]["page"]
    )


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the sources."""
    from tests.project.bans import repository_files

    for name in repository_files():
        if name.startswith("src/") or name in ("pyproject.toml", "README.md", "LICENSE"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--wheel-dir", str(folder / "dist"), str(folder)], check=True)
    (found,) = (folder / "dist").glob("*.whl")
    return found


def main(words: list[str], write: Callable[[str], Any] = print) -> int:
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        python = environment(build_wheel(base / "copy"), base / "environment")
        files = base / "files"
        if words:
            shutil.copytree(words[0], files)
            names = sorted(path.name for path in files.iterdir() if path.is_file())
        else:
            names = make_files(files)
        write("| file | size | `kfm add` | `kfm run` | `kfm promote` | together |\n|---|---|---|---|---|---|")
        for name in names:
            (folder := base / "installations" / name).mkdir(parents=True)
            shutil.copyfile(files / name, folder / name)
            found = first_page(python, folder, name)
            assert found.page.is_file(), f"{name} has no page"
            seconds = " | ".join(f"{one:.1f} s" for one in (*found.seconds, sum(found.seconds)))
            write(f"| `{name}` | {found.bytes / 1024:,.0f} KiB | {seconds} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
