"""The pictures of the screen in the pages are what the commands print today."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from tests.project import pictures, terminal
from tests.project.bans import ROOT, repository_files

_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]*pictures/[^)]+)\)")


def test_every_picture_is_what_the_command_prints_today(tmp_path: Path) -> None:
    current = pictures.pictures()
    assert set(current) == {f"{name}.svg" for name in ("init", "run", "status", "wells", "diff", "refusal")}
    assert pictures.stale(pictures.FOLDER, current) == [], "run `make pictures`"
    changed = {**current, "run.svg": current["run.svg"].replace("done", "dane"), "more.svg": ""}
    assert pictures.stale(pictures.FOLDER, changed) == ["more.svg", "run.svg"]


def test_a_picture_is_in_a_page_with_what_it_shows_in_words() -> None:
    shown = {}
    for name in repository_files():
        if name == "README.md" or (name.startswith("docs/") and name.endswith(".md")):
            for said, path in _IMAGE.findall((ROOT / name).read_text(encoding="utf-8")):
                shown[Path(path).name] = said
    assert set(shown) == {path.name for path in pictures.FOLDER.rglob("*") if path.is_file()}
    for name, said in shown.items():
        if not name.endswith(".svg"):
            continue
        tree = ElementTree.parse(pictures.FOLDER / name)
        assert tree.findtext("{http://www.w3.org/2000/svg}title") == said


def test_a_screen_is_drawn_where_it_stood_with_its_colours() -> None:
    drawn = pictures.svg("\x1b[1mA  B\x1b[0m\nx  \x1b[32mdone \x1b[0m <y>", "t & t")
    texts = [
        (one.get("x"), one.get("font-weight"), one.get("fill"), one.text)
        for one in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert texts == [
        ("14.0", "bold", None, "A  B"),
        ("14.0", None, None, "x"),
        ("39.2", None, "#9ece6a", "done"),
        ("89.6", None, None, "<y>"),
    ]
    assert "t &amp; t" in drawn and drawn.count("<text") == 4
    folded = pictures.svg("\x1b[31mkfm:\x1b[0m " + "word " * 30, "t")
    assert folded.count("<text") == 3 and 'fill="#ff8a80"' in folded


def test_a_terminal_is_read_as_a_person_sees_it(tmp_path: Path) -> None:
    script = "printf 'one\\rtwo\\r\\033[Kthree\\n'; stty size < /dev/tty 2>/dev/null || printf '%s\\n' $COLUMNS; exit 3"
    code, shown = terminal.typed(["sh", "-c", script], tmp_path, {"PATH": "/usr/bin:/bin"})
    assert code == 3 and shown.splitlines()[0] == "three" and "80" in shown
    wide = f"NAME  {'x' * 80}"
    assert terminal.too_wide(f"{'word ' * 20}\n\x1b[1m{wide}\x1b[0m\nplan  sha256:{'0' * 64} and more and more\n") == [
        wide
    ]
