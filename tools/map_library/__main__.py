"""python -m tools.map_library

Installs what package-lock.json pins by digest into a temporary folder, and writes the files that a browser needs,
compressed, with their licences and digests, into src/kfm/api/console/web/library. Needs npm.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
LIBRARY = HERE.parents[1] / "src" / "kfm" / "api" / "console" / "web" / "library"
# Name in the library: the package, and the file in it.
FILES = {
    "maplibre-gl.js": ("maplibre-gl", "dist/maplibre-gl-csp.js"),
    "maplibre-gl-worker.js": ("maplibre-gl", "dist/maplibre-gl-csp-worker.js"),
    "maplibre-gl.css": ("maplibre-gl", "dist/maplibre-gl.css"),
    "pmtiles.js": ("pmtiles", "dist/pmtiles.js"),
}
UNWRITTEN = {"pmtiles": "pmtiles-LICENSE.txt"}  # packages that leave their licence out; all others of them are MIT


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, place)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=place, check=True)
        packages = Path(place) / "node_modules"
        LIBRARY.mkdir(exist_ok=True)
        rows = [_written(packages, name) for name in FILES]
        licences = "\n\n".join(_licences(Path(place)))
    (LIBRARY / "LICENSES.txt").write_text(licences, encoding="utf-8")
    head = (
        "# Where these files come from\n\n`python -m tools.map_library` writes them from npm, as "
        "tools/map_library/package-lock.json pins them; LICENSES.txt has the licences.\n\n"
        "| file | package | version | file in it | SHA-256 before compression |\n|---|---|---|---|---|\n"
    )
    (LIBRARY / "SOURCES.md").write_text(head + "".join(rows), encoding="utf-8")
    return 0


def _written(packages: Path, name: str) -> str:
    """Write a file of the library, and return its row in the table of sources."""
    package, path = FILES[name]
    body = (packages / package / path).read_bytes()
    (LIBRARY / f"{name}.gz").write_bytes(gzip.compress(body, 9, mtime=0))
    version = json.loads((packages / package / "package.json").read_text())["version"]
    return f"| {name} | {package} | {version} | {path} | {hashlib.sha256(body).hexdigest()} |\n"


def _licences(place: Path) -> Iterator[str]:
    """Yield the licence of each package: what is in it was bundled into the files."""
    for path, said in sorted(json.loads((place / "package-lock.json").read_text())["packages"].items()):
        name = path.rpartition("node_modules/")[2]
        if not path or name.startswith("@types/"):
            continue
        found = sorted((place / path).glob("LICENSE*"))
        text = found[0].read_text(encoding="utf-8") if found else _unwritten(place / path, name)
        lines = "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").strip().split("\n"))
        yield f"{'=' * 80}\n{name} {said['version']}\n{'=' * 80}\n\n{lines}\n"


def _unwritten(folder: Path, name: str) -> str:
    if name in UNWRITTEN:
        return (HERE / UNWRITTEN[name]).read_text(encoding="utf-8")
    said = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    author = said.get("author", "")
    author = author.get("name", "") if isinstance(author, dict) else str(author).partition("<")[0].strip()
    return f"MIT License. Copyright (c) {author}\n\n" + (HERE / "MIT-LICENSE.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
