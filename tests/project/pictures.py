"""Pictures of the screen for the pages: what commands really print on a terminal of 80 columns, as SVG.

`make pictures` takes them anew. They are taken in a temporary installation with the clock set, so that the same program
makes the same bytes; only the line that says so is left out, which nobody else would see.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from tests.project import guides, terminal

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "pictures"
GUIDE = ROOT / "docs" / "guides" / "first-updater.md"
NOW = "2026-03-02T06:00:00Z"
# Drawn by hand; the others are taken from the screen.
DRAWN = {"architecture.svg", "protection.svg", "concept-run.svg", "concept-zones.svg", "concept-versions.svg"}


class Shot(NamedTuple):
    """What is typed; what of it is shown, under which name and title; and how it ends."""

    typed: str
    name: str = ""
    shown: str = ""
    title: str = ""
    code: int = 0


RAIN = (
    Shot("kfm init rain", "init", "kfm init rain", "kfm init writes an installation and says what to do next"),
    Shot("cd rain && kfm run", "run", "kfm run", "kfm run: one dataset done, three keys added, one row in quarantine"),
    Shot("cd rain && kfm status", "status", "kfm status", "kfm status: the state of each dataset, and what to do next"),
)
WELLS = (
    Shot("kfm run", "wells", "kfm run", "kfm run: the dataset is done, two keys added, one row in quarantine"),
    Shot("kfm publish wells --reason 'first edition'"),
    Shot("sed -i.before 's/3310/3450/' data/wells.csv && kfm run"),
    Shot("kfm diff wells", "diff", "kfm diff wells", "kfm diff: one key changed, with the number of rows"),
    Shot("sed -i.before '/license/d' kfm.yml"),
    Shot(
        "kfm publish wells --reason 'second edition'",
        "refusal",
        "kfm publish wells --reason 'second edition'",
        "kfm publish is refused: the dataset has no licence, and how to correct it",
        4,
    ),
)
_COLORS = {"31": "#ff8a80", "32": "#9ece6a", "33": "#e0af68", "34": "#7aa2f7"}
_STYLED = re.compile(r"\x1b\[([0-9;]*)m")
_CLOCK = re.compile(r"^the clock is fixed at .*\n", re.M)
_COLUMN, _LINE, _EDGE = 8.4, 19, 14


def pictures() -> dict[str, str]:
    """Every picture by the name of its file, as the program of today makes it."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place:
        for part, shots in (("rain", RAIN), ("wells", WELLS)):
            folder = Path(place) / part
            folder.mkdir()
            if part == "wells":
                _lay_out(folder)
            for shot in shots:
                code, shown = terminal.typed(["sh", "-ec", shot.typed], folder, _environment(Path(place)))
                assert code == shot.code, f"{shot.typed} ended with {code}:\n{shown}"
                if shot.name:
                    screen = f"\x1b[1m$ {shot.shown}\x1b[0m\n" + _CLOCK.sub("", shown).rstrip("\n")
                    found[f"{shot.name}.svg"] = svg(screen, shot.title)
    return found


def _lay_out(folder: Path) -> None:
    """The files of the guide, so that its pictures are of what its reader has."""
    for block in guides.blocks(GUIDE.read_text(encoding="utf-8")):
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.body, encoding="utf-8")


def _environment(place: Path) -> dict[str, str]:
    tools = place / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "kfm").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kfm "$@"\n')
    (tools / "kfm").chmod(0o755)
    return {
        "PATH": f"{tools}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(place),
        "LC_ALL": "C.UTF-8",
        "KFM_ACTOR": "you",
        "KFM_NOW": NOW,
        "KFM_ACCEPT_WEAK_STORAGE": "true",
    }


def svg(screen: str, title: str) -> str:
    """A screen with its colours as a picture; its text stays text."""
    lines = [piece for line in screen.split("\n") for piece in _folded(line)]
    width, height = round(terminal.COLUMNS * _COLUMN) + 2 * _EDGE, len(lines) * _LINE + 2 * _EDGE
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" aria-labelledby="title">',
        f'<title id="title">{escape(title)}</title>',
        '<rect width="100%" height="100%" rx="6" fill="#1a1b26"/>',
        '<g font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="#e6e6e6">',
    ]
    for n, line in enumerate(lines):
        baseline = _EDGE + n * _LINE + 14
        for column, text, style in _runs(line):
            long = round(len(text) * _COLUMN, 1)
            drawn.append(
                f'<text x="{round(_EDGE + column * _COLUMN, 1)}" y="{baseline}" textLength="{long}" '
                f'lengthAdjust="spacingAndGlyphs" xml:space="preserve"{style}>{escape(text)}</text>'
            )
    return "\n".join([*drawn, "</g>", "</svg>", ""])


def _folded(line: str) -> Iterator[str]:
    """As a terminal breaks a line that is too long for it: wherever its last column is."""
    if terminal.width(line) <= terminal.COLUMNS:
        yield line
        return
    codes = _STYLED.findall(line)
    text = terminal.plain(line)
    start = f"\x1b[{codes[0]}m" if line.startswith("\x1b[") and len(codes) == 2 else ""
    painted = len(_STYLED.split(line)[2]) if start else 0  # such as the `kfm:` before an error
    for at in range(0, len(text), terminal.COLUMNS):
        piece = text[at : at + terminal.COLUMNS]
        yield f"{start}{piece[:painted]}\x1b[0m{piece[painted:]}" if start and not at else piece


def _runs(line: str) -> Iterator[tuple[int, str, str]]:
    """What stands in which column, and how it looks."""
    column, style = 0, ""
    for n, part in enumerate(_STYLED.split(line)):
        if n % 2:
            style = _style(part)
        elif part.strip():
            lead = len(part) - len(part.lstrip())
            yield column + lead, part.strip(), style
        column += 0 if n % 2 else len(part)


def _style(code: str) -> str:
    if code == "1":
        return ' font-weight="bold"'
    if code == "2":
        return ' fill="#a9b1d6"'
    return f' fill="{_COLORS[code]}"' if code in _COLORS else ""


def stale(folder: Path, current: dict[str, str]) -> list[str]:
    """Pictures that are absent, old, or of something that is gone."""
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.svg") if path.name not in DRAWN}
    return sorted(name for name in there.keys() | current.keys() if there.get(name) != current.get(name))


def main() -> int:
    current = pictures()
    FOLDER.mkdir(exist_ok=True)
    for name in stale(FOLDER, current):
        (FOLDER / name).unlink(missing_ok=True)
        if name in current:
            (FOLDER / name).write_text(current[name], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
